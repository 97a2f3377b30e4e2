import Dispatch
import JSONTree
import Scheduling

/// Whether the log takes commits, and what is done while it does not: writes are refused, and the log is tried with a commit that
/// changes nothing, from time to time. Confined to the database queue.
final class LogGuard: @unchecked Sendable {
    // Sendable: only hops back to the queue.
    private let context: EngineContext
    private let content: Content
    private let durability: DurabilityLine
    private let log: any CommitLog
    private var breaker = LogBreaker.closed
    /// Whether writes are refused until what was owed to the log is written.
    private var isClosed = false
    /// The log takes commits again.
    var onTaken: () -> Void = {}

    init(_ context: EngineContext, _ content: Content, _ durability: DurabilityLine, log: any CommitLog) {
        self.context = context
        self.content = content
        self.durability = durability
        self.log = log
    }

    var isRefusing: Bool { breaker.reason != nil || isClosed }

    /// Writes are refused from now on, until `open`: something comes before them that is not ready.
    func close() { isClosed = true }
    func open() { isClosed = false }

    /// - Throws: while the log refuses. Asked last, when nothing else speaks against a write.
    func mustTakeWrites() throws(Failure) {
        guard isRefusing else { return }
        context.meter.counters.refusedWrites += 1
        throw Failure(.unavailable, breaker.reason?.text ?? Self.closedText)
    }

    private static let closedText = "The disk takes writes again, and what was left for disconnects comes first. Try again."

    /// The log has refused a batch.
    func refused(_ reason: CommitRefusal) {
        breaker.refused(reason)
        context.meter.counters.refusal = reason.forLater
        context.meter.counters.refusals += 1
    }

    /// What was given up with the batch has been answered.
    func settle() { breaker.settle() }

    /// Tries the log in a while, and again until it takes commits.
    func tryLater() {
        let number = context.meter.counters.refusals
        context.scheduler.after(ms: Int64(context.limits.retryMs), on: context.queue) { [weak self] in
            guard let self, isRefusing, number == context.meter.counters.refusals else { return }
            tryNow()
            tryLater()
        }
    }

    /// Appends a commit that changes nothing. Nothing else is appended until its result is known.
    private func tryNow() {
        guard breaker.begin() else { return }
        log.append([Commit(sequence: content.sequence + 1, operations: [], pending: [])]) { [self] result in
            context.queue.async { [self] in tried(result) }
        }
    }

    private func tried(_ result: Result<Void, CommitRefusal>) {
        dispatchPrecondition(condition: .onQueue(context.queue))
        switch result {
        case .failure(let reason):
            breaker.tried(reason)
            context.meter.counters.refusal = reason.forLater
            context.meter.publish()
        case .success:
            breaker.tried(nil)
            durability.confirm(content.skip())
            context.meter.counters.refusal = nil
            onTaken()
        }
    }
}
