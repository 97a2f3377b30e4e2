/// The children of the objects that are being parsed, innermost object last, so that each object gets an array of exactly its
/// size and no growing array of its own.
///
///     [a b | x y z]      `a b` of the outer object, `x y z` of the inner one; each part ascending, without nulls
struct MemberStack {
    private var entries: ContiguousArray<ChildMap.Entry> = []
    /// Where the innermost object begins.
    private var base = 0
    /// Replaces the stack for a large object with unordered members: O(log n) each instead of O(n).
    private var spill: ChildMap?

    /// The outer object's state while an inner one is parsed.
    struct Outer {
        fileprivate let base: Int
        fileprivate let spill: ChildMap?
    }

    /// Most unordered members that are inserted in place.
    private static let maxShifted = 64

    /// Whether the next member needs more room.
    var isFull: Bool { entries.count == entries.capacity }
    /// Capacity in members.
    var capacity: Int { entries.capacity }
    /// Whether the innermost object's members are unordered.
    var isUnordered: Bool { spill != nil }
    /// Members of the innermost object that are in the list.
    var countOfInnermost: Int { entries.count - base }

    /// Doubles the capacity.
    mutating func grow() { entries.reserveCapacity(max(16, 2 * entries.capacity)) }

    mutating func begin() -> Outer {
        defer {
            base = entries.count
            spill = nil
        }
        return Outer(base: base, spill: spill)
    }

    /// Adds a member of the innermost object; a later one of the same name replaces an earlier one, also with null.
    mutating func add(_ key: Key, _ node: Node) {
        if spill != nil {
            spill?.set(key, node)
            return
        }
        guard entries.count > base, Key.order(entries[entries.count - 1].key, key) >= 0 else {
            if node.exists { entries.append(ChildMap.Entry(key: key, node: node)) }
            return
        }
        if entries.count - base > Self.maxShifted {
            var map = popChildren()
            map.set(key, node)
            spill = map
            return
        }
        var (low, high) = (base, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if Key.order(entries[middle].key, key) < 0 { low = middle + 1 } else { high = middle }
        }
        if low < entries.count, entries[low].key == key {
            if node.exists { entries[low].node = node } else { entries.remove(at: low) }
        } else if node.exists {
            entries.insert(ChildMap.Entry(key: key, node: node), at: low)
        }
    }

    /// Returns the innermost object's children, and restores the outer object.
    mutating func end(_ outer: consuming Outer) -> ChildMap {
        let children = spill ?? popChildren()
        base = outer.base
        spill = outer.spill
        return children
    }

    private mutating func popChildren() -> ChildMap {
        let count = entries.count - base
        if count == 0 { return ChildMap() }
        return ChildMap(sorted: ContiguousArray(unsafeUninitializedCapacity: count) { buffer, initialized in
            // From the end, so that entries move without being retained.
            for i in stride(from: count - 1, through: 0, by: -1) { (buffer.baseAddress! + i).initialize(to: entries.removeLast()) }
            initialized = count
        })
    }
}
