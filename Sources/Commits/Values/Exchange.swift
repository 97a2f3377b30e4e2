public import JSONTree
public import LiveQueries

/// One REST request. Its answer has more fields than answers over sockets, and each has a client of its own (contract §7).
public struct Exchange: Sendable {
    public enum Work: Sendable {
        /// The path, or the children that a query selects there.
        case read(Query?)
        /// The number of children of the path, or of those that a query selects.
        case count(Query?)
        /// All or nothing.
        case write([TreeWrite])
        /// A child under a key that the hub generates.
        case push(WriteValue)
    }

    public var path: Path
    public var work: Work
    /// The required hash of the path; empty for an absent node. Nil: no condition.
    public var ifHash: String?
    /// Whether a write's answer also contains the content of the path afterwards. Like `ifHash`, that needs permission to read it.
    public var wantsContent: Bool
    /// Whether its writes are an update of the keys at `path`.
    public var isUpdate = false
    /// Whether an administrator's write is stored unchanged, without effects of the rules.
    public var isImport = false
    /// Whether a read or a count is answered only with a `QueryExplanation`.
    public var explains = false

    /// Whether it changes stored data.
    public var isWrite: Bool {
        switch work {
        case .read, .count: false
        case .write, .push: true
        }
    }

    public init(_ path: Path, _ work: Work, ifHash: String? = nil, wantsContent: Bool = false) {
        self.path = path
        self.work = work
        self.ifHash = ifHash
        self.wantsContent = wantsContent
    }
}

/// The result of an exchange.
public struct Exchanged: Sendable {
    /// The value read; or the value after the write, if requested or if the write was refused as stale.
    public var content = Node.null
    /// The written values in the order of the writes, server values filled in. Nil when they would reveal earlier content (an increment's
    /// sum) to a client that may not read the path.
    public var written: [Node]?
    /// The key of a pushed child.
    public var key: Key?
    /// Commit number of a write; that of the last commit if there was nothing to write.
    public var sequence: UInt64 = 0
    /// Whether the stored value's hash differs from the condition, so that nothing was written.
    public var isStale = false

    public init(content: Node = .null) { self.content = content }
}
