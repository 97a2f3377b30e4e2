/// A child's position in an order: first by value, then by key (contract §3.2).
public struct OrderedChild: Sendable {
    /// The compared value: null if missing, and always null in key order. All objects are equal.
    public let value: Node
    public let key: Key

    /// Negative, zero or positive if this comes before, equals, or comes after the other.
    @inline(__always)
    public func order(_ other: OrderedChild) -> Int {
        let byValue = value.valueOrder(other.value)
        return byValue != 0 ? byValue : Key.order(key, other.key)
    }
}

/// One end of a range, comparable with children.
public struct OrderBound: Sendable {
    enum KeyBound {
        /// `[MIN_NAME]`: before every key.
        case lowest
        case key(Key)
        /// `[MAX_NAME]` and `[MAX_KEY]`: after every key.
        case highest
    }

    let value: Node
    let key: KeyBound
    let isInclusive: Bool

    init(value: Node, key: KeyBound, isInclusive: Bool) {
        self.value = value
        self.key = key
        self.isInclusive = isInclusive
    }

    /// An inclusive bound at a child, to continue with it.
    public init(including child: OrderedChild) {
        self.init(value: child.value, key: .key(child.key), isInclusive: true)
    }

    /// An exclusive bound at a child, to continue after it.
    public init(excluding child: OrderedChild) {
        self.init(value: child.value, key: .key(child.key), isInclusive: false)
    }

    /// Negative, zero or positive if the child comes before, at, or after the bound.
    func order(of child: OrderedChild) -> Int {
        let byValue = child.value.valueOrder(value)
        if byValue != 0 { return byValue }
        switch key {
        case .lowest: return 1
        case .highest: return -1
        case .key(let key): return Key.order(child.key, key)
        }
    }

    /// Whether the bound lies among the children without a value, which sort first.
    var admitsNull: Bool { value.isNull }

    /// Whether a child lies in a range that starts at this bound.
    public func admitsAsStart(_ child: OrderedChild) -> Bool {
        let order = order(of: child)
        return order > 0 || (order == 0 && isInclusive)
    }

    /// Whether a child lies in a range that ends at this bound.
    public func admitsAsEnd(_ child: OrderedChild) -> Bool {
        let order = order(of: child)
        return order < 0 || (order == 0 && isInclusive)
    }
}

extension TreeQuery {
    /// The lower end of the range in the query's order; nil if open.
    public var lowerBound: OrderBound? { start.map { bound($0, absentKey: .lowest) } }
    /// The upper end; nil if open.
    public var upperBound: OrderBound? { end.map { bound($0, absentKey: .highest) } }

    private func bound(_ bound: Bound, absentKey: OrderBound.KeyBound) -> OrderBound {
        if orderedBy == .key {
            // Key order compares keys only; the bound's value is the key (contract §3.3).
            guard case .string(let text) = bound.value else {
                return OrderBound(value: .null, key: absentKey, isInclusive: bound.isInclusive)
            }
            return OrderBound(value: .null, key: Self.keyBound(Key(text.string)), isInclusive: bound.isInclusive)
        }
        return OrderBound(value: bound.value, key: bound.key.map(Self.keyBound) ?? absentKey, isInclusive: bound.isInclusive)
    }

    private static func keyBound(_ key: Key) -> OrderBound.KeyBound {
        switch key.string {
        case "[MIN_NAME]": .lowest
        case "[MAX_NAME]", "[MAX_KEY]": .highest
        default: .key(key)
        }
    }

    /// Whether a child lies in the range; the limit is ignored.
    public func admits(_ child: OrderedChild) -> Bool {
        (lowerBound?.admitsAsStart(child) ?? true) && (upperBound?.admitsAsEnd(child) ?? true)
    }
}

extension TreeQuery.Index {
    /// The name in requests and rules: `.key`, `.value`, `.priority` or `a/b`.
    public var text: String {
        switch self {
        case .key: ".key"
        case .value: ".value"
        case .priority: ".priority"
        case .child(let path): path.relativeText
        }
    }

    /// A child's position in this order.
    public func place(_ key: Key, _ node: Node) -> OrderedChild {
        switch self {
        case .key: OrderedChild(value: .null, key: key)
        case .value: OrderedChild(value: node.orderValue, key: key)
        case .priority: OrderedChild(value: node.priority, key: key)
        case .child(let path): OrderedChild(value: node.node(at: path).orderValue, key: key)
        }
    }
}

extension Node {
    /// An index entry's value: the leaf, or one fixed object for all objects, so that an index references no part of the tree.
    fileprivate var orderValue: Node {
        switch self {
        case .object, .packed: Node.anyObject
        case .prioritized(let leaf): leaf.leaf
        default: self
        }
    }

    private static let anyObject = Node.object(ObjectNode(children: ChildMap()))
}
