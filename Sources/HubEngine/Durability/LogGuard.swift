import Journal
import JSONTree
import Scheduling

/// Tracks whether the journal accepts commits. While it does not, writes are refused, and the journal is tried periodically with an empty
/// commit. Confined to the database queue.
///
/// If the outcome of some batches was unknown, the first try reveals it. If the try continues the last durable commit, none of them was
/// stored. If it conflicts, they are identified by appending them again.
final class LogGuard: @unchecked Sendable {
    // Sendable: only hops back to the queue.
    private let context: EngineContext
    private let content: Content
    private let durability: DurabilityQueue
    private let journal: any Journal
    private var breaker = LogBreaker.closed
    /// Whether writes are refused until deferred onDisconnect writes are applied.
    private var isClosed = false
    /// Batches given up with unknown outcome, oldest first.
    private var unsettled: [JournalBatch] = []
    /// The last try, while its outcome is unknown: appending it again reveals it.
    private var unknownTry: JournalBatch?
    /// Name of the current writer; nil if unknown.
    private let writer: @Sendable () -> String?
    /// Incremented each time the database becomes a follower. Results of earlier tries are discarded.
    private var turn = 0
    /// Called when the journal accepts commits again.
    var onTaken: () -> Void = {}
    /// Called with a batch that was given up but turns out to be stored.
    var onFound: (JournalBatch) -> Void = { _ in }
    /// Called when a try finds that another writer has written.
    var onSuperseded: (JournalError) -> Void = { _ in }

    /// - Parameter writer: name of the writer that a follower follows, for the texts of refusals.
    init(
        _ context: EngineContext, _ content: Content, _ durability: DurabilityQueue, journal: any Journal,
        writer: @escaping @Sendable () -> String? = { nil }
    ) {
        self.writer = writer
        self.context = context
        self.content = content
        self.durability = durability
        self.journal = journal
    }

    /// The database becomes a follower: writes are refused until `begin`.
    func follow() {
        turn += 1
        breaker.refused(.following)
        (unsettled, unknownTry) = ([], nil)
        context.meter.counters.refusal = nil
    }

    /// The database becomes the writer.
    func begin() {
        breaker = .closed
        context.meter.counters.refusal = nil
    }

    var isRefusing: Bool { isDiskRefusing || isClosed }
    /// Whether the journal itself refuses commits. While only closed, it accepts them again in a moment.
    var isDiskRefusing: Bool { breaker.reason != nil }

    /// Refuses writes until `open`, because earlier writes must be applied first and are not ready.
    func close() { isClosed = true }
    func open() { isClosed = false }

    /// - Throws: while the journal refuses. Called last, when the write is otherwise permitted.
    func mustAcceptWrites() throws(Failure) {
        guard isRefusing else { return }
        context.meter.counters.refusedWrites += 1
        throw Failure(.unavailable, breaker.reason?.text(naming: writer()) ?? Self.closedText)
    }

    private static let closedText = "The disk takes writes again, and what was left for disconnects comes first. Try again."

    /// The journal has refused a batch and all later ones.
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

    /// A follower no longer receives commits.
    func cutOff(_ error: JournalError) {
        breaker.refused(.cutOff)
        context.meter.counters.refusal = .cutOff
        context.meter.publish()
        context.onJournal(.followingEnded(error))
    }

    // MARK: Trying

    /// Tries the journal after a delay, and again until it accepts commits.
    func tryLater() {
        let number = context.meter.counters.refusals
        context.later(ms: Int64(context.limits.retryMs)) { [weak self] in
            guard let self, breaker.reason?.mayPass == true, number == context.meter.counters.refusals else { return }
            tryNow()
            tryLater()
        }
    }

    /// Appends an empty commit. Nothing else is appended until its result is known.
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
            // Batches up to the content's sequence were found earlier.
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

    /// Appends batches again that the journal may have. It compares ids and reports for each whether that batch is stored.
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
