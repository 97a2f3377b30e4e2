public import JSONTree

/// Conditions on the children of a place, all of which must hold: the `where` of a query.
///
/// Kept in canonical form, so equivalent filters are equal and share a view. Conditions are sorted by path, without duplicates. Of several lower
/// (upper) bounds on a path only the tightest remains. `in` is sorted, and one with a single value becomes `==`.
///
/// A value type: copies share one immutable storage object.
public struct Filter: Sendable {
    private final class Storage: Sendable {
        let conditions: ContiguousArray<Condition>
        let groups: ContiguousArray<Group>
        let hash: Int

        init(_ conditions: ContiguousArray<Condition>, _ groups: ContiguousArray<Group>) {
            self.conditions = conditions
            self.groups = groups
            hash = conditions.hashValue
        }
    }

    /// The conditions on one path, so that the path is looked up once.
    fileprivate struct Group {
        let keys: ContiguousArray<Key>
        var tests: ContiguousArray<Condition.Test>
    }

    private let storage: Storage

    /// In canonical form.
    public var conditions: ContiguousArray<Condition> { storage.conditions }
    /// True if it selects every child.
    public var isEmpty: Bool { storage.conditions.isEmpty }

    /// Selects every child.
    public static let all = Filter([])

    /// O(conditions · log)
    public init(_ conditions: some Sequence<Condition>) {
        precondition(NodeCursor.hasKnownLayout, "this compiler lays nodes out otherwise than cursors expect")
        let canonical = Self.canonical(conditions)
        var groups: ContiguousArray<Group> = []
        for condition in canonical {
            if groups.last?.keys == condition.path.keys {
                groups[groups.count - 1].tests.append(condition.test)
            } else {
                groups.append(Group(keys: condition.path.keys, tests: [condition.test]))
            }
        }
        storage = Storage(canonical, groups)
    }

    /// True if a child passes; null never passes. O(conditions · depth · log children), without allocation.
    public func admits(_ child: Node) -> Bool {
        guard child.exists else { return false }
        return withUnsafePointer(to: child) { admits(NodeCursor($0)) }
    }

    /// The same for an existing child, read in place. The caller retains a root above it.
    public func admits(_ child: NodeCursor) -> Bool {
        let storage = storage
        return storage.groups.withUnsafeBufferPointer { groups in
            for i in groups.indices {
                let value = child.descendant(groups[i].keys)
                let passes = groups[i].tests.withUnsafeBufferPointer { tests in
                    for j in tests.indices where !tests[j].admits(value) { return false }
                    return true
                }
                if !passes { return false }
            }
            return true
        }
    }
}

extension Filter: Hashable {
    public static func == (a: Filter, b: Filter) -> Bool {
        a.storage === b.storage || (a.storage.hash == b.storage.hash && a.storage.conditions == b.storage.conditions)
    }

    public func hash(into hasher: inout Hasher) { hasher.combine(storage.hash) }
}

extension NodeCursor {
    /// The value at the keys below this one; nil if missing.
    @inline(__always)
    func descendant(_ keys: borrowing ContiguousArray<Key>) -> NodeCursor? {
        keys.withUnsafeBufferPointer { keys in
            guard var key = keys.baseAddress else { return self }
            var cursor = self
            for _ in 0..<keys.count {
                guard let child = cursor.child(TextCursor(key)) else { return nil }
                cursor = child
                key += 1
            }
            return cursor
        }
    }
}

// MARK: Canonical form

extension Filter {
    private static func canonical(_ conditions: some Sequence<Condition>) -> ContiguousArray<Condition> {
        var all = ContiguousArray(conditions.map(\.normalizedIn))
        all.sort { $0.isBefore($1) }
        var result: ContiguousArray<Condition> = []
        for condition in all {
            guard let last = result.last, last.path == condition.path else {
                result.append(condition)
                continue
            }
            switch (last.test, condition.test) {
            // Bounds of one side are adjacent, the loosest first.
            case (.above, .above), (.below, .below): result[result.count - 1] = condition
            default: if last != condition { result.append(condition) }
            }
        }
        return result
    }
}

extension Condition {
    /// An `in` sorted and without duplicates, or `==` if one value remains.
    fileprivate var normalizedIn: Condition {
        guard case .oneOf(let constants) = test else { return self }
        var distinct: ContiguousArray<Constant> = []
        for constant in constants.sorted(by: { $0.order($1) < 0 }) where distinct.last != constant { distinct.append(constant) }
        return Condition(path, distinct.count == 1 ? .equal(distinct[0]) : .oneOf(distinct))
    }

    private var rank: Int {
        switch test {
        case .equal: 0
        case .oneOf: 1
        case .has: 2
        case .prefix: 3
        case .above: 4
        case .below: 5
        case .notEqual: 6
        }
    }

    fileprivate func isBefore(_ other: Condition) -> Bool {
        if path != other.path { return path < other.path }
        if rank != other.rank { return rank < other.rank }
        switch (test, other.test) {
        case (.equal(let a), .equal(let b)), (.notEqual(let a), .notEqual(let b)): return a.order(b) < 0
        // Ascending, so that the tightest lower bound comes last; exclusive is tighter.
        case (.above(let a, let wide), .above(let b, let other)): return a.order(b) == 0 ? wide && !other : a.order(b) < 0
        case (.below(let a, let wide), .below(let b, let other)): return a.order(b) == 0 ? wide && !other : a.order(b) > 0
        case (.oneOf(let a), .oneOf(let b)): return a.lexicographicallyPrecedes(b) { $0.order($1) < 0 }
        case (.has(let a), .has(let b)): return a < b
        case (.prefix(let a), .prefix(let b)): return a < b
        default: return false
        }
    }
}
