public import Dispatch
public import JSONTree
public import SecurityRules
import Synchronization

/// One namespace: its tree, rules and observers, and the queue that owns them.
///
///      any thread            database queue                              net loop of each lane
///      submit ─► inbox ─► drain: request by request ─► OutputBuffer ─► (journal) ─► outlet
///
/// Requests collect in the inbox while a batch runs; one hop carries them all. The output of a batch leaves when the batch
/// is durable, and never before that of an earlier one.
public final class Database: Sendable {
    public let name: String
    public let queue: DispatchQueue
    /// Where the commits go.
    public let log: any CommitLog

    private let inbox = Mutex(Inbox())
    private let core: Core

    /// A request on its way: whose, what, and the number that its answer carries.
    struct Item: Sendable {
        let client: Client
        let request: Request
        let token: Int64
    }

    private struct Inbox {
        var items: [Item] = []
        var isScheduled = false
    }

    /// - Parameters:
    ///   - start: the recovered content and the sequence number of its last commit.
    ///   - lanes: number of net loops.
    ///   - clock: ms since the epoch.
    public init(
        name: String, rules: RuleSet, start: (root: Node, sequence: UInt64) = (.null, 0), log: any CommitLog = NoCommitLog(), lanes: Int,
        limits: EngineLimits = EngineLimits(), format: any WireFormat, outlet: @escaping Outlet, clock: @escaping @Sendable () -> Int64
    ) {
        self.name = name
        self.log = log
        queue = DispatchQueue(label: "vigla.database.\(name)")
        core = Core(
            queue: queue, rules: rules, start: start, log: log, lanes: lanes, limits: limits, format: format, outlet: outlet, clock: clock)
    }

    /// Hands over a request. Callable from any thread; requests of one client must come from one thread at a time.
    public func submit(_ request: Request, from client: Client, token: Int64 = 0) {
        let mustSchedule = inbox.withLock { inbox in
            inbox.items.append(Item(client: client, request: request, token: token))
            defer { inbox.isScheduled = true }
            return !inbox.isScheduled
        }
        if mustSchedule { queue.async { [self] in drain() } }
    }

    private func drain() {
        let items = inbox.withLock { inbox in
            defer { inbox.items = [] }
            inbox.isScheduled = false
            return inbox.items
        }
        core.handle(items)
    }

    /// Requests that wait for the database queue.
    public var inboxDepth: Int { inbox.withLock { $0.items.count } }

    /// Calls back on the database queue with the current content and the sequence number of its last commit.
    public func snapshot(_ body: @escaping @Sendable (Node, UInt64) -> Void) {
        queue.async { [core] in body(core.root, core.sequence) }
    }

    /// Replaces the rules; observers that the new ones refuse are cancelled.
    public func setRules(_ rules: RuleSet) {
        queue.async { [core] in core.setRules(rules) }
    }
}

/// Where commits become durable. `completion` is called once for each append, in order, from any thread.
///
/// After a failure nothing of that append is stored, and those made on top of it fail too; the database goes back to its last
/// durable content and continues from there.
public protocol CommitLog: Sendable {
    func append(_ commits: [Commit], completion: @escaping @Sendable (Result<Void, any Error>) -> Void)
    /// Whether appends complete at once, so that nothing needs to wait.
    var isImmediate: Bool { get }
}

/// What one commit wrote, with server values filled in; applying it again gives the same tree.
public struct Commit: Sendable {
    public let sequence: UInt64
    public let operations: [(path: Path, part: TreeWrite.Part, value: Node)]
}

/// For databases that live in memory only.
public struct NoCommitLog: CommitLog {
    public init() {}
    public var isImmediate: Bool { true }
    public func append(_ commits: [Commit], completion: @escaping @Sendable (Result<Void, any Error>) -> Void) { completion(.success(())) }
}
