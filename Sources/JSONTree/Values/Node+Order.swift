extension Node {
    /// Order of values in child, value and priority indexes: missing < false < true < numbers < strings < objects; all objects are equal
    /// (contract §3.2). Negative, zero or positive; the node's own priority is ignored.
    public func valueOrder(_ other: Node) -> Int {
        // The usual case: most indexes are over times, which are integers.
        if case .int(let m) = self, case .int(let n) = other { return m == n ? 0 : (m < n ? -1 : 1) }
        let (a, b) = (leafOrObject, other.leafOrObject)
        let (x, y) = (a.rank, b.rank)
        guard x == y else { return x - y }
        switch (a, b) {
        case (.int(let m), .int(let n)): return m == n ? 0 : (m < n ? -1 : 1)
        case (.int(let m), .double(let n)): return Node.order(m, n)
        case (.double(let m), .int(let n)): return -Node.order(n, m)
        case (.double(let m), .double(let n)): return m == n ? 0 : (m < n ? -1 : 1)
        case (.string(let m), .string(let n)): return m == n ? 0 : (m < n ? -1 : 1)
        default: return 0
        }
    }

    private var leafOrObject: Node { if case .prioritized(let leaf) = self { leaf.leaf } else { self } }

    private var rank: Int {
        switch self {
        case .null: 0
        case .bool(false): 1
        case .bool(true): 2
        case .int, .double: 3
        case .string: 4
        case .object, .packed, .prioritized: 5
        }
    }

    /// Exact comparison of an integer with a double, even beyond 2^53.
    private static func order(_ m: Int64, _ n: Double) -> Int {
        if n >= 0x1p63 { return -1 }
        if n < -0x1p63 { return 1 }
        let whole = n.rounded(.down)
        let integral = Int64(whole)
        if m != integral { return m < integral ? -1 : 1 }
        return n > whole ? -1 : 0
    }
}
