public import JSONTree

/// One REST request. Its answer contains more than those of the sockets' requests, and each has a client of its own (contract §7).
public struct Exchange: Sendable {
    public enum Work: Sendable {
        /// The place, or what a query shows of it.
        case read(ChildQuery?)
        /// How many children the place has, or a query selects of them.
        case count(ChildQuery?)
        /// All or nothing.
        case write([TreeWrite])
        /// A child under a key that the server makes.
        case push(WriteValue)
    }

    public var path: Path
    public var work: Work
    /// The hash that the place must have; empty for an empty place. Nil: no condition.
    public var ifHash: String?
    /// A write's answer also says what is at the place then. That, like `ifHash`, takes the permission to read it.
    public var wantsContent: Bool
    /// Its writes are an update of the keys at `path`.
    public var isUpdate = false
    /// An administrator's write stores what it is sent as it is: no rule adds to it.
    public var isImport = false
    /// A read or a count is answered with what its query started from (`QueryExplanation`), and nothing else.
    public var explains = false

    /// Whether it changes what is stored.
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
    /// The value that was read; or the value after the write if that was requested or the exchange was refused as stale.
    public var content = Node.null
    /// What was written, server values filled in, in the order of the writes. Nil when it would tell a client that may not read
    /// the place what had been stored there (an increment's sum).
    public var written: [Node]?
    /// The child that a push has made.
    public var key: Key?
    /// Number of the commit of a write; of the last one when nothing was to be written.
    public var sequence: UInt64 = 0
    /// Whether the stored value has another hash than the condition, so that nothing was written.
    public var isStale = false

    public init(content: Node = .null) { self.content = content }
}
