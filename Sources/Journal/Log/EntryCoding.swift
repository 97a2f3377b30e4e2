import JSONTree

/// The stored form of changes: a JSON array of `[kind, path, node in export form]`.
///
///     [["s","users/ana",{"age":30}],["p","users/ana",1.5]]
///
/// Batches hold `s` and `p`; the chunks of a snapshot also hold `a`, a run of children added to an object.
enum EntryKind: String {
    /// Sets the node.
    case set = "s"
    /// Sets only the priority.
    case priority = "p"
    /// Adds the node's children to those of the place.
    case add = "a"
}

extension JSONWriter {
    mutating func entry(_ kind: EntryKind, at path: Path, _ node: Node) {
        beginEntry(kind, at: path)
        self.node(node)
        raw("]")
    }

    /// Everything of an entry but its node and the closing bracket.
    mutating func beginEntry(_ kind: EntryKind, at path: Path) {
        raw(bytes.isEmpty ? "[[\"" : ",[\"")
        raw(kind.rawValue.utf8)
        raw("\",")
        self.path(path.keys)
        raw(",")
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
            }
        }
        writer.raw(operations.isEmpty ? "[]" : "]")
        return writer.bytes
    }
}

extension Node {
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
        let text = try reader.string()
        guard let path = try? Path(parsing: text), try reader.nextElement() else { throw .malformed(offset: start) }
        // Whatever was accepted once is read back, also under lower limits than then.
        let value = try reader.writeValue(depth: path.depth, maxStringBytes: .max)
        guard value.deferred.isEmpty, try !reader.nextElement() else { throw .malformed(offset: start) }
        switch kind {
        case .set: set(value.node, at: path)
        case .priority: setPriority(value.node, at: path)
        case .add: merge(value.node, at: path)
        }
    }
}

/// Stored entries that do not read.
struct EntryFault: Error {
    /// In bytes from their start.
    let offset: Int
}
