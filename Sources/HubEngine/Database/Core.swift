import Dispatch
import JSONTree
import SecurityRules

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

    var rules: RuleSet
    var root: Node
    /// Number of the last commit.
    var sequence: UInt64
    var observers = ObserverTree()
    var sessions: [String: Client] = [:]
    var pushIDs = PushIDGenerator()

    /// Output and commits of the batch that runs.
    var output: OutputBuffer
    var commits: [Commit] = []
    /// Batches that wait for the log, oldest first. Nothing overtakes them.
    private var waiting: [WaitingBatch] = []
    /// Number of the oldest waiting batch.
    private var firstWaiting = 0
    /// What is known to be durable: where to go back to when the log fails.
    private var durable: (root: Node, sequence: UInt64)

    private struct WaitingBatch {
        let output: OutputBuffer
        /// The content after the batch.
        let root: Node
        let sequence: UInt64
        var isDurable: Bool
    }

    init(
        queue: DispatchQueue, rules: RuleSet, start: (root: Node, sequence: UInt64), log: any CommitLog, lanes: Int,
        limits: EngineLimits, format: any WireFormat, outlet: @escaping Outlet, clock: @escaping @Sendable () -> Int64
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
        for item in items {
            handle(item)
            if output.bytes > Self.outputBytesOfBatch { finishBatch() }
        }
        finishBatch()
    }

    func setRules(_ rules: RuleSet) {
        dispatchPrecondition(condition: .onQueue(queue))
        self.rules = rules
        for client in observers.clients() { recheckObservers(of: client) }
        finishBatch()
    }

    // MARK: Output in commit order

    private func finishBatch() {
        let batch = output
        output = OutputBuffer(lanes: laneCount)
        let written = commits
        commits = []
        if written.isEmpty || log.isImmediate {
            if !written.isEmpty { log.append(written) { _ in } }
            if waiting.isEmpty {
                batch.release(to: outlet)
            } else {
                waiting.append(WaitingBatch(output: batch, root: root, sequence: sequence, isDurable: true))
            }
            return
        }
        let index = firstWaiting + waiting.count
        waiting.append(WaitingBatch(output: batch, root: root, sequence: sequence, isDurable: false))
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
            durable = (waiting[released].root, waiting[released].sequence)
            released += 1
        }
        waiting.removeFirst(released)
        firstWaiting += released
    }

    /// The log refused: the content goes back to what is durable, which is all that anybody has been told. Clients with a
    /// request in the batches that are given up are disconnected, so that they ask again.
    private func goBack() {
        let givenUp = waiting
        waiting = []
        firstWaiting += givenUp.count
        (root, sequence) = durable
        observers.rebuild(over: root)
        for client in givenUp.flatMap(\.output.dismissed) { output.close(client) }
        var told: Set<ObjectIdentifier> = []
        for client in givenUp.flatMap(\.output.recipients) where !client.hasEnded && told.insert(ObjectIdentifier(client)).inserted {
            output.close(client)
        }
        finishBatch()
    }
}
