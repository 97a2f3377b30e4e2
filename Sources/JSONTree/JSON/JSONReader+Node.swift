extension JSONReader {
    /// Parses the next value as data of a write (contract §4.2–§4.4). Accepts the export form with `.priority` and `.value`. Arrays become
    /// objects with keys 0…n−1, nulls and empty containers are dropped, and `.sv` placeholders are collected.
    /// - Parameters:
    ///   - depth: the depth of the written place; value and place together have at most `Path.maxDepth` levels.
    ///   - maxStringBytes: longest string in bytes of UTF-8 (contract: 10 MB).
    ///   - allowance: bounds the value's memory; nil for no bound.
    public mutating func writeValue(
        depth: Int = 0, maxStringBytes: Int = 10_485_760, allowance: NodeAllowance? = nil
    ) throws(JSONError) -> WriteValue {
        let kind = try peek()
        guard kind == .object || kind == .array else {
            let node = try leafNode(maxStringBytes)
            if case .string(let text) = node, let allowance { try Self.charge(text.utf8Count, allowance, offset) }
            return WriteValue(node)
        }
        var context = NodeContext(room: Path.maxDepth - depth, maxStringBytes: maxStringBytes, allowance: allowance)
        _ = context.builder.beginObject()
        var node = Node.null
        switch kind == .array ? try elements(&context) : try members(&context) {
        case .children(let priority): node = context.builder.finish(priority: priority)
        case .leaf(let leaf): node = leaf
        }
        if context.builder.isRefused { throw .overBudget(offset: offset) }
        return WriteValue(node: node, deferred: context.remaining())
    }

    /// The state of parsing one value.
    private struct NodeContext: ~Copyable {
        let room: Int
        let maxStringBytes: Int
        let allowance: NodeAllowance?
        var builder: ObjectBuilder
        /// The offsets in the builder of the open members, from the value's root to the current node: `depth` of them.
        var open = InlineArray<33, UInt32>(repeating: 0)
        var depth = 0
        var deferred: [WriteValue.Deferred] = []
        /// Ranges of `deferred` in members that a later duplicate replaced.
        var overwritten: [Range<Int>] = []

        init(room: Int, maxStringBytes: Int, allowance: NodeAllowance?) {
            self.room = room
            self.maxStringBytes = maxStringBytes
            self.allowance = allowance
            builder = ObjectBuilder(allowance)
        }

        func charge(_ bytes: Int, _ offset: Int) throws(JSONError) {
            if let allowance, !allowance.charge(bytes) { throw .overBudget(offset: offset) }
        }

        mutating func deferServerValue(
            _ value: Special.Value?, as target: WriteValue.Deferred.Target, _ offset: Int
        ) throws(JSONError) {
            guard case .server(let serverValue) = value else { return }
            try charge(NodeCost.serverValue, offset)
            let keys = ContiguousArray((0..<depth).map { builder.key(ofEntryAt: Int(open[$0])) })
            deferred.append(WriteValue.Deferred(path: Path(keys), target: target, value: serverValue))
        }

        /// The server values not overwritten by duplicate members.
        func remaining() -> [WriteValue.Deferred] {
            if overwritten.isEmpty { return deferred }
            var isOverwritten = [Bool](repeating: false, count: deferred.count)
            for range in overwritten { for i in range { isOverwritten[i] = true } }
            return zip(deferred, isOverwritten).compactMap { $1 ? nil : $0 }
        }
    }

    /// The result of parsing an object or an array.
    private enum Container {
        /// Members, stored in the builder; the object is still open there.
        case children(priority: Node)
        /// A leaf in the form `{".value": …}`, or null.
        case leaf(Node)
    }

    private static func charge(_ utf8Count: Int, _ allowance: NodeAllowance, _ offset: Int) throws(JSONError) {
        guard utf8Count > 15 else { return }
        guard allowance.charge(NodeCost.text(utf8Count)) else { throw .overBudget(offset: offset) }
    }

    /// Parses the value of the open member into the builder.
    private mutating func value(_ context: inout NodeContext) throws(JSONError) {
        switch try peek() {
        case .number:
            switch shortNumber() {
            case .int(let value): context.builder.add(value)
            case .double(let value): context.builder.add(.number(value))
            case nil: context.builder.add(try number())
            }
        case .string: try text(&context)
        case .bool: context.builder.add(try bool())
        case .null: try null()
        case .object, .array:
            let isArray = try peek() == .array
            let outer = context.builder.beginObject()
            switch isArray ? try elements(&context) : try members(&context) {
            case .children(let priority): context.builder.endObject(outer, priority: priority)
            case .leaf(let leaf):
                // The object has no members: the reader refuses `.value` beside children.
                context.builder.endObject(outer)
                context.builder.add(leaf)
            }
        }
    }

    private mutating func text(_ context: inout NodeContext) throws(JSONError) {
        let start = offset
        let scanned = try scanString()
        if scanned.isPlain, scanned.content.count <= PackedLimits.textBytes {
            guard scanned.content.count <= context.maxStringBytes else { throw .stringTooLong(offset: start) }
            return context.builder.add(text: UnsafeBufferPointer(rebasing: bytes[scanned.content]))
        }
        // Charge before creating the text: repair makes it at most three times as long, and usually no longer.
        if scanned.content.count > PackedLimits.textBytes {
            try context.charge(NodeCost.text(scanned.content.count) + NodeCost.longText, start)
        }
        let text = try string(scanned)
        guard text.utf8.count <= context.maxStringBytes else { throw .stringTooLong(offset: start) }
        let count = text.utf8.count
        if count > PackedLimits.textBytes, scanned.content.count <= PackedLimits.textBytes {
            // Repairing the text has made it longer.
            try context.charge(NodeCost.text(count) + NodeCost.longText, start)
        } else if count > scanned.content.count {
            try context.charge(count - scanned.content.count, start)
        }
        context.builder.add(.string(text))
    }

    private mutating func elements(_ context: inout NodeContext) throws(JSONError) -> Container {
        try beginArray()
        var index = 0
        while try nextElement() {
            Key.withBytes(ofIndex: index) { context.builder.beginMember($0) }
            _ = try member(&context)
            index += 1
        }
        return .children(priority: .null)
    }

    private mutating func members(_ context: inout NodeContext) throws(JSONError) -> Container {
        let start = offset
        try beginObject()
        var special = Special()
        var serverValues: [Key: Range<Int>] = [:]
        while let name = try nextNameText() {
            if name.escaped || (!name.content.isEmpty && bytes[name.content.lowerBound] == UInt8(ascii: ".")) {
                // A special name may be written with escapes.
                let text = try string(name)
                if text.utf8.first == UInt8(ascii: ".") {
                    try special.read(text, &self, context.maxStringBytes)
                    continue
                }
            }
            if name.isPlain {
                let key = UnsafeBufferPointer(rebasing: bytes[name.content])
                guard Key.isValid(key) else { throw .invalidKey(Self.cut(try string(name)), offset: nameOffset) }
                context.builder.beginMember(key)
            } else {
                let key = Key(try string(name))
                guard key.isValid else { throw .invalidKey(Self.cut(key.string), offset: nameOffset) }
                key.text.withBytes { context.builder.beginMember($0) }
            }
            let known = context.deferred.count
            if !serverValues.isEmpty, let overwritten = serverValues.removeValue(forKey: context.builder.openKey) {
                context.overwritten.append(overwritten)
            }
            if let key = try member(&context) { serverValues[key] = known..<context.deferred.count }
        }

        if let value = special.value {
            guard context.builder.isLevelEmpty() else { throw .invalidValue(offset: start) }
            guard value.placeholder.exists else { return .leaf(.null) }
            try context.deferServerValue(value, as: .value, start)
            try context.deferServerValue(special.priority, as: .priority, start)
            if case .string(let text) = value.placeholder { try context.charge(NodeCost.text(text.utf8Count), start) }
            if case .string(let text) = special.priority?.placeholder { try context.charge(NodeCost.text(text.utf8Count), start) }
            if special.priority != nil { try context.charge(NodeCost.prioritized, start) }
            return .leaf(value.placeholder.with(priority: special.priority?.placeholder ?? .null))
        }
        if context.builder.isLevelEmpty() { return .leaf(.null) }
        try context.deferServerValue(special.priority, as: .priority, start)
        if case .string(let text) = special.priority?.placeholder { try context.charge(NodeCost.text(text.utf8Count), start) }
        return .children(priority: special.priority?.placeholder ?? .null)
    }

    /// Parses the value of the open member, and ends the member.
    /// - Returns: the member's key, if its value contains server values.
    @inline(__always)
    private mutating func member(_ context: inout NodeContext) throws(JSONError) -> Key? {
        let known = context.deferred.count
        if context.depth < context.room {
            context.open[context.depth] = UInt32(truncatingIfNeeded: context.builder.openEntry)
            context.depth &+= 1
            try value(&context)
            context.depth &-= 1
        } else {
            // A null writes nothing, so it may appear at any depth.
            guard try peek() == .null else { throw .tooDeep(offset: offset) }
            try null()
        }
        let key = context.deferred.count > known ? context.builder.openKey : nil
        context.builder.endMember()
        if context.builder.isRefused { throw .overBudget(offset: offset) }
        return key
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

    /// The beginning of a member name, for an error text: 64 bytes.
    private static func cut(_ name: String) -> String { String(decoding: name.utf8.prefix(64), as: UTF8.self) }

    /// The special members (`.value`, `.sv`, `.priority`) of one object.
    private struct Special {
        enum Value {
            case leaf(Node)
            case server(ServerValue)

            /// A placeholder until the server value is resolved; any existing node works.
            var placeholder: Node { if case .leaf(let node) = self { node } else { .int(0) } }
        }

        var value: Value?
        /// The name of the special member with the value.
        private var known: String?
        var priority: Value?

        mutating func read(_ name: String, _ reader: inout JSONReader, _ maxStringBytes: Int) throws(JSONError) {
            switch name {
            case ".value", ".sv":
                let offset = reader.offset
                // Both `.value` and `.sv` in one object would give two values.
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
