/// A value of the tree: null, a leaf, or an object with at least one child. Leaves and objects may have a priority.
///
/// Nodes are values. Objects are shared between versions of a tree and changed in place only while uniquely referenced (see `ObjectNode`,
/// `PackedPage`). So keeping an old root costs only the memory of later changes.
///
///     Node  ── null | bool | int | double | string            17 bytes, no allocation except for long strings
///           ── packed ──► PackedPage  (a small object in one allocation, or one within a page)
///           ── object ──► ObjectNode  (children in packed pages, priority, cached hash)
///           ── prioritized ──► PrioritizedLeaf (leaf, priority)
public enum Node: Sendable {
    /// No value: the place does not exist.
    case null
    case bool(Bool)
    /// An integer that fits 64 bits; kept exactly.
    case int(Int64)
    /// Any other finite number. Integral doubles up to 2^53 are parsed as `int`, so `1.0` is `1`.
    case double(Double)
    case string(Text)
    /// An object too large for packed bytes. Has at least one child; an object without children is `null` (contract §4.1).
    case object(ObjectNode)
    /// A small object, in packed bytes.
    case packed(PackedObject)
    /// A leaf with a priority.
    case prioritized(PrioritizedLeaf)

    /// A number, as `int` if it is integral and at most 2^53 in magnitude. NaN and infinities are not JSON and become `null`.
    public static func number(_ value: Double) -> Node {
        guard value.isFinite else { return .null }
        if value.rounded(.towardZero) == value, value.magnitude <= 9_007_199_254_740_992 { return .int(Int64(value)) }
        return .double(value)
    }

    public static func string(_ value: String) -> Node { .string(Text(value)) }
}

/// A leaf with its priority; immutable.
public final class PrioritizedLeaf: Sendable {
    /// bool, int, double or string.
    public let leaf: Node
    /// int, double or string.
    public let priority: Node

    init(leaf: Node, priority: Node) {
        self.leaf = leaf
        self.priority = priority
    }
}

extension Node {
    public var isNull: Bool { if case .null = self { true } else { false } }
    public var exists: Bool { !isNull }

    @inline(__always)
    public var hasChildren: Bool {
        switch self {
        case .object, .packed: true
        default: false
        }
    }

    /// The children; none for a leaf. O(1)
    public var children: ChildMap {
        switch self {
        case .object(let object): object.children
        case .packed(let object): ChildMap(object)
        default: ChildMap()
        }
    }

    /// The leaf without its priority; `null` for an object.
    public var leaf: Node {
        switch self {
        case .object, .packed: .null
        case .prioritized(let leaf): leaf.leaf
        default: self
        }
    }

    /// int, double, string or `null`.
    public var priority: Node {
        switch self {
        case .object(let object): object.priority
        case .packed(let object): object.value.priority
        case .prioritized(let leaf): leaf.priority
        default: .null
        }
    }

    /// The same value with another priority; `null` removes it. A missing node stays missing (contract §4.2).
    public func with(priority: Node) -> Node {
        switch self {
        case .null: return .null
        case .object(let object): return object.copy(priority: priority).node
        case .packed(let object): return object.with(priority: priority)
        default: return priority.isNull ? leaf : .prioritized(PrioritizedLeaf(leaf: leaf, priority: priority))
        }
    }

    /// Whether the node fits below a place of this depth: with its descendants at most `Path.maxDepth` levels. O(nodes)
    public func fits(below depth: Int) -> Bool {
        withUnsafePointer(to: self) { NodeCursor($0).fits(below: depth) }
    }

    /// Null, a number or a string (contract §4.2).
    public var canBePriority: Bool {
        switch self {
        case .null, .int, .double, .string: true
        default: false
        }
    }

    /// Number of direct children.
    public var childCount: Int {
        switch self {
        case .object(let object): object.children.count
        case .packed(let object): object.count
        default: 0
        }
    }

    public func child(_ key: Key) -> Node {
        switch self {
        case .object(let object): object.child(key) ?? .null
        case .packed(let object): key.text.withBytes { object.child(Key.Probe($0)) } ?? .null
        default: .null
        }
    }

    /// The node at a place below this one. O(depth · log children)
    public func node(at path: Path) -> Node { path.keys.withUnsafeBufferPointer { node(along: $0) } }

    /// The node below this one along the keys.
    public func node(at keys: ArraySlice<Key>) -> Node { keys.withUnsafeBufferPointer { node(along: $0) } }

    private func node(along keys: UnsafeBufferPointer<Key>) -> Node {
        keys.isEmpty ? self : withUnsafePointer(to: self) { NodeCursor.node(below: $0, along: keys) }
    }

    /// An object with these children. Nulls are dropped, the last of equal keys counts, and no children make `null`.
    public static func object(_ children: some Sequence<(Key, Node)>, priority: Node = .null) -> Node {
        var builder = ObjectBuilder()
        for (key, node) in children { builder.add(key, node) }
        return builder.finish(priority: priority)
    }

    /// Whether both are identical: the same large object, equal packed bytes, or equal leaves. O(bytes) of a packed value, which is small.
    public func isIdentical(to other: Node) -> Bool {
        switch (self, other) {
        case (.object(let a), .object(let b)): a === b
        case (.packed(let a), .packed(let b)): a.isEqual(to: b)
        case (.object, _), (_, .object), (.packed, _), (_, .packed): false
        default: self == other
        }
    }

    /// Whether both are objects at the same address.
    public func isSameObject(as other: Node) -> Bool {
        switch (self, other) {
        case (.object(let a), .object(let b)): a === b
        case (.packed(let a), .packed(let b)): a.isSame(as: b)
        default: false
        }
    }
}

extension NodeCursor {
    fileprivate func fits(below depth: Int) -> Bool {
        if depth > Path.maxDepth {
            if case .null = kind { return true }
            return false
        }
        return allChildren { _, child in child.fits(below: depth + 1) }
    }
}

extension PackedObject {
    /// The same object with another priority; null removes it.
    fileprivate func with(priority: Node) -> Node {
        if let small = prioritized(priority) { return .packed(small) }
        return .object(ObjectNode(children: ChildMap(PackedObject(asPage)), priority: priority))
    }

    /// The same object in packed bytes with another priority; null removes it. Nil if the result does not fit.
    /// Precondition: no member has a slot.
    func prioritized(_ priority: Node) -> PackedObject? {
        if priority.isNull, value.tag == PackedTag.object { return self }
        let members = members
        let bytes = end
        let entryBytes = bytes - 2 - 2 * count
        let size = priority.isNull ? 0 : priority.packedSize
        guard let size, PackedPage.size(entries: count, bytes: entryBytes, priority: size) <= PackedLimits.objectBytes else { return nil }
        var writer = PageWriter(entries: count, entryBytes: entryBytes, slots: 0, priority: priority)
        for i in 0..<count {
            let start = members.offset(i)
            writer.add(members.start + start, members.bound(i + 1, end: bytes) - start)
        }
        return PackedObject(writer.page)
    }
}

extension Node: Equatable {
    /// Deep equality including priorities; shared parts are not visited.
    public static func == (a: Node, b: Node) -> Bool {
        switch (a, b) {
        case (.null, .null): true
        case (.bool(let x), .bool(let y)): x == y
        case (.int(let x), .int(let y)): x == y
        case (.double(let x), .double(let y)): x == y
        case (.string(let x), .string(let y)): x == y
        case (.object(let x), .object(let y)): x === y || (x.priority == y.priority && x.children == y.children)
        case (.packed(let x), .packed(let y)): x.isEqual(to: y)
        case (.object, .packed), (.packed, .object): a.priority == b.priority && a.children == b.children
        case (.prioritized(let x), .prioritized(let y)): x === y || (x.leaf == y.leaf && x.priority == y.priority)
        default: false
        }
    }
}

extension Node: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral, ExpressibleByFloatLiteral,
    ExpressibleByDictionaryLiteral
{
    public init(stringLiteral value: String) { self = .string(Text(value)) }
    public init(integerLiteral value: Int64) { self = .int(value) }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(floatLiteral value: Double) { self = .number(value) }
    public init(dictionaryLiteral elements: (Key, Node)...) { self = .object(elements) }
}
