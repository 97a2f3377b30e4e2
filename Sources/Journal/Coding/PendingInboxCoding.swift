package import JSONTree

/// The stored form of pending rows and removals:
///
///     ["q",7,"news/n1",2,{"to":"inbox/$/n1","value":{"title":"Hi"}}]    ["l",7,["ana","ben"],true]
///     ["d",7,2]    ["x",7,"ana"]    ["e",7]
extension JSONWriter {
    package mutating func entry(_ change: PendingInboxChange) {
        switch change {
        case .begin(let id, let source, let most, let terms):
            begin(.rowsBegin, of: id)
            raw(",")
            path(source.keys)
            raw(",")
            int(Int64(most))
            raw(",")
            node(terms)
        case .list(let id, let keys, let isLast):
            begin(.rowsList, of: id)
            raw(",[")
            for (i, key) in keys.enumerated() {
                if i > 0 { raw(",") }
                string(key.string)
            }
            raw(isLast ? "],true" : "],false")
        case .advance(let id, let count):
            begin(.rowsAdvance, of: id)
            raw(",")
            int(Int64(count))
        case .without(let id, let key):
            begin(.rowsWithout, of: id)
            raw(",")
            string(key.string)
        case .end(let id): begin(.rowsEnd, of: id)
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
    mutating func pendingInboxChange(_ kind: EntryKind) throws(JSONError) -> PendingInboxChange {
        let start = offset
        let id = try int()
        if kind == .rowsEnd { return .end(id) }
        guard try nextElement() else { throw .malformed(offset: start) }
        switch kind {
        case .rowsBegin:
            let source = try storedPath()
            guard try nextElement() else { throw .malformed(offset: start) }
            let most = try int()
            guard most >= 0, try nextElement() else { throw .malformed(offset: start) }
            return .begin(id, source: source, most: Int(clamping: most), try storedNode(below: .root))
        case .rowsList:
            var keys: [Key] = []
            try beginArray()
            while try nextElement() { keys.append(Key(try string())) }
            guard try nextElement() else { throw .malformed(offset: start) }
            return .list(id, keys, isLast: try bool())
        case .rowsAdvance:
            let count = try int()
            guard count >= 0, let count = Int(exactly: count) else { throw .malformed(offset: start) }
            return .advance(id, count)
        default: return .without(id, Key(try string()))
        }
    }
}
