package import JSONTree

/// The stored form of pending rows and removals:
///
///     ["q",7,"news/n1",2,{"to":"inbox/$/n1","value":{"title":"Hi"}}]    ["l",7,["ana","ben"],true]
///     ["d",7,2]    ["x",7,"ana"]    ["e",7]
extension JSONWriter {
    package mutating func entry(_ change: PendingInboxChange) {
        switch change {
        case .begin(let id, let source, let most, let terms):
            begin(.owe, of: id)
            raw(",")
            path(source.keys)
            raw(",")
            int(Int64(most))
            raw(",")
            node(terms)
        case .list(let id, let keys, let isLast):
            begin(.owedList, of: id)
            raw(",[")
            for (i, key) in keys.enumerated() {
                if i > 0 { raw(",") }
                string(key.string)
            }
            raw(isLast ? "],true" : "],false")
        case .advance(let id, let count):
            begin(.owedDone, of: id)
            raw(",")
            int(Int64(count))
        case .without(let id, let key):
            begin(.owedWithout, of: id)
            raw(",")
            string(key.string)
        case .end(let id): begin(.owedEnd, of: id)
        }
        raw("]")
    }

    private mutating func begin(_ kind: EntryKind, of id: Int64) {
        begin(kind)
        int(id)
    }
}

extension JSONReader {
    /// Reads the rest of an entry after its kind, up to the closing bracket.
    mutating func owedChange(_ kind: EntryKind) throws(JSONError) -> PendingInboxChange {
        let start = offset
        let id = try int()
        if kind == .owedEnd { return .end(id) }
        guard try nextElement() else { throw .malformed(offset: start) }
        switch kind {
        case .owe:
            let source = try storedPath()
            guard try nextElement() else { throw .malformed(offset: start) }
            let most = try int()
            guard most >= 0, try nextElement() else { throw .malformed(offset: start) }
            return .begin(id, source: source, most: Int(clamping: most), try storedNode(below: .root))
        case .owedList:
            var keys: [Key] = []
            try beginArray()
            while try nextElement() { keys.append(Key(try string())) }
            guard try nextElement() else { throw .malformed(offset: start) }
            return .list(id, keys, isLast: try bool())
        case .owedDone:
            let count = try int()
            guard count >= 0, let count = Int(exactly: count) else { throw .malformed(offset: start) }
            return .advance(id, count)
        default: return .without(id, Key(try string()))
        }
    }
}
