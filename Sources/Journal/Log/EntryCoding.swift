import JSONTree

/// The stored form of changes: a JSON array of entries, each an array that begins with its kind.
///
///     [["s","users/ana",{"age":30}],["p","users/ana",1.5],["i","session 1",{"uid":"ana"},false],["o","session 1",…]]
///
/// Batches hold `s`, `p`, `o`, `c`, `i` and `f`; the chunks of a snapshot hold `s`, `p`, `o`, `i`, and `a`, a run of children
/// added to an object.
enum EntryKind: String {
    /// `path, node`: sets the node.
    case set = "s"
    /// `path, priority`: sets only the priority.
    case priority = "p"
    /// `path, object`: adds the node's children to those of the place.
    case add = "a"
    /// Pending writes of a session; see `PendingChange`.
    case keep = "o"
    case cancel = "c"
    case identify = "i"
    case forget = "f"
}

extension JSONWriter {
    mutating func entry(_ kind: EntryKind, at path: Path, _ node: Node) {
        beginEntry(kind, at: path)
        self.node(node)
        raw("]")
    }

    /// Everything of an entry but its node and the closing bracket.
    mutating func beginEntry(_ kind: EntryKind, at path: Path) {
        begin(kind)
        self.path(path.keys)
        raw(",")
    }

    /// Kind and comma of an entry.
    mutating func begin(_ kind: EntryKind) {
        raw(bytes.isEmpty ? "[[\"" : ",[\"")
        raw(kind.rawValue.utf8)
        raw("\",")
    }
}

extension JournalBatch {
    /// The operations as they are stored.
    func encoded() -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 64 + operations.count * 128)
        for operation in operations {
            switch operation {
            case .set(let path, let node): writer.entry(.set, at: path, node)
            case .priority(let path, let priority): writer.entry(.priority, at: path, priority)
            case .pending(let change): writer.entry(change)
            }
        }
        writer.raw(operations.isEmpty ? "[]" : "]")
        return writer.bytes
    }
}

/// All that a journal keeps of one namespace.
struct DurableState {
    var root = Node.null
    var pending = PendingSessions()

    /// Applies stored entries in their order.
    /// - Throws: what does not read as entries, such as a checksum that fits by chance never lets pass.
    mutating func apply(entries bytes: UnsafeRawBufferPointer) throws(EntryFault) {
        var reader = JSONReader(bytes)
        do throws(JSONError) {
            try reader.beginArray()
            while try reader.nextElement() { try applyEntry(&reader) }
            try reader.expectEnd()
        } catch { throw EntryFault(offset: error.offset) }
    }

    private mutating func applyEntry(_ reader: inout JSONReader) throws(JSONError) {
        let start = reader.offset
        try reader.beginArray()
        guard try reader.nextElement(), let kind = EntryKind(rawValue: try reader.string()), try reader.nextElement() else {
            throw .malformed(offset: start)
        }
        switch kind {
        case .set, .priority, .add:
            let path = try reader.storedPath()
            guard try reader.nextElement() else { throw .malformed(offset: start) }
            let node = try reader.storedNode(below: path)
            switch kind {
            case .set: root.set(node, at: path)
            case .priority: root.setPriority(node, at: path)
            default: root.merge(node, at: path)
            }
        case .keep, .cancel, .identify, .forget:
            pending.apply(try reader.pendingChange(kind))
        }
        if try reader.nextElement() { throw .malformed(offset: start) }
    }
}

extension JSONReader {
    mutating func storedPath() throws(JSONError) -> Path {
        let start = offset
        guard let path = try? Path(parsing: try string()) else { throw .malformed(offset: start) }
        return path
    }

    /// Whatever was accepted once is read back, also under lower limits than then.
    mutating func storedNode(below path: Path) throws(JSONError) -> Node {
        let start = offset
        let value = try writeValue(depth: path.depth, maxStringBytes: .max)
        guard value.deferred.isEmpty else { throw .malformed(offset: start) }
        return value.node
    }
}

/// Stored entries that do not read.
struct EntryFault: Error {
    /// In bytes from their start.
    let offset: Int
}
