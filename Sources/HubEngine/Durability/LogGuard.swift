import Journal
import JSONTree
import Scheduling

/// Whether the journal takes commits, and what is done while it does not: writes are refused, and the journal is tried with a commit
/// that changes nothing, from time to time. Confined to the database queue.
///
/// When it was not known what became of some batches, the first try tells: either it follows what was durable before, so nothing
/// of them is stored, or it does not, and they are found by appending them again.
final class LogGuard: @unchecked Sendable {
    // Sendable: only hops back to the queue.
    private let context: EngineContext
    private let content: Content
    private let durability: DurabilityLine
    private let journal: any Journal
    private var breaker = LogBreaker.closed
    /// Whether writes are refused until what was owed to the journal is written.
    private var isClosed = false
    /// Batches that were given up while it was not known whether they are stored; oldest first.
    private var unsettled: [JournalBatch] = []
    /// The last try, while it is not known whether it is stored: appended again, it tells.
    private var unknownTry: JournalBatch?
    /// How the hub that writes is named now; nil where it is not known.
    private let writer: @Sendable () -> String?
    /// Counts the times that the database began to follow: a try of before is of no use.
    private var turn = 0
    /// The journal takes commits again.
    var onTaken: () -> Void = {}
    /// A batch that was given up is stored.
    var onFound: (JournalBatch) -> Void = { _ in }
    /// A try has found that another writer has written.
    var onSuperseded: (JournalError) -> Void = { _ in }

    /// - Parameter writer: who writes where the database follows, for the texts of refusals.
    init(
        _ context: EngineContext, _ content: Content, _ durability: DurabilityLine, journal: any Journal,
        writer: @escaping @Sendable () -> String? = { nil }
    ) {
        self.writer = writer
        self.context = context
        self.content = content
        self.durability = durability
        self.journal = journal
    }

    /// The database applies what another writes: writes are refused until `begin`.
    func follow() {
        turn += 1
        breaker.refused(.following)
        (unsettled, unknownTry) = ([], nil)
        context.meter.counters.refusal = nil
    }

    /// The database writes from now on.
    func begin() {
        breaker = .closed
        context.meter.counters.refusal = nil
    }

    var isRefusing: Bool { isDiskRefusing || isClosed }
    /// The journal itself takes no commits; while it is only closed, it does in a moment.
    var isDiskRefusing: Bool { breaker.reason != nil }

    /// Writes are refused from now on, until `open`: something comes before them that is not ready.
    func close() { isClosed = true }
    func open() { isClosed = false }

    /// - Throws: while the journal refuses. Asked last, when nothing else speaks against a write.
    func mustTakeWrites() throws(Failure) {
        guard isRefusing else { return }
        context.meter.counters.refusedWrites += 1
        throw Failure(.unavailable, breaker.reason?.text(naming: writer()) ?? Self.closedText)
    }

    private static let closedText = "The disk takes writes again, and what was left for disconnects comes first. Try again."

    /// The journal has refused a batch and all that follow it.
    func refused(_ error: JournalError, _ batches: [JournalBatch] = []) {
        let reason = CommitRefusal(error)
        breaker.refused(reason)
        (unsettled, unknownTry) = (reason == .outcomeUnknown ? batches : [], nil)
        context.meter.counters.refusal = reason.forLater
        context.meter.counters.refusals += 1
        context.onJournal(.refuses(reason, error))
    }

    /// The requests of the rolled back batches have been answered.
    func settle() { breaker.settle() }

    /// A following database no longer receives commits.
    func cutOff(_ error: JournalError) {
        breaker.refused(.cutOff)
        context.meter.counters.refusal = .cutOff
        context.meter.publish()
        context.onJournal(.followingEnded(error))
    }

    // MARK: Trying

    /// Tries the journal in a while, and again until it takes commits.
    func tryLater() {
        let number = context.meter.counters.refusals
        context.later(ms: Int64(context.limits.retryMs)) { [weak self] in
            guard let self, breaker.reason?.mayPass == true, number == context.meter.counters.refusals else { return }
            tryNow()
            tryLater()
        }
    }

    /// Appends a commit that changes nothing. Nothing else is appended until its result is known.
    private func tryNow() {
        guard breaker.begin() else { return }
        let batch = unknownTry ?? emptyBatch
        journal.append(batch) { [self, turn] result in
            context.queue.async { [self] in
                if turn == self.turn { tried(batch, result) }
            }
        }
    }

    private var emptyBatch: JournalBatch {
        var batch = JournalBatch(after: content.sequence)
        batch.append([])
        return durability.stamped(batch)
    }

    private func tried(_ batch: JournalBatch, _ result: Result<Void, JournalError>) {
        context.queue.assertCurrent()
        switch result {
        case .failure(.conflict(_, let last)) where unsettled.contains { $0.sequence == last }:
            // Those up to the content's have been found before.
            find(unsettled.filter { $0.sequence > content.sequence && $0.sequence <= last })
        case .failure(let error):
            if case .unknown = error { unknownTry = batch }
            failed(error)
        case .success:
            _ = content.skip()
            taken()
        }
    }

    private func failed(_ error: JournalError) {
        let reason = CommitRefusal(error)
        breaker.tried(reason)
        context.meter.counters.refusal = reason.forLater
        if !reason.mayPass { context.onJournal(.refuses(reason, error)) }
        context.meter.publish()
        if reason == .conflict { onSuperseded(error) }
    }

    private func taken() {
        breaker.tried(nil)
        (unsettled, unknownTry) = ([], nil)
        durability.confirm()
        context.meter.counters.refusal = nil
        context.onJournal(.takesCommits)
        onTaken()
    }

    /// Appends batches again that the journal may have: it says of each by its id whether it is the one that is stored.
    private func find(_ batches: [JournalBatch]) {
        for (i, batch) in batches.enumerated() {
            journal.append(batch) { [self] result in
                context.queue.async { [self] in
                    guard case .halfOpen = breaker else { return }
                    if case .failure(let error) = result { return failed(error) }
                    unknownTry = nil
                    onFound(batch)
                    if i == batches.count - 1 { taken() }
                }
            }
        }
    }
}
