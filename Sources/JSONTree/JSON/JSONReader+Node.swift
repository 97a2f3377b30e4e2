extension JSONReader {
    /// Parses the next value as data of a write (contract §4.2–§4.4): export form with `.priority` and `.value`, arrays as
    /// objects with keys 0…n−1, nulls and empty containers dropped, `.sv` placeholders collected.
    /// - Parameters:
    ///   - depth: levels that the place already takes; value and place together have at most `Path.maxDepth`.
    ///   - maxStringBytes: longest string in bytes of UTF-8 (contract: 10 MB).
    ///   - allowance: bounds the value's memory; nil for no bound.
    public mutating func writeValue(
        depth: Int = 0, maxStringBytes: Int = 10_485_760, allowance: NodeAllowance? = nil
    ) throws(JSONError) -> WriteValue {
        var context = NodeContext(room: Path.maxDepth - depth, maxStringBytes: maxStringBytes, allowance: allowance)
        defer { context.refundWork() }
        let node = try node(&context)
        return WriteValue(node: node, deferred: context.remaining())
    }

    /// The state of parsing one value.
    private struct NodeContext {
        let room: Int
        let maxStringBytes: Int
        let allowance: NodeAllowance?
        /// Keys from the value's root to the current node.
        var keys = ContiguousArray<Key>()
        var deferred: [WriteValue.Deferred] = []
        /// Parts of `deferred` in members that a later duplicate replaced.
        var overwritten: [Range<Int>] = []
        var members = MemberStack()

        /// Bytes needed only during parsing.
        var work = 0

        func charge(_ bytes: Int, _ offset: Int) throws(JSONError) {
            guard let allowance else { return }
            guard allowance.charge(bytes) else { throw .overBudget(offset: offset) }
        }

        func chargeText(_ utf8Count: Int, _ offset: Int) throws(JSONError) {
            guard utf8Count > 15 else { return }
            try charge(NodeCost.text(utf8Count), offset)
        }

        mutating func add(_ key: Key, _ node: Node, _ offset: Int) throws(JSONError) {
            guard allowance != nil else { return members.add(key, node) }
            if members.isFull { try growMembers(offset) }
            members.add(key, node)
            if node.exists { try charge(members.isUnordered ? NodeCost.unorderedChild : NodeCost.child, offset) }
        }

        /// Doubles the capacity for members; both buffers exist until the entries are moved.
        private mutating func growMembers(_ offset: Int) throws(JSONError) {
            let bytes = members.capacity * NodeCost.entry
            try charge(max(bytes, 16 * NodeCost.entry), offset)
            work += max(bytes, 16 * NodeCost.entry)
            try charge(bytes, offset)
            members.grow()
            allowance?.refund(bytes)
        }

        /// An object of the members since `outer`; null without any.
        mutating func endObject(_ outer: consuming MemberStack.Outer, _ offset: Int) throws(JSONError) -> ChildMap {
            let bytes = members.countOfInnermost * NodeCost.entry
            // They exist in the list and in pages while they are moved.
            let isPaged = bytes > ChildMap.pageCapacity * NodeCost.entry
            if isPaged { try charge(bytes, offset) }
            let children = members.end(outer)
            if isPaged { allowance?.refund(bytes) }
            if !children.isEmpty { try charge(NodeCost.object, offset) }
            return children
        }

        func refundWork() { allowance?.refund(work) }

        mutating func deferServerValue(
            _ value: Special.Value?, as target: WriteValue.Deferred.Target, _ offset: Int
        ) throws(JSONError) {
            guard case .server(let serverValue) = value else { return }
            try charge(NodeCost.serverValue, offset)
            deferred.append(WriteValue.Deferred(path: Path(keys), target: target, value: serverValue))
        }

        /// The server values that are not overwritten by duplicate members.
        func remaining() -> [WriteValue.Deferred] {
            if overwritten.isEmpty { return deferred }
            var isOverwritten = [Bool](repeating: false, count: deferred.count)
            for range in overwritten { for i in range { isOverwritten[i] = true } }
            return zip(deferred, isOverwritten).compactMap { $1 ? nil : $0 }
        }
    }

    private mutating func node(_ context: inout NodeContext) throws(JSONError) -> Node {
        switch try peek() {
        case .object: return try objectNode(&context)
        case .array: return try arrayNode(&context)
        default:
            let node = try leafNode(context.maxStringBytes)
            if case .string(let text) = node { try context.chargeText(text.utf8Count, offset) }
            return node
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
        let outer = context.members.begin()
        var index = 0
        while try nextElement() {
            let key = Key(index: index)
            let node = try child(key, &context)
            try context.add(key, node, offset)
            index += 1
        }
        let children = try context.endObject(outer, offset)
        return children.isEmpty ? .null : .object(ObjectNode(children: children))
    }

    private mutating func objectNode(_ context: inout NodeContext) throws(JSONError) -> Node {
        let start = offset
        try beginObject()
        let outer = context.members.begin()
        var special = Special()
        var serverValues: [Key: Range<Int>] = [:]
        while let name = try nextName() {
            if name.utf8.first == UInt8(ascii: ".") {
                try special.read(name, &self, context.maxStringBytes)
                continue
            }
            let key = Key(name)
            guard key.isValid else { throw .invalidKey(Self.cut(name), offset: nameOffset) }
            try context.chargeText(name.utf8.count, offset)
            let known = context.deferred.count
            let node = try child(key, &context)
            if !serverValues.isEmpty, let overwritten = serverValues.removeValue(forKey: key) { context.overwritten.append(overwritten) }
            if context.deferred.count > known { serverValues[key] = known..<context.deferred.count }
            try context.add(key, node, offset)
        }
        let children = try context.endObject(outer, offset)

        if let value = special.value {
            guard children.isEmpty else { throw .invalidValue(offset: start) }
            guard value.placeholder.exists else { return .null }
            try context.deferServerValue(value, as: .value, start)
            try context.deferServerValue(special.priority, as: .priority, start)
            if case .string(let text) = value.placeholder { try context.chargeText(text.utf8Count, start) }
            if special.priority != nil { try context.charge(NodeCost.prioritized, start) }
            return value.placeholder.with(priority: special.priority?.placeholder ?? .null)
        }
        if children.isEmpty { return .null }
        try context.deferServerValue(special.priority, as: .priority, start)
        if case .string(let text) = special.priority?.placeholder { try context.chargeText(text.utf8Count, start) }
        return .object(ObjectNode(children: children, priority: special.priority?.placeholder ?? .null))
    }

    /// The beginning of a member name, for an error text: 64 bytes.
    private static func cut(_ name: String) -> String { String(decoding: name.utf8.prefix(64), as: UTF8.self) }

    /// The dot-members of one object.
    private struct Special {
        enum Value {
            case leaf(Node)
            case server(ServerValue)

            /// Stand-in until the server value is resolved; any existing node will do.
            var placeholder: Node { if case .leaf(let node) = self { node } else { .int(0) } }
        }

        var value: Value?
        /// The name of the member with the value.
        private var known: String?
        var priority: Value?

        mutating func read(_ name: String, _ reader: inout JSONReader, _ maxStringBytes: Int) throws(JSONError) {
            switch name {
            case ".value", ".sv":
                let offset = reader.offset
                // Both in one object would leave two values.
                if let known, known != name { throw .invalidValue(offset: offset) }
                known = name
                value = name == ".sv" ? .server(try reader.serverValue()) : try reader.leafOrServerValue(maxStringBytes)
            case ".priority":
                let offset = reader.offset
                let read: Value
                do { read = try reader.leafOrServerValue(maxStringBytes) } catch .invalidValue { throw .invalidPriority(offset: offset) }
                if case .leaf(.bool) = read { throw .invalidPriority(offset: offset) }
                priority = read
            default: throw .invalidKey(JSONReader.cut(name), offset: reader.nameOffset)
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

    /// The value of `.sv` (contract §5).
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
