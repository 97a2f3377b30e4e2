package import JSONTree

/// The stored form of changes: a JSON array of entries, each an array that begins with its kind.
///
///     [["s","users/ana",{"age":30}],["r","staff/ana"],["p","users/ana",1.5],["n"],["i","session 1",{"uid":"ana"},false],["o","session 1",…]]
///
/// Batches hold all kinds, and `n` at the start of each commit but the first. A chunk of a snapshot holds only the kinds of one of these
/// groups: `s`, `p` and `a`; `i` and `o`; `w`, `t`, `q`, `l`, `d`, `x`, `j`, `m`, `b` and `h`.
package enum EntryKind: String, CaseIterable {
    /// `path, node`: sets the node.
    case set = "s"
    /// `path, priority`: sets only the priority.
    case priority = "p"
    /// `path`: sets the object or string of the last `s` with one before it among the same entries.
    case same = "r"
    /// `path, object`: adds the node's children to those at the path.
    case add = "a"
    /// Pending writes of a session; see `PendingChange`.
    case keep = "o"
    case cancel = "c"
    case identify = "i"
    case forget = "f"
    /// `path, ms`: when the node was last written; null removes the time.
    case written = "w"
    /// `id, source, most, terms`: begins pending rows; see `PendingInboxChange`.
    case rowsBegin = "q"
    /// `id, [key, …], isLast`; `id, count`; `id, key`; `id`.
    case rowsList = "l"
    case rowsAdvance = "d"
    case rowsWithout = "x"
    case rowsEnd = "e"
    /// `number, ms, tree`: a large write, by its commit, whose nodes have no times of their own yet; the tree has `true` at each written
    /// path. The number alone once all have times.
    case open = "t"
    /// `hub, commit`; `hub, number, client, base, commit`; `hub`: forwarded requests; see `PeerChange`.
    case peerJoins = "j"
    case peerDone = "m"
    case peerGone = "g"
    /// `id, item`: sets a pending delivery; null removes it.
    case delivery = "b"
    /// `watch, number, child, ms`: until when a watch is silent about a child; null removes it. `path`: forgets watches and children.
    case watchMuted = "h"
    case watchForget = "k"
    /// Without fields: the next commit begins.
    case next = "n"

    private static let byLetter = (0..<256).map { letter in allCases.first { $0.rawValue.utf8.elementsEqual([UInt8(letter)]) } }

    init?(_ name: UnsafeBufferPointer<UInt8>) {
        guard name.count == 1, let kind = Self.byLetter[Int(name[0])] else { return nil }
        self = kind
    }
}

extension JSONWriter {
    package mutating func entry(_ operation: JournalOperation) {
        switch operation {
        case .set(let path, let node): entry(.set, at: path, node)
        case .priority(let path, let priority): entry(.priority, at: path, priority)
        case .add(let path, let node): entry(.add, at: path, node)
        case .pending(let change): entry(change)
        case .written(let path, let ms): entry(.written, at: path, ms.map { .int($0) } ?? .null)
        case .pendingRows(let change): entry(change)
        case .open(let number, let write): entry(number, write)
        case .peer(let change): entry(change)
        case .watch(let change): entry(change)
        case .delivery(let id, let item): entry(.delivery, at: Path([id]), item)
        }
    }

    private mutating func entry(_ number: UInt64, _ open: OpenWrite?) {
        begin(.open)
        int(Int64(clamping: number))
        if let open {
            raw(",")
            int(open.ms)
            raw(",")
            node(open.places.tree)
        }
        raw("]")
    }

    private mutating func entry(_ change: WatchChange) {
        switch change {
        case .muted(let watch, let number, let item, let until):
            begin(.watchMuted)
            path(watch.keys)
            raw(",")
            int(Int64(number))
            raw(",")
            path(item.keys)
            raw(",")
            node(until.map { .int($0) } ?? .null)
        case .forget(let path):
            begin(.watchForget)
            self.path(path.keys)
        }
        raw("]")
    }

    package mutating func entry(_ kind: EntryKind, at path: Path, _ node: Node) {
        beginEntry(kind, at: path)
        self.node(node)
        raw("]")
    }

    /// An entry that sets the object or string of the last `s` again, at another path.
    package mutating func sameEntry(at path: Path) {
        begin(.same)
        self.path(path.keys)
        raw("]")
    }

    /// The start of an entry, up to its node.
    package mutating func beginEntry(_ kind: EntryKind, at path: Path) {
        begin(kind)
        self.path(path.keys)
        raw(",")
    }

    package mutating func nextCommit() { raw(bytes.isEmpty ? "[[\"n\"]" : ",[\"n\"]") }

    /// Kind and comma of an entry.
    package mutating func begin(_ kind: EntryKind) {
        raw(bytes.isEmpty ? "[[\"" : ",[\"")
        raw(kind.rawValue.utf8)
        raw("\",")
    }
}

extension [JournalOperation] {
    /// Reads stored entries.
    /// - Throws: when the bytes are not valid entries, also if their checksum matches by chance.
    package init(entries bytes: UnsafeRawBufferPointer) throws(EntryFault) {
        self = []
        try append(entries: bytes)
    }

    package mutating func append(entries bytes: UnsafeRawBufferPointer) throws(EntryFault) {
        var starts: [Int] = []
        try append(entries: bytes, starts: &starts)
    }

    /// - Parameter starts: receives the indices at which the batch's commits after the first begin.
    package mutating func append(entries bytes: UnsafeRawBufferPointer, starts: inout [Int]) throws(EntryFault) {
        var reader = JSONReader(bytes)
        var lastSet: Node?
        do throws(JSONError) {
            try reader.beginArray()
            while try reader.nextElement() {
                if let operation = try reader.entry(&lastSet) { append(operation) } else { starts.append(count) }
            }
            try reader.expectEnd()
        } catch { throw EntryFault(offset: error.offset) }
    }
}

extension JSONReader {
    /// Nil at the start of the next commit.
    /// - Parameter lastSet: the node of the last `s` with an object or a string.
    fileprivate mutating func entry(_ lastSet: inout Node?) throws(JSONError) -> JournalOperation? {
        let start = offset
        try beginArray()
        guard try nextElement(), let kind = try withString({ EntryKind($0) }), try nextElement() != (kind == .next) else {
            throw .malformed(offset: start)
        }
        let operation: JournalOperation
        switch kind {
        case .set, .priority, .add, .written, .delivery:
            let path = try storedPath()
            guard try nextElement() else { throw .malformed(offset: start) }
            let node = try storedNode(below: path)
            switch kind {
            case .set:
                if node.canBeRepeated { lastSet = node }
                operation = .set(path, node)
            case .priority: operation = .priority(path, node)
            case .written:
                guard let ms = node.time else { throw .malformed(offset: start) }
                operation = .written(path, ms)
            case .delivery:
                guard path.depth == 1, let id = path.keys.first else { throw .malformed(offset: start) }
                operation = .delivery(id, node)
            default: operation = .add(path, node)
            }
        case .same:
            guard let lastSet else { throw .malformed(offset: start) }
            operation = .set(try storedPath(), lastSet)
        case .keep, .cancel, .identify, .forget: operation = .pending(try pendingChange(kind))
        case .rowsBegin, .rowsList, .rowsAdvance, .rowsWithout, .rowsEnd: operation = .pendingRows(try pendingInboxChange(kind))
        case .watchMuted: operation = .watch(try watchMuted())
        case .watchForget: operation = .watch(.forget(try storedPath()))
        case .peerJoins, .peerDone, .peerGone: operation = .peer(try peerChange(kind))
        case .open:
            operation = try openWrite()
            if case .open(_, nil) = operation { return operation }
        // The entry has ended already.
        case .next: return nil
        }
        if try nextElement() { throw .malformed(offset: start) }
        return operation
    }

    /// Reads the rest of an entry after its kind; with the closing bracket if there is only a number.
    private mutating func openWrite() throws(JSONError) -> JournalOperation {
        let start = offset
        guard let number = UInt64(exactly: try int()) else { throw .malformed(offset: start) }
        guard try nextElement() else { return .open(number, nil) }
        let ms = try int()
        guard try nextElement() else { throw .malformed(offset: start) }
        return .open(number, OpenWrite(ms: ms, places: WrittenPlaces(tree: try storedNode(below: .root))))
    }

    private mutating func watchMuted() throws(JSONError) -> WatchChange {
        let start = offset
        let watch = try storedPath()
        guard try nextElement(), let number = Int(exactly: try int()), number >= 0, try nextElement() else { throw .malformed(offset: start) }
        let item = try storedPath()
        guard try nextElement(), let until = try storedNode(below: .root).time else { throw .malformed(offset: start) }
        return .muted(watch: watch, number: number, item: item, until: until)
    }

    package mutating func storedPath() throws(JSONError) -> Path {
        try path()
    }

    /// Ignores the size limits, so that a node accepted under higher limits can be read.
    mutating func storedNode(below path: Path) throws(JSONError) -> Node {
        let start = offset
        let value = try writeValue(depth: path.depth, maxStringBytes: .max)
        guard value.deferred.isEmpty else { throw .malformed(offset: start) }
        return value.node
    }
}

extension Node {
    /// True if an entry may refer to it: for other values a reference is no shorter.
    package var canBeRepeated: Bool {
        switch self {
        case .object, .packed, .string: true
        case .null, .bool, .int, .double, .prioritized: false
        }
    }
}

extension Node {
    /// A stored time: a number or null; nil for anything else.
    fileprivate var time: Int64?? {
        switch self {
        case .int(let ms): .some(ms)
        case .null: .some(nil)
        default: nil
        }
    }
}

/// Stored entries cannot be read.
package struct EntryFault: Error {
    /// In bytes from the start of the entries.
    package let offset: Int

    package init(offset: Int) { self.offset = offset }
}
