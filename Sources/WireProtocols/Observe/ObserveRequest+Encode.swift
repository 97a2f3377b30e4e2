import JSONTree
import LiveQueries

extension ObserveRequest {
    /// Encodes the request as JSON for one text frame (client side). An `invalid` operation has no encoding and yields a ping.
    public func encoded() -> [UInt8] {
        var writer = JSONWriter()
        writer.raw("{\"id\":")
        writer.int(id)
        writer.raw(",\"op\":\"")
        Self.encode(operation, &writer)
        writer.raw("}")
        return writer.bytes
    }

    private static func encode(_ operation: ObserveOperation, _ writer: inout JSONWriter) {
        switch operation {
        case .explained(let asked):
            encode(asked, &writer)
            writer.raw(",\"explain\":true")
        case .auth(let token):
            writer.raw("auth\",\"token\":")
            writer.string(token)
        case .observe(let path, let events, let query, let maxHz, let since):
            writer.raw("observe\"")
            Self.path(path, .node, &writer)
            writer.raw(",\"events\":[")
            var isFirst = true
            for (name, event) in ObserveEvents.names where events.contains(event) {
                if !isFirst { writer.raw(",") }
                isFirst = false
                writer.string(name)
            }
            writer.raw("]")
            query?.write(to: &writer)
            if let maxHz {
                writer.raw(",\"maxHz\":")
                writer.node(.number(maxHz))
            }
            switch since {
            case .now: writer.raw(",\"since\":null")
            case .after(let epoch, let seq):
                writer.raw(",\"since\":{\"epoch\":")
                writer.string(epoch)
                writer.raw(",\"seq\":")
                writer.int(seq)
                writer.raw("}")
            case nil: break
            }
        case .unobserve(let sub):
            writer.raw("unobserve\",\"sub\":")
            writer.int(sub)
        case .move(let sub, let target):
            writer.raw("move\",\"sub\":")
            writer.int(sub)
            writer.target(target)
        case .get(let path, let query):
            writer.raw("get\"")
            Self.path(path, .node, &writer)
            query?.write(to: &writer)
        case .count(let path, let query):
            writer.raw("count\"")
            Self.path(path, .node, &writer)
            query?.write(to: &writer)
        case .set(let write):
            writer.raw("set\"")
            Self.set(write, &writer)
        case .update(let path, let writes):
            writer.raw("update\"")
            Self.update(path, writes, &writer)
        case .push(let path, let value):
            writer.raw("push\"")
            Self.path(path, .node, &writer)
            writer.raw(",\"value\":")
            writer.write(value)
        case .remove(let write):
            writer.raw("remove\"")
            Self.path(write.path, write.part, &writer)
        case .transaction(let write, let hash):
            writer.raw("transaction\"")
            Self.path(write.path, write.part, &writer)
            writer.raw(",\"hash\":")
            writer.string(hash)
            writer.raw(",\"value\":")
            writer.write(write.value)
        case .onDisconnect(let leaving):
            writer.raw("onDisconnect\",\"do\":\"")
            Self.leaving(leaving, &writer)
        case .ping, .invalid:
            writer.raw("ping\"")
        }
    }

    private static func leaving(_ leaving: DisconnectOperation, _ writer: inout JSONWriter) {
        switch leaving {
        case .set(let write):
            writer.raw("set\"")
            set(write, &writer)
        case .update(let path, let writes):
            writer.raw("update\"")
            update(path, writes, &writer)
        case .remove(let write):
            writer.raw("remove\"")
            path(write.path, write.part, &writer)
        case .cancel(let place):
            writer.raw("cancel\"")
            path(place, .node, &writer)
        }
    }

    private static func set(_ write: TreeWrite, _ writer: inout JSONWriter) {
        path(write.path, write.part, &writer)
        writer.raw(",\"value\":")
        writer.write(write.value)
    }

    private static func update(_ base: Path, _ writes: [TreeWrite], _ writer: inout JSONWriter) {
        path(base, .node, &writer)
        writer.raw(",\"value\":{")
        var isFirst = true
        for write in writes {
            if !isFirst { writer.raw(",") }
            isFirst = false
            writer.path(keys(write.path, write.part))
            writer.raw(":")
            writer.write(write.value)
        }
        writer.raw("}")
    }

    private static func keys(_ path: Path, _ part: TreeWrite.Part) -> ContiguousArray<Key> {
        part == .priority ? path.appending(Key(".priority")).keys : path.keys
    }

    private static func path(_ path: Path, _ part: TreeWrite.Part, _ writer: inout JSONWriter) {
        writer.raw(",\"path\":")
        writer.path(keys(path, part))
    }
}

extension JSONWriter {
    /// Data of a write, with its server values as `.sv` (contract §5).
    mutating func write(_ value: WriteValue) {
        if value.deferred.isEmpty { return node(value.node) }
        write(value.node, value.deferred[...], depth: 0)
    }

    /// Writes a node whose server values, its own and deeper ones, are `deferred`; all their paths start with the node's path.
    private mutating func write(_ value: Node, _ deferred: ArraySlice<WriteValue.Deferred>, depth: Int) {
        if deferred.isEmpty { return node(value) }
        let own = deferred.filter { $0.path.depth == depth }
        let priority = own.first { $0.target == .priority }
        let leaf = own.first { $0.target == .value }
        guard value.hasChildren else {
            guard priority != nil || value.priority.exists else { return self.leaf(value, leaf) }
            raw("{\".value\":")
            self.leaf(value.leaf, leaf)
            raw(",\".priority\":")
            self.leaf(value.priority, priority)
            return raw("}")
        }
        raw("{")
        var isFirst = true
        for (key, child) in value.children {
            if !isFirst { raw(",") }
            isFirst = false
            string(key.text)
            raw(":")
            let below = deferred.filter { $0.path.depth > depth && $0.path.keys[depth] == key }
            write(child, below[...], depth: depth + 1)
        }
        if priority != nil || value.priority.exists {
            raw(",\".priority\":")
            self.leaf(value.priority, priority)
        }
        raw("}")
    }

    private mutating func leaf(_ stored: Node, _ deferred: WriteValue.Deferred?) {
        switch deferred?.value {
        case .timestamp: raw("{\".sv\":\"timestamp\"}")
        case .increment(let by):
            raw("{\".sv\":{\"increment\":")
            node(by)
            raw("}}")
        case nil: node(stored)
        }
    }
}
