import Dispatch
public import JSONTree

/// The persistent state of a hub: the journals of all namespaces, and its settings.
public protocol JournalStorage: Sendable {
    /// Whether the state survives a restart.
    var isDurable: Bool { get }
    /// The damage that was found when the storage was opened, and what was done about it; nil when there was none.
    var finding: String? { get }
    /// Rules, secrets and other settings.
    var settingStore: any SettingStore { get }
    /// The cluster that the hub is one of; nil where there is none. From any thread.
    var cluster: ClusterReport? { get }
    /// Tells the other hubs of the cluster where this one is found.
    func shown(at address: String)
    /// The log by which accounts are the same on all hubs of a cluster; nil for a hub of its own.
    var accountLog: (any SharedLog)? { get }

    /// The last durable state of a namespace, and the journal that continues from it. Blocks while it reads; call once for each
    /// namespace.
    /// - Throws: `.corrupt` naming the place; `.disk`, `.closed`.
    func open(_ namespace: String) throws(JournalError) -> OpenedJournal

    /// The process is about to end: work of the storage's own that takes long is given up, and none is begun. A snapshot is stored only if
    /// it is small, and else fails with `.closed`; the next start then replays the log. From any thread.
    func prepareToClose()

    /// Stores what was appended before, then closes all journals. Calls back on a queue of its own, with the error if there was one.
    /// - Parameter isLate: whether the time for that is over: a batch that is stored in slices, and what follows it, fails with `.closed`.
    func close(isLate: Bool, _ done: @escaping @Sendable (JournalError?) -> Void)
}

extension JournalStorage {
    public var cluster: ClusterReport? { nil }
    public func shown(at address: String) {}
    public var accountLog: (any SharedLog)? { nil }
}

/// A namespace that a storage has opened.
public struct OpenedJournal: Sendable {
    public let recovered: Recovered
    public let journal: any Journal
    /// The epoch that its writer writes with (`JournalBatch.epoch`): above that of all who have written before. From its first batch on
    /// theirs are refused.
    public let epoch: UInt64
    /// Whether this hub writes, where that changes; nil where it always does.
    public let writership: Writership?
    /// The way to the other hubs of a cluster; nil where there are none.
    public let link: (any HubLink)?

    public init(_ recovered: Recovered, _ journal: any Journal, writership: Writership? = nil, link: (any HubLink)? = nil) {
        self.recovered = recovered
        self.journal = journal
        self.writership = writership
        self.link = link
        epoch = recovered.epoch + 1
    }
}

/// The last durable state of a namespace.
public struct Recovered: Sendable {
    public var root: Node
    /// Number of the last commit, which the next batch follows; 0 when there never was one.
    public var sequence: UInt64
    /// How many batches were replayed on top of the snapshot.
    public var replayed: Int
    /// Pending onDisconnect writes of the sessions that had not ended.
    public var pending: [PendingSession]
    /// When nodes were last written.
    public var written = WrittenTimes()
    /// What commits still owe.
    public var owed = OwedRows()
    /// Which requests of other hubs were carried out.
    public var peers = PeerRequests()
    /// The newest epoch of a writer.
    public var epoch: UInt64

    public init(
        root: Node = .null, sequence: UInt64 = 0, replayed: Int = 0, pending: [PendingSession] = [], written: WrittenTimes = WrittenTimes(),
        owed: OwedRows = OwedRows(), peers: PeerRequests = PeerRequests(), epoch: UInt64 = 0
    ) {
        (self.root, self.sequence, self.replayed, self.pending, self.epoch) = (root, sequence, replayed, pending, epoch)
        (self.written, self.owed, self.peers) = (written, owed, peers)
    }
}

/// A whole tree as it stands after a commit.
public struct JournalSnapshot: Sendable {
    public var root: Node
    /// Number of the last commit in it.
    public var sequence: UInt64
    /// Pending onDisconnect writes of the sessions that have not ended.
    public var pending: [PendingSession]
    /// When nodes were last written.
    public var written: WrittenTimes
    /// What commits still owe. Of each it is known who is reached: what is not found out yet rests on the tree of its commit.
    public var owed: OwedRows
    /// Which requests of other hubs were carried out.
    public var peers: PeerRequests

    public init(
        root: Node, sequence: UInt64, pending: [PendingSession] = [], written: WrittenTimes = WrittenTimes(), owed: OwedRows = OwedRows(),
        peers: PeerRequests = PeerRequests()
    ) {
        self.root = root
        self.sequence = sequence
        self.pending = pending
        (self.written, self.owed, self.peers) = (written, owed, peers)
    }
}

/// Keeps everything as long as the process lives: for `--memory` and for tests.
public final class MemoryStorage: JournalStorage {
    private let settings = MemorySettings()

    public init() {}

    public var isDurable: Bool { false }
    public var finding: String? { nil }
    public var settingStore: any SettingStore { settings }
    /// A journal that sends batches to its followers and keeps none: the database holds the content.
    public func open(_ namespace: String) -> OpenedJournal { OpenedJournal(Recovered(), MemoryJournal(keeping: 0, isImmediate: true)) }
    public func prepareToClose() {}
    public func close(isLate: Bool, _ done: @escaping @Sendable (JournalError?) -> Void) { DispatchQueue.global().async { done(nil) } }
}
