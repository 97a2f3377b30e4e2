import Journal
import JSONTree

/// Applies the commits of another writer, from a journal's tail. Each passes the commit stages after the permission check. A batch that
/// does not continue the last one ends the follower: the database keeps its content and reports that it is cut off.
///
/// ```
/// journal ─► tail ─► database queue: next batch ─► CommitPipeline.apply ─► observers
///                                    └─► gap, end ─► cut off
/// ```
/// Confined to the database queue.
final class Follower: @unchecked Sendable {
    // Sendable: the tail only hops to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let commits: CommitPipeline
    private let durability: DurabilityQueue
    private let log: LogGuard
    private let journal: any Journal
    private var pending = PendingSessions()
    /// The epoch of the newest writer.
    private(set) var epoch: UInt64 = 0
    private(set) var hasEnded = false
    /// Gets the commits that carry out forwarded requests; nil if nothing is forwarded.
    private let forwarding: Forwarding?
    /// Called when a batch was applied and its output sent.
    var onApplied: (JournalBatch) -> Void = { _ in }
    /// Called when no more batches will come.
    var onEnd: (JournalError) -> Void = { _ in }
    /// Set once, before anything is received.
    private var tail: JournalTail?

    /// - Parameter pending: the pending onDisconnect writes before the first commit that is followed.
    init(
        _ context: EngineContext, _ pipeline: BatchPipeline, _ commits: CommitPipeline, _ journal: any Journal, _ forwarding: Forwarding?,
        pending: [PendingSession]
    ) {
        self.context = context
        (content, durability, log) = (pipeline.content, pipeline.durability, pipeline.log)
        self.commits = commits
        self.journal = journal
        self.forwarding = forwarding
        for session in pending {
            self.pending.apply(.identify(session: session.id, auth: session.auth, isAdmin: session.isAdmin))
            for write in session.writes.writes { self.pending.apply(.keep(session: session.id, write)) }
        }
    }

    deinit { tail?.cancel() }

    /// The pending onDisconnect writes of all sessions, as of the last applied batch.
    var pendingSessions: [PendingSession] { pending.sessions }

    /// Starts to follow after the commits in the content. Called once.
    func begin() {
        tail = journal.tail(from: content.sequence) { [weak self, queue = context.queue] event in
            queue.async { [weak self] in self?.receive(event) }
        }
    }

    private func receive(_ event: TailEvent) {
        context.queue.assertCurrent()
        if hasEnded { return }
        switch event {
        case .end(let error): end(error)
        case .batch(let batch):
            guard batch.expectedLast == content.sequence, batch.sequence > content.sequence else {
                return end(.conflict(expected: batch.expectedLast, last: content.sequence))
            }
            guard batch.epoch >= epoch else { return end(.superseded(epoch: batch.epoch, newest: epoch)) }
            epoch = batch.epoch
            for commit in batch.commits {
                commits.apply(commit)
                for case .pending(let change) in commit.operations { pending.apply(change) }
                if let forwarding { for case .peer(let change) in commit.operations { forwarding.applied(change, commit.sequence) } }
            }
            durability.confirm()
            forwarding?.catchUp()
            durability.finishBatch()
            onApplied(batch)
        }
    }

    /// The empty commit with which this hub would become the writer.
    func claim(id: UInt64, epoch: UInt64) -> JournalBatch {
        var claim = JournalBatch(after: content.sequence)
        claim.append([])
        (claim.id, claim.epoch) = (id, epoch)
        return claim
    }

    /// Appends a claim. If the log accepts it, it comes back as a batch to apply.
    func append(_ claim: JournalBatch, onRefused: @escaping @Sendable (JournalError) -> Void) {
        journal.append(claim) { [queue = context.queue] result in
            guard case .failure(let error) = result else { return }
            queue.async { onRefused(error) }
        }
    }

    /// Stops applying batches.
    func end() {
        hasEnded = true
        tail?.cancel()
    }

    private func end(_ error: JournalError) {
        end()
        log.cutOff(error)
        onEnd(error)
    }
}
