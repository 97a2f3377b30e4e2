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
    /// Where large work runs, and what it may hold.
    let background: BackgroundWork
    let budget: MemoryBudget
    /// What queries have collected and is not encoded: half of the budget, so that many of them leave room for what is written.
    let collected: MemoryShare
    let gauge = Gauge()
    /// Hears of what the rules refuse; nil when nobody asked to.
    let refusals: (any RefusalListener)?

    var rules: RuleSet { didSet { published.withLock { [rules] in $0 = rules } } }
    /// The same, for other threads.
    let published: Mutex<RuleSet>
    var root: Node
    /// Number of the last commit.
    var sequence: UInt64
    let observers = ObserverTree()
    let readDependencies = ReadDependencies()
    /// Indexes of places, and what observers count.
    var kept = KeptIndexes()
    var listens = ListenCounts()
    /// Ended clients whose observers are still being removed.
    var leavers: [Client] = []
    var sessions: [String: Client] = [:]
    var pushIDs = PushIDGenerator()
    /// Which rules hold, counted.
    var rulesNumber = 0

    /// Requests beyond those of a turn, whether the next turn is on its way, and what is called when none are left.
    var turns = RequestTurns()
    var isTurnComing = false
    var idleWaiters: [@Sendable () -> Void] = []
    /// What the turn that runs has cost so far, about, in units of 2 µs: the third of a small write.
    var spent = 0

    /// Clients with a request that is prepared off the queue, and how many requests were.
    var parkedClients: [ObjectIdentifier: Client] = [:]
    var parkedCount = 0
    let preparations = PreparationTurns()
    /// The one that goes on, while it does.
    var resumed: Parked?
    /// Parked requests that wait until nothing of other clients is parked.
    var behindOthers: [(parked: Parked, others: [Client])] = []
    /// What is written while large writes are prepared.
    var recent: RecentWrites
    /// What the batch that runs leaves behind and is large.
    var retiring: [any Sendable] = []

    /// Output and commits of the batch that runs, and what it did.
    var output: OutputBuffer
    /// What the batch that runs has to say that waits for nothing.
    var early: OutputBuffer
    /// Whether the answer of the request that is carried out may leave before its batch, or has.
    var departure = Departure.withBatch
    /// Encodes what is large.
    let encodings: EncodingLine
    var commits: [Commit] = []
    var history = BatchHistory()
    /// Whether what is done is noted: nothing is ever taken back that became durable at once.
    let keepsHistory: Bool
    /// What ended sessions left while the log refused: it is written when the log takes commits again.
    var owed: [PendingSession] = []
    /// Sessions that changed their identity while the log refused: it is told then what they leave behind by now.
    var untold: Set<String> = []
    /// Clients that leave something behind, by the id under which the log knows it.
    var leaving: [String: Client] = [:]
    /// Bytes of that, at most.
    var pendingBytes = 0
    var counters = EngineCounters()
    /// Bytes of the requests of the batch that runs.
    var batchBytes = 0
    /// Batches that wait for the log, oldest first. Nothing overtakes them.
    var waiting: [WaitingBatch] = []
    /// Number of the oldest waiting batch.
    var firstWaiting = 0
    /// Commits in the waiting batches.
    var waitingCommits = 0
    /// What is known to be durable: where to go back to when the log refuses.
    var durable: (root: Node, sequence: UInt64)
    /// Set while the log refuses commits: nothing is written until a try succeeds.
    var refusal: Refusal?

    init(
        queue: DispatchQueue, rules: RuleSet, start: (root: Node, sequence: UInt64), log: any CommitLog, lanes: Int,
        limits: EngineLimits, background: BackgroundWork, budget: MemoryBudget, format: any WireFormat,
        refusals: (any RefusalListener)?, outlet: @escaping Outlet, clock: @escaping @Sendable () -> Int64
    ) {
        self.queue = queue
        self.rules = rules
        published = Mutex(rules)
        root = start.root
        sequence = start.sequence
        durable = start
        self.log = log
        keepsHistory = !log.isImmediate
        laneCount = lanes
        self.limits = limits
        recent = RecentWrites(limit: limits.recentPlaces)
        self.background = background
        self.budget = budget
        collected = MemoryShare(of: budget, limit: budget.limit / 2)
        self.format = format
        self.refusals = refusals
        self.outlet = outlet
        self.clock = clock
        output = OutputBuffer(lanes: lanes, number: 0)
        early = OutputBuffer(lanes: lanes)
        encodings = EncodingLine(background, budget, heavier: EncodingLine(background, budget))
    }

    func replace(_ rules: RuleSet) {
        dispatchPrecondition(condition: .onQueue(queue))
        self.rules = rules
        rulesNumber += 1
        recheckIndexes()
        recheckAllObservers()
        finishBatch()
    }

    /// Writes what the sessions of an earlier process left behind.
    func fireAbandoned(_ sessions: [PendingSession]) {
        dispatchPrecondition(condition: .onQueue(queue))
        for session in sessions { fire(session) }
        finishBatch()
    }

    /// What could not be written while the log refused.
    func writeOwed() {
        if owed.isEmpty, untold.isEmpty { return }
        let (sessions, ids) = (owed, untold)
        (owed, untold) = ([], [])
        for session in sessions { fire(session) }
        for id in ids.sorted() { retell(id) }
    }

    /// What sessions leave behind that has not been written.
    var pendingSessions: [PendingSession] {
        owed + leaving.sorted { $0.key < $1.key }.map { $1.leftBehind(as: $0) }
    }
}
