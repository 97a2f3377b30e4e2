/// Encodes a node in REST form (contract §4.3, §4.4) piece by piece, so that a large node needs no more memory than one piece.
///
///     {"a":1,"b":{"c":[true,null,2]}}        nodes whose keys are (nearly) 0…n−1 become arrays
///     {"a":{".value":1,".priority":2}}       with priorities
///
/// It retains the immutable node, so it can be used on any one queue while the tree changes. O(nodes)
public struct NodeEncoder: @unchecked Sendable {
    // Sendable: its levels point into `root`, which is immutable and retained.
    public struct Form: Sendable, Hashable {
        /// Shows priorities.
        public var showsPriorities: Bool
        /// Which nodes with index keys become arrays; never one with a visible priority.
        public var arrays: Arrays
        /// Whether to indent by two spaces per enclosing object, with the elements of an array on one line (`print=pretty`).
        public var isPretty: Bool

        public enum Arrays: Sendable { case everywhere, belowRoot, never }

        public init(showsPriorities: Bool = false, arrays: Arrays = .everywhere, isPretty: Bool = false) {
            self.showsPriorities = showsPriorities
            self.arrays = arrays
            self.isPretty = isPretty
        }

        /// With priorities and without arrays (`format=export`).
        public static let export = Form(showsPriorities: true, arrays: .never)
    }

    /// A container being encoded.
    private struct Level {
        var children: ChildCursor
        var priority: Node
        /// The next index of an array; negative for an object.
        var nextIndex: Int
        var isFirst = true
    }

    /// Capacity for the longest text of a packed object, in addition to the requested bytes.
    public static let slackBytes = PackedJSON.mostBytes(PackedLimits.objectBytes) + 1024

    private let form: Form
    private let root: Node
    private var hasBegun = false
    private var levels: [Level] = []

    public init(_ node: Node, _ form: Form = Form()) {
        root = node
        self.form = form
    }

    /// Size in bytes, counted like ``Node/size(upTo:)``; nil above `limit`. O(nodes)
    public func size(upTo limit: Int) -> Int? { root.size(upTo: limit) }

    /// Whether everything has been written.
    public var isDone: Bool { hasBegun && levels.isEmpty }

    /// Appends until everything, or at least `bytes`, is in the writer. Exceeds `bytes` by at most one leaf with its key, or one packed object.
    /// A packed object is encoded as a whole; in place if the writer has capacity for the longest text (``slackBytes``).
    public mutating func write(to writer: inout JSONWriter, atLeast bytes: Int) {
        let enough = bytes < .max - writer.bytes.count ? writer.bytes.count + bytes : .max
        if !hasBegun {
            hasBegun = true
            withUnsafePointer(to: root) { begin(NodeCursor($0), &writer) }
        }
        while !levels.isEmpty, writer.bytes.count < enough {
            let top = levels.count - 1
            guard let child = levels[top].children.next() else {
                end(&writer)
                continue
            }
            if levels[top].nextIndex >= 0 {
                let index = Int(child.key.integer ?? 0)
                while levels[top].nextIndex < index {
                    separate(&writer)
                    writer.raw("null")
                    levels[top].nextIndex += 1
                }
                levels[top].nextIndex += 1
                separate(&writer)
            } else {
                separate(&writer)
                child.key.withBytes { name($0, &writer) }
            }
            begin(child.node, &writer)
        }
    }

    /// Writes a leaf, or begins a container.
    @inline(__always)
    private mutating func begin(_ node: NodeCursor, _ writer: inout JSONWriter) {
        switch node.kind {
        case .object:
            let mayBeArray = form.arrays == .everywhere || form.arrays == .belowRoot && !levels.isEmpty
            // Everything below a packed object has the same form as the object.
            if node.form == .packed, !form.isPretty, mayBeArray || form.arrays == .never {
                let (value, form) = (PackedValue(node.address), form)
                return PackedJSON.append(value, to: &writer.bytes, showsPriorities: form.showsPriorities, showsArrays: mayBeArray)
            }
            let priority = form.showsPriorities ? node.priority : .null
            let isArray = mayBeArray && priority.isNull && node.isArray
            writer.raw(isArray ? "[" : "{")
            levels.append(Level(children: ChildCursor(node), priority: priority, nextIndex: isArray ? 0 : -1))
        case .prioritized:
            guard form.showsPriorities else { return writer.node(node.leaf) }
            levels.append(Level(children: ChildCursor(), priority: node.priority, nextIndex: -1))
            writer.raw("{")
            separate(&writer)
            name(Self.valueName, &writer)
            writer.node(node.leaf)
        default: writer.node(node)
        }
    }

    private mutating func end(_ writer: inout JSONWriter) {
        let priority = levels[levels.count - 1].priority
        if priority.exists {
            separate(&writer)
            name(Self.priorityName, &writer)
            writer.node(priority)
        }
        let level = levels.removeLast()
        if level.nextIndex >= 0 { return writer.raw(form.isPretty ? " ]" : "]") }
        breakLine(&writer)
        writer.raw("}")
    }

    @inline(__always)
    private mutating func separate(_ writer: inout JSONWriter) {
        let top = levels.count - 1
        if !levels[top].isFirst { writer.raw(",") }
        levels[top].isFirst = false
        if levels[top].nextIndex < 0 { breakLine(&writer) } else if form.isPretty { writer.raw(" ") }
    }

    private static var valueName: UnsafeBufferPointer<UInt8> { bytes(of: ".value") }
    private static var priorityName: UnsafeBufferPointer<UInt8> { bytes(of: ".priority") }
    private static func bytes(of text: StaticString) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
    }

    @inline(__always)
    private func name(_ name: UnsafeBufferPointer<UInt8>, _ writer: inout JSONWriter) {
        writer.string(name)
        form.isPretty ? writer.raw(" : ") : writer.raw(":")
    }

    @inline(__always)
    private func breakLine(_ writer: inout JSONWriter) {
        guard form.isPretty else { return }
        writer.raw("\n")
        for level in levels where level.nextIndex < 0 { writer.raw("  ") }
    }
}

extension JSONWriter {
    /// Writes a node in REST form.
    public mutating func rest(_ node: Node, _ form: NodeEncoder.Form = NodeEncoder.Form()) {
        var encoder = NodeEncoder(node, form)
        encoder.write(to: &self, atLeast: .max)
    }
}

extension ChildMap {
    /// Whether REST shows the children as an array: all keys are plain indexes, and more than half of the indexes up to the last exist
    /// (contract §4.4). O(log n), as an event loop calls it while writing a response.
    public var isArray: Bool {
        // Integer keys come first, so the last key decides whether all are integers.
        guard let highest = lastKey?.integer, Int(highest) < 2 * count else { return false }
        return root.map { $0.named == 0 } ?? packed?.members.all { Key.isIndex($0.key) } ?? false
    }
}

extension NodeCursor {
    /// Like `ChildMap.isArray`.
    fileprivate var isArray: Bool {
        guard form == .packed else { return Unmanaged<ObjectNode>.fromOpaque(address)._withUnsafeGuaranteedRef { $0.children.isArray } }
        return PackedValue(address).members.isArray
    }
}

extension Key {
    var isIndex: Bool { text.withBytes(Key.isIndex) }

    /// `0|[1-9][0-9]*`
    static func isIndex(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard integer(bytes) != nil else { return false }
        return bytes.first == UInt8(ascii: "0") ? bytes.count == 1 : bytes.first != UInt8(ascii: "-")
    }
}

extension Node {
    /// Whether the node's REST form exceeds `limit` bytes, without escapes and white space. Writes nothing. O(nodes), up to the limit
    public func isLarger(than limit: Int) -> Bool { size(upTo: limit) == nil }

    /// The bytes of the node's REST form, without escapes and white space; nil above `limit`.
    public func size(upTo limit: Int) -> Int? {
        var left = limit
        return isWithin(&left) ? limit - left : nil
    }

    /// Subtracts the node's bytes, counted as for `isLarger`, from `left`; false once that is negative.
    public func isWithin(_ left: inout Int) -> Bool {
        withUnsafePointer(to: self) { NodeCursor($0).subtractSize(from: &left) }
    }
}

extension NodeCursor {
    /// Like `Node.isLarger`.
    public func isLarger(than limit: Int) -> Bool {
        var left = limit
        return !subtractSize(from: &left)
    }

    /// Subtracts the node's bytes from `left`; false once that is negative.
    fileprivate func subtractSize(from left: inout Int) -> Bool {
        switch kind {
        case .null, .bool: left -= 4
        case .int(let value): left -= value.magnitude < 10 ? 1 : value.magnitude < 1000 ? 3 : 10
        case .double: left -= 8
        case .text(let text): left -= text.utf8Count + 2
        case .prioritized:
            left -= 8
            if case .string(let text) = leaf { left -= text.utf8Count }
        case .object:
            left -= 2
            return allChildren { key, child in
                left -= key.utf8Count + 4
                return child.subtractSize(from: &left)
            }
        }
        return left >= 0
    }
}
