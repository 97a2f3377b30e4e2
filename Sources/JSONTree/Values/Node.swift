/// A value of the tree: nothing, a leaf, or an object with at least one child; leaves and objects may carry a priority.
///
/// Nodes are values. Objects are shared between versions of a tree and are changed in place only while there is a single reference
/// (see `ObjectNode`), so an old root costs only the memory of what has changed since.
///
///     Node  ── null | bool | int | double | string            17 bytes, no allocation but for long strings
///           ── object ──► ObjectNode  (children, priority, cached hash)
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
    /// Has at least one child; an object without children is `null` (contract §4.1).
    case object(ObjectNode)
    /// A leaf with a priority.
    case prioritized(PrioritizedLeaf)

    /// A number, as `int` when it is integral and at most 2^53 in size. NaN and infinities are not JSON and become `null`.
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

    /// The object, if the node has children.
    var object: ObjectNode? { if case .object(let object) = self { object } else { nil } }

    /// The children in key order; none for a leaf or a missing node.
    public var children: ChildMap { if case .object(let object) = self { object.children } else { ChildMap() } }
    public var hasChildren: Bool { if case .object = self { true } else { false } }

    /// The node without its priority when it is a leaf; `null` for an object.
    public var leaf: Node {
        switch self {
        case .object: .null
        case .prioritized(let leaf): leaf.leaf
        default: self
        }
    }

    /// int, double, string or `null`.
    public var priority: Node {
        switch self {
        case .object(let object): object.priority
        case .prioritized(let leaf): leaf.priority
        default: .null
        }
    }

    /// The same value with another priority; `null` removes it. A missing node stays missing (contract §4.2).
    public func with(priority: Node) -> Node {
        switch self {
        case .null: return .null
        case .object(let object): return .object(object.copy(priority: priority))
        default: return priority.isNull ? leaf : .prioritized(PrioritizedLeaf(leaf: leaf, priority: priority))
        }
    }

    /// Whether the node fits below a place of this depth: with its descendants it reaches at most `Path.maxDepth` levels. O(nodes)
    public func fits(below depth: Int) -> Bool {
        if depth > Path.maxDepth { return isNull }
        guard case .object(let object) = self else { return true }
        return object.children.allSatisfy { $0.node.fits(below: depth + 1) }
    }

    /// Null, a number or a string (contract §4.2).
    public var canBePriority: Bool {
        switch self {
        case .null, .int, .double, .string: true
        default: false
        }
    }

    /// Number of direct children.
    public var childCount: Int { object?.children.count ?? 0 }

    public func child(_ key: Key) -> Node {
        guard case .object(let object) = self else { return .null }
        return object.child(key) ?? .null
    }

    /// The node at a place below this one. O(depth · log children)
    public func node(at path: Path) -> Node { node(at: path.keys[...]) }

    /// The node below this one along the keys.
    public func node(at keys: ArraySlice<Key>) -> Node {
        var node = self
        for key in keys {
            guard case .object(let object) = node, let next = object.child(key) else { return .null }
            node = next
        }
        return node
    }

    /// An object of these children; nulls are dropped, a later entry of a key wins, no children make `null`.
    public static func object(_ children: some Sequence<(Key, Node)>, priority: Node = .null) -> Node {
        var map = ChildMap()
        // Records are many and small: their arrays are allocated at exact size.
        map.flat.reserveCapacity(min(children.underestimatedCount, ChildMap.pageCapacity))
        for (key, node) in children { map.set(key, node) }
        return map.isEmpty ? .null : .object(ObjectNode(children: map, priority: priority))
    }

    /// Whether both are the same object, stored once; false for leaves. O(1)
    public func isSameObject(as other: Node) -> Bool {
        if case .object(let a) = self, case .object(let b) = other { a === b } else { false }
    }

    /// Whether both are identical: the same object, or equal leaves. O(1), except for long strings.
    public func isIdentical(to other: Node) -> Bool {
        switch (self, other) {
        case (.object(let a), .object(let b)): a === b
        case (.object, _), (_, .object): false
        default: self == other
        }
    }
}

extension Node: Equatable {
    /// Deep equality with priorities; shared parts are not visited.
    public static func == (a: Node, b: Node) -> Bool {
        switch (a, b) {
        case (.null, .null): true
        case (.bool(let x), .bool(let y)): x == y
        case (.int(let x), .int(let y)): x == y
        case (.double(let x), .double(let y)): x == y
        case (.string(let x), .string(let y)): x == y
        case (.object(let x), .object(let y)): x === y || (x.priority == y.priority && x.children == y.children)
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
