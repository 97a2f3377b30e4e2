package import JSONTree

/// The stored form of pending writes. Server values follow the node, because they are computed when the write is applied:
///
///     ["o","session","n","users/ana",{"seen":0,"visits":0},[["seen","v","timestamp"],["visits","v",1]]]
///     ["c","session","users/ana"]    ["i","session",{"uid":"ana"},false]    ["f","session"]
extension JSONWriter {
    package mutating func entry(_ change: PendingChange) {
        switch change {
        case .keep(let session, let write):
            begin(.keep)
            string(session)
            raw(write.part == .node ? ",\"n\"," : ",\"p\",")
            path(write.path.keys)
            raw(",")
            node(write.value.node)
            raw(",[")
            for (i, item) in write.value.deferred.enumerated() {
                raw(i == 0 ? "[" : ",[")
                path(item.path.keys)
                raw(item.target == .value ? ",\"v\"," : ",\"p\",")
                switch item.value {
                case .timestamp: raw("\"timestamp\"")
                case .increment(let by): node(by)
                }
                raw("]")
            }
            raw("]")
        case .cancel(let session, let place):
            begin(.cancel)
            string(session)
            raw(",")
            path(place.keys)
        case .identify(let session, let auth, let isAdmin):
            begin(.identify)
            string(session)
            raw(",")
            node(auth)
            raw(isAdmin ? ",true" : ",false")
        case .forget(let session):
            begin(.forget)
            string(session)
        }
        raw("]")
    }

    package mutating func entries(_ sessions: [PendingSession]) {
        for session in sessions {
            entry(.identify(session: session.id, auth: session.auth, isAdmin: session.isAdmin))
            for write in session.writes.writes { entry(.keep(session: session.id, write)) }
        }
    }
}

extension JSONReader {
    /// Reads the rest of an entry after its kind, up to the closing bracket.
    mutating func pendingChange(_ kind: EntryKind) throws(JSONError) -> PendingChange {
        let session = try string()
        switch kind {
        case .cancel:
            try next()
            return .cancel(session: session, try storedPath())
        case .identify:
            try next()
            let auth = try claims()
            try next()
            return .identify(session: session, auth: auth, isAdmin: try bool())
        case .keep:
            try next()
            let part: TreeWrite.Part = try string() == "p" ? .priority : .node
            try next()
            let path = try storedPath()
            try next()
            var value = WriteValue(try storedNode(below: path))
            try next()
            try beginArray()
            while try nextElement() { value.deferred.append(try deferred()) }
            return .keep(session: session, TreeWrite(path, part: part, value))
        default: return .forget(session: session)
        }
    }

    private mutating func deferred() throws(JSONError) -> WriteValue.Deferred {
        try beginArray()
        try next()
        let path = try storedPath()
        try next()
        let target: WriteValue.Deferred.Target = try string() == "p" ? .priority : .value
        try next()
        let value: ServerValue
        if try peek() == .string {
            _ = try string()
            value = .timestamp
        } else {
            value = .increment(try number())
        }
        if try nextElement() { throw .malformed(offset: offset) }
        return WriteValue.Deferred(path: path, target: target, value: value)
    }

    private mutating func next() throws(JSONError) {
        guard try nextElement() else { throw .malformed(offset: offset) }
    }
}
