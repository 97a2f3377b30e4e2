import Journal

/// Does the slow work on a permitted large write before its commit: it updates the child orders of live queries, and stages the operations
/// in the log. Confined to the database queue.
final class WriteStaging: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let journal: any Journal
    private let log: LogGuard
    private let indexes: IndexStore
    private let suspendedRequests: SuspendedRequests
    private let answers: Answers
    private let committer: WriteCommitter

    init(
        _ context: EngineContext, _ journal: any Journal, _ log: LogGuard, _ indexes: IndexStore, _ suspendedRequests: SuspendedRequests,
        _ answers: Answers, _ committer: WriteCommitter
    ) {
        self.context = context
        self.journal = journal
        self.log = log
        self.indexes = indexes
        self.suspendedRequests = suspendedRequests
        self.answers = answers
        self.committer = committer
    }

    /// Updates the child orders of live queries, in the background. Without memory for that, the queries show the write
    /// after its answer.
    func run(_ write: PreparedWrite, _ large: LargeWrite, then install: @escaping @Sendable (PreparedWrite, LargeWrite) -> Void) {
        let orders = indexes.orders(within: write.commonAncestor)
        if orders.isEmpty { return stage(write, large, install) }
        let isSuspended = suspendedRequests.suspend(large.item, holding: large.bytes + orders.bytes, follows: .sinceNow) {
            {
                var write = write
                write.orders = orders.following(write.candidate)
                return write
            }
        } then: { [self] (ordered: PreparedWrite) in
            if committer.answersUnlessReadable(large.asked, large.item) { stage(ordered, large, install) }
        }
        if !isSuspended { stage(write, large, install) }
    }

    /// Stages the operations in the log.
    private func stage(
        _ write: PreparedWrite, _ large: LargeWrite, _ install: @escaping @Sendable (PreparedWrite, LargeWrite) -> Void
    ) {
        let (asked, item) = (large.asked, large.item)
        // While the log refuses commits, the commit refuses this one like any other.
        guard item.size >= journal.stagedBytes, large.stage == nil, !log.isRefusing else { return install(write, large) }
        let isSuspended = suspendedRequests.suspend(item, holding: large.bytes) { done in
            journal.stage(write.operations, completion: done)
        } then: { [self] (staged: Result<JournalStage, JournalError>) in
            guard committer.answersUnlessReadable(asked, item) else { return }
            switch staged {
            case .success(let stage):
                var large = large
                large.stage = stage
                install(write, large)
            case .failure(let error):
                context.meter.counters.refusedWrites += 1
                answers.answer(committer.refusal(of: asked, Failure(.unavailable, CommitRefusal(error).text)), item)
            }
        }
        if !isSuspended { answers.answer(.failed(.noRoom), item) }
    }
}
