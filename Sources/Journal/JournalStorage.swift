import Dispatch
public import JSONTree

/// The persistent state of a hub: the journals of all namespaces, and its settings.
public protocol JournalStorage: Sendable {
    /// Whether the state survives a restart.
    var isDurable: Bool { get }
    /// Damage found when the storage was opened, and how it was handled; nil when there was none.
    var finding: String? { get }
    /// Rules, secrets and other settings.
    var settingStore: any SettingStore { get }
    /// The state of the cluster; nil without a cluster. From any thread.
    var cluster: ClusterReport? { get }
    /// Announces this hub's address to the other hubs of the cluster.
    func announceAddress(_ address: String)
    /// The log that replicates accounts to all hubs of a cluster; nil without a cluster.
    var accountLog: (any SharedLog)? { get }

    /// The last durable state of a namespace, and the journal that continues from it. Blocks while it reads. Call it once per namespace.
    /// - Throws: `.corrupt` naming the damaged part; `.disk`, `.closed`.
    func open(_ namespace: String) throws(JournalError) -> OpenedJournal

    /// Whether a namespace has present or past content. Blocks.
    func holds(_ namespace: String) -> Bool

    /// The names of all namespaces with present or past content, in no order. Blocks.
    func namespaces() -> [String]

    /// Removes a namespace with its content and settings, open or not, and stores a setting of the whole store: both or neither, whenever
    /// the process is killed. An open journal of the namespace refuses later batches; if the removal fails, it continues.
    /// The namespace may be opened again later, empty.
    /// - Parameter completion: called once, when the removal is as durable as an acknowledged write.
    func remove(
        _ namespace: String, noting setting: JournalSetting, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void)

    /// Announces the end of the process: long maintenance work is cancelled, and no more is started. A snapshot is stored only if it is
    /// small, and otherwise fails with `.closed`; the next start then replays the log. From any thread.
    func prepareToClose()

    /// Stores all earlier appends, then closes all journals. Calls back on its own queue, with the error if there was one.
    /// - Parameter isLate: whether the time limit has passed. A batch being stored in slices, and everything after it, then fails with
    ///   `.closed`.
    func close(isLate: Bool, _ done: @escaping @Sendable (JournalError?) -> Void)
}

extension JournalStorage {
    public var cluster: ClusterReport? { nil }
    public func announceAddress(_ address: String) {}
    public var accountLog: (any SharedLog)? { nil }
    public func holds(_ namespace: String) -> Bool { false }
    public func namespaces() -> [String] { [] }

    /// For storages that cannot remove namespaces, such as a cluster's.
    public func remove(
        _ namespace: String, noting setting: JournalSetting, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
    ) { completion(.failure(.unavailable(reason: "this storage cannot remove a namespace"))) }
}

/// An opened namespace.
public struct OpenedJournal: Sendable {
    public let recovered: Recovered
    public let journal: any Journal
    /// The epoch for this hub's batches (`JournalBatch.epoch`): higher than all earlier writers' epochs. After its first batch, theirs are
    /// refused.
    public let epoch: UInt64
    /// Whether this hub is the writer, if that can change; nil if it always is.
    public let writerRole: WriterRole?
    /// The connection to the other hubs of a cluster; nil without a cluster.
    public let link: (any HubLink)?

    public init(_ recovered: Recovered, _ journal: any Journal, writerRole: WriterRole? = nil, link: (any HubLink)? = nil) {
        self.recovered = recovered
        self.journal = journal
        self.writerRole = writerRole
        self.link = link
        epoch = recovered.epoch + 1
    }
}

/// The last durable state of a namespace.
@dynamicMemberLookup
public struct Recovered: Sendable {
    public var root: Node
    /// Number of the last commit, which the next batch continues; 0 without any.
    public var sequence: UInt64
    /// Number of batches replayed on top of the snapshot.
    public var replayed: Int
    /// Pending onDisconnect writes of the sessions that had not ended.
    public var pending: [PendingSession]
    public var beside: StateBesideTree
    /// The newest epoch of a writer.
    public var epoch: UInt64

    public init(
        root: Node = .null, sequence: UInt64 = 0, replayed: Int = 0, pending: [PendingSession] = [],
        beside: StateBesideTree = StateBesideTree(), epoch: UInt64 = 0
    ) {
        (self.root, self.sequence, self.replayed, self.pending, self.epoch) = (root, sequence, replayed, pending, epoch)
        self.beside = beside
    }

    public subscript<Part>(dynamicMember part: KeyPath<StateBesideTree, Part>) -> Part { beside[keyPath: part] }
}

/// The whole state after a commit. The recipients of its pending rows must be known, because unknown ones depend on the tree of an earlier
/// commit.
@dynamicMemberLookup
public struct JournalSnapshot: Sendable {
    public var root: Node
    /// Number of the last commit in it.
    public var sequence: UInt64
    /// Pending onDisconnect writes of the sessions that have not ended.
    public var pending: [PendingSession]
    public var beside: StateBesideTree

    public init(root: Node, sequence: UInt64, pending: [PendingSession] = [], beside: StateBesideTree = StateBesideTree()) {
        self.root = root
        self.sequence = sequence
        self.pending = pending
        self.beside = beside
    }

    public subscript<Part>(dynamicMember part: WritableKeyPath<StateBesideTree, Part>) -> Part {
        get { beside[keyPath: part] }
        set { beside[keyPath: part] = newValue }
    }
}

/// Keeps everything in memory: for `--memory` and for tests.
public final class MemoryStorage: JournalStorage {
    private let settings = MemorySettings()

    public init() {}

    public var isDurable: Bool { false }
    public var finding: String? { nil }
    public var settingStore: any SettingStore { settings }
    /// A journal that sends batches to its followers and keeps none: the database holds the content.
    public func open(_ namespace: String) -> OpenedJournal { OpenedJournal(Recovered(), MemoryJournal(keeping: 0, isImmediate: true)) }
    public func remove(
        _ namespace: String, noting setting: JournalSetting, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
    ) {
        settings.removeAll(of: namespace)
        settings.put(setting.value, setting: setting.name, of: nil, completion: completion)
    }

    public func prepareToClose() {}
    public func close(isLate: Bool, _ done: @escaping @Sendable (JournalError?) -> Void) { DispatchQueue.global().async { done(nil) } }
}
