import Dispatch
import JSONTree
import SecurityRules
import Synchronization

/// The state of a database. Everything here runs on the database queue.
final class Core: @unchecked Sendable {
    // Sendable: confined to `queue`; every entry checks that.
    let queue: DispatchQueue
    let log: any CommitLog
    let format: any WireFormat
    let outlet: Outlet
    let clock: @Sendable () -> Int64
    let laneCount: Int
    let limits: EngineLimits
    let gauge = Gauge()
    /// Hears of what the rules refuse; nil when nobody asked to.
    let refusals: (any RefusalListener)?

    var rules: RuleSet
    var root: Node
    /// Number of the last commit.
    var sequence: UInt64
    var observers = ObserverTree()
    let readDependencies = ReadDependencies()
    var sessions: [String: Client] = [:]
    var pushIDs = PushIDGenerator()

    /// Output and commits of the batch that runs.
    var output: OutputBuffer
    var commits: [Commit] = []
    /// What the running batch wrote for sessions that ended.
    var fired: [PendingSession] = []
    /// What ended sessions left and the log refused: it is written with the next requests.
    private var owed: [PendingSession] = []
    /// Sessions of which the log refused a change: it is told with the next requests what they leave behind by now.
    private var untold: Set<String> = []
    /// Clients that leave something behind, by the id under which the log knows it.
    var leaving: [String: Client] = [:]
    var counters = EngineCounters()
    /// Bytes of the requests of the batch that runs.
    private var batchBytes = 0
    /// Batches that wait for the log, oldest first. Nothing overtakes them.
    private var waiting: [WaitingBatch] = []
    /// Number of the oldest waiting batch.
    private var firstWaiting = 0
    /// What is known to be durable: where to go back to when the log fails.
    private var durable: (root: Node, sequence: UInt64)

    private struct WaitingBatch {
        let output: OutputBuffer
        let fired: [PendingSession]
        /// The sessions of which it says what they leave behind.
        let told: [String]
        /// The content after the batch.
        let root: Node
        let sequence: UInt64
        /// Bytes of its requests.
        let bytes: Int
        var isDurable: Bool
    }

    init(
        queue: DispatchQueue, rules: RuleSet, start: (root: Node, sequence: UInt64), log: any CommitLog, lanes: Int,
        limits: EngineLimits, format: any WireFormat, refusals: (any RefusalListener)?, outlet: @escaping Outlet,
        clock: @escaping @Sendable () -> Int64
    ) {
        self.queue = queue
        self.rules = rules
        root = start.root
        sequence = start.sequence
        durable = start
        self.log = log
        laneCount = lanes
        self.limits = limits
        self.format = format
        self.refusals = refusals
        self.outlet = outlet
        self.clock = clock
        output = OutputBuffer(lanes: lanes)
    }

    /// Above this a batch ends early: a few bytes of requests can ask for gigabytes, and until the output leaves no limit of
    /// the connections sees it.
    private static let outputBytesOfBatch = 4 << 20

    /// Handles requests in order, as a batch or several, and sends what a batch has to say when it is durable.
    func handle(_ items: [Database.Item]) {
        dispatchPrecondition(condition: .onQueue(queue))
        writeOwed()
        for item in items {
            batchBytes += item.size
            handle(item)
            if output.bytes > Self.outputBytesOfBatch { finishBatch() }
        }
        finishBatch()
        gauge.publish(counters)
    }

    func replace(_ rules: RuleSet) {
        dispatchPrecondition(condition: .onQueue(queue))
        self.rules = rules
        recheckAllObservers()
        finishBatch()
    }

    /// Writes what the sessions of an earlier process left behind.
    func fireAbandoned(_ sessions: [PendingSession]) {
        dispatchPrecondition(condition: .onQueue(queue))
        for session in sessions { fire(session) }
        finishBatch()
    }

    /// What the log refused about ended and about running sessions is written again.
    private func writeOwed() {
        if owed.isEmpty, untold.isEmpty { return }
        let (sessions, ids) = (owed, untold)
        (owed, untold) = ([], [])
        for session in sessions { fire(session) }
        for id in ids.subtracting(sessions.map(\.id)).sorted() { retell(id) }
    }

    /// What sessions leave behind that has not been written.
    var pendingSessions: [PendingSession] {
        owed + leaving.sorted { $0.key < $1.key }.map { $1.leftBehind(as: $0) }
    }

    // MARK: Output in commit order

    /// Requests have become durable, or were given up.
    private func finished(_ bytes: Int) {
        if bytes > 0 { gauge.waitingBytes.subtract(bytes, ordering: .relaxed) }
    }

    private func finishBatch() {
        let batch = output
        let bytes = batchBytes
        output = OutputBuffer(lanes: laneCount)
        let (written, ended) = (commits, fired)
        let told = written.flatMap { $0.pending.map(\.session) }
        (commits, fired) = ([], [])
        batchBytes = 0
        if written.isEmpty || log.isImmediate {
            if !written.isEmpty { log.append(written) { _ in } }
            if waiting.isEmpty {
                finished(bytes)
                batch.release(to: outlet)
            } else {
                waiting.append(WaitingBatch(output: batch, fired: ended, told: told, root: root, sequence: sequence, bytes: bytes, isDurable: true))
            }
            return
        }
        let index = firstWaiting + waiting.count
        waiting.append(WaitingBatch(output: batch, fired: ended, told: told, root: root, sequence: sequence, bytes: bytes, isDurable: false))
        log.append(written) { [self] result in
            queue.async { [self] in becameDurable(index, result) }
        }
    }

    private func becameDurable(_ index: Int, _ result: Result<Void, any Error>) {
        dispatchPrecondition(condition: .onQueue(queue))
        // Below the first: the batch was given up together with an earlier one.
        guard index >= firstWaiting else { return }
        guard case .success = result else { return goBack() }
        waiting[index - firstWaiting].isDurable = true
        var released = 0
        while released < waiting.count, waiting[released].isDurable {
            waiting[released].output.release(to: outlet)
            finished(waiting[released].bytes)
            durable = (waiting[released].root, waiting[released].sequence)
            released += 1
        }
        waiting.removeFirst(released)
        firstWaiting += released
    }

    /// The log refused: the content goes back to what is durable, which is all that anybody has been told. Clients with a
    /// request in the batches that are given up are disconnected, so that they ask again; what sessions left or leave is owed.
    private func goBack() {
        let givenUp = waiting
        waiting = []
        firstWaiting += givenUp.count
        (root, sequence) = durable
        owed += givenUp.flatMap(\.fired)
        untold.formUnion(givenUp.flatMap(\.told))
        observers.rebuild(over: root)
        for batch in givenUp {
            finished(batch.bytes)
            output.takeSignals(of: batch.output)
        }
        recheckAllObservers()
        for client in givenUp.flatMap(\.output.dismissed) { output.close(client) }
        var told: Set<ObjectIdentifier> = []
        for client in givenUp.flatMap(\.output.recipients) where !client.hasEnded && told.insert(ObjectIdentifier(client)).inserted {
            output.close(client)
        }
        finishBatch()
    }
}
