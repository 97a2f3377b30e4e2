extension JSONReader {
    /// Reads the next value as data to be written (contract §4.2–§4.4): export form with `.priority` and `.value`, arrays as
    /// objects with keys 0…n−1, nulls and empty containers pruned, `.sv` placeholders set aside.
    /// - Parameters:
    ///   - depth: levels that the place already takes; value and place together have at most `Path.maxDepth`.
    ///   - maxStringBytes: longest string in bytes of UTF-8 (contract: 10 MB).
    public mutating func writeValue(depth: Int = 0, maxStringBytes: Int = 10_485_760) throws(JSONError) -> WriteValue {
        var context = NodeContext(room: Path.maxDepth - depth, maxStringBytes: maxStringBytes)
        let node = try node(&context)
        return WriteValue(node: node, deferred: context.deferred)
    }

    /// What is known while a value is read.
    private struct NodeContext {
        let room: Int
        let maxStringBytes: Int
        /// Keys from the value's root to the node being read.
        var keys = ContiguousArray<Key>()
        var deferred: [WriteValue.Deferred] = []
    }

    private mutating func node(_ context: inout NodeContext) throws(JSONError) -> Node {
        switch try peek() {
        case .object: return try objectNode(&context)
        case .array: return try arrayNode(&context)
        default: return try leafNode(context.maxStringBytes)
        }
    }

    private mutating func leafNode(_ maxStringBytes: Int) throws(JSONError) -> Node {
        let start = offset
        switch try peek() {
        case .string:
            let text = try string()
            guard text.utf8.count <= maxStringBytes else { throw .stringTooLong(offset: start) }
            return .string(text)
        case .number: return try number()
        case .bool: return .bool(try bool())
        case .null:
            try null()
            return .null
        case .object, .array: throw .invalidValue(offset: start)
        }
    }

    private mutating func child(_ key: Key, _ context: inout NodeContext) throws(JSONError) -> Node {
        guard context.keys.count < context.room else {
            // A null writes nothing, so it may stand at any depth.
            if try peek() == .null { return try leafNode(0) }
            throw .tooDeep(offset: offset)
        }
        context.keys.append(key)
        let node = try node(&context)
        context.keys.removeLast()
        return node
    }

    private mutating func arrayNode(_ context: inout NodeContext) throws(JSONError) -> Node {
        try beginArray()
        var entries = ContiguousArray<ChildMap.Entry>()
        var index = 0
        while try nextElement() {
            let key = Key(index: index)
            let node = try child(key, &context)
            if node.exists { entries.append(ChildMap.Entry(key: key, node: node)) }
            index += 1
        }
        return entries.isEmpty ? .null : .object(ObjectNode(children: ChildMap(sorted: entries)))
    }

    private mutating func objectNode(_ context: inout NodeContext) throws(JSONError) -> Node {
        let start = offset
        try beginObject()
        var entries = ContiguousArray<ChildMap.Entry>()
        var isAscending = true
        var special = Special()
        while let name = try nextName() {
            if name.utf8.first == UInt8(ascii: ".") {
                try special.read(name, &self, context.maxStringBytes)
                continue
            }
            let key = Key(name)
            guard key.isValid else { throw .invalidKey(String(name.prefix(64)), offset: offset) }
            let node = try child(key, &context)
            if let last = entries.last, !(last.key < key) { isAscending = false }
            entries.append(ChildMap.Entry(key: key, node: node))
        }
        if !isAscending { entries = Self.ordered(entries) }
        entries.removeAll { $0.node.isNull }

        let path = Path(context.keys)
        if let value = special.value {
            guard entries.isEmpty else { throw .invalidValue(offset: start) }
            if case .server(let serverValue) = value { context.deferred.append(.init(path: path, target: .value, value: serverValue)) }
            guard value.placeholder.exists else { return .null }
            if case .server(let serverValue) = special.priority { context.deferred.append(.init(path: path, target: .priority, value: serverValue)) }
            return value.placeholder.with(priority: special.priority?.placeholder ?? .null)
        }
        if entries.isEmpty { return .null }
        if case .server(let serverValue) = special.priority { context.deferred.append(.init(path: path, target: .priority, value: serverValue)) }
        return .object(ObjectNode(children: ChildMap(sorted: entries), priority: special.priority?.placeholder ?? .null))
    }

    /// Key order; of several entries with one key the last one wins.
    private static func ordered(_ entries: ContiguousArray<ChildMap.Entry>) -> ContiguousArray<ChildMap.Entry> {
        let sorted = entries.enumerated().sorted { a, b in
            let order = Key.order(a.element.key, b.element.key)
            return order != 0 ? order < 0 : a.offset < b.offset
        }
        var unique = ContiguousArray<ChildMap.Entry>()
        for (_, entry) in sorted {
            if unique.last?.key == entry.key { unique.removeLast() }
            unique.append(entry)
        }
        return unique
    }

    /// The dot-members of one object.
    private struct Special {
        enum Value {
            case leaf(Node)
            case server(ServerValue)

            /// Stands in the tree until the server value is resolved; anything that exists will do.
            var placeholder: Node { if case .leaf(let node) = self { node } else { .int(0) } }
        }

        var value: Value?
        var priority: Value?

        mutating func read(_ name: String, _ reader: inout JSONReader, _ maxStringBytes: Int) throws(JSONError) {
            switch name {
            case ".value": value = try reader.leafOrServerValue(maxStringBytes)
            case ".sv": value = .server(try reader.serverValue())
            case ".priority":
                let offset = reader.offset
                let read: Value
                do { read = try reader.leafOrServerValue(maxStringBytes) } catch .invalidValue { throw .invalidPriority(offset: offset) }
                if case .leaf(.bool) = read { throw .invalidPriority(offset: offset) }
                priority = read
            default: throw .invalidKey(String(name.prefix(64)), offset: reader.offset)
            }
        }
    }

    private mutating func leafOrServerValue(_ maxStringBytes: Int) throws(JSONError) -> Special.Value {
        guard try peek() == .object else { return .leaf(try leafNode(maxStringBytes)) }
        let start = offset
        try beginObject()
        guard try nextName() == ".sv" else { throw .invalidValue(offset: start) }
        let value = try serverValue()
        guard try nextName() == nil else { throw .invalidValue(offset: start) }
        return .server(value)
    }

    /// What stands behind `.sv` (contract §5).
    private mutating func serverValue() throws(JSONError) -> ServerValue {
        let start = offset
        switch try peek() {
        case .string where try string() == "timestamp": return .timestamp
        case .object:
            try beginObject()
            guard try nextName() == "increment", try peek() == .number else { throw .unknownServerValue(offset: start) }
            let by = try number()
            guard try nextName() == nil else { throw .unknownServerValue(offset: start) }
            return .increment(by)
        default: throw .unknownServerValue(offset: start)
        }
    }
}
