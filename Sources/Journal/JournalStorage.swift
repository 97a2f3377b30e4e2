public import JSONTree

/// Where a hub keeps what is to be there again: the journals of all namespaces, and its settings.
public protocol JournalStorage: Sendable {
    /// Whether something is there again after a restart.
    var isDurable: Bool { get }
    /// What was found wrong with what is stored when it was opened, and what was done; nil when nothing was.
    var finding: String? { get }
    /// Rules, secrets and other settings.
    var settingStore: any SettingStore { get }

    /// What a namespace was when it was last durable, and the journal that goes on from there. Blocks while it reads; call once
    /// for each namespace.
    /// - Throws: `.corrupt` naming the place; `.disk`, `.closed`.
    func open(_ namespace: String) throws(JournalError) -> OpenedJournal

    /// Ends everything behind what was appended before. Calls back on a queue of its own, with what went wrong.
    func close(_ done: @escaping @Sendable (JournalError?) -> Void)
}

/// A namespace as a storage has it.
public struct OpenedJournal: Sendable {
    public let recovered: Recovered
    public let journal: any Journal

    public init(_ recovered: Recovered, _ journal: any Journal) {
        self.recovered = recovered
        self.journal = journal
    }
}

/// What a namespace was when it was last durable.
public struct Recovered: Sendable {
    public var root: Node
    /// Number of the last commit, 0 when there never was one: what the next batch follows.
    public var sequence: UInt64
    /// How many batches were replayed on top of the snapshot.
    public var replayed: Int
    /// What sessions left behind that had not ended.
    public var pending: [PendingSession]
    /// The newest epoch of a writer.
    public var epoch: UInt64

    public init(root: Node = .null, sequence: UInt64 = 0, replayed: Int = 0, pending: [PendingSession] = [], epoch: UInt64 = 0) {
        (self.root, self.sequence, self.replayed, self.pending, self.epoch) = (root, sequence, replayed, pending, epoch)
    }
}

/// A whole tree as it stands after a commit.
public struct JournalSnapshot: Sendable {
    public var root: Node
    /// Number of the last commit in it.
    public var sequence: UInt64
    /// What sessions leave behind that have not ended.
    public var pending: [PendingSession]

    public init(root: Node, sequence: UInt64, pending: [PendingSession] = []) {
        self.root = root
        self.sequence = sequence
        self.pending = pending
    }
}

/// Keeps everything as long as the process lives: for `--memory` and for tests.
public final class MemoryStorage: JournalStorage {
    private let settings = MemorySettings()

    public init() {}

    public var isDurable: Bool { false }
    public var finding: String? { nil }
    public var settingStore: any SettingStore { settings }
    /// Its followers are told what is appended; nothing is kept for them, as the databases have it.
    public func open(_ namespace: String) -> OpenedJournal { OpenedJournal(Recovered(), MemoryJournal(keeping: 0, isImmediate: true)) }
    public func close(_ done: @escaping @Sendable (JournalError?) -> Void) { done(nil) }
}
