import JSONTree

/// Finds the value ranges that contain a value.
///
/// ```
///             [20 … 35] max 90            a treap: ascending by lower ends, random priorities keep it shallow;
///            /                \           each node stores the highest upper end at or below it, so that a
///   [3 … 90] max 90     [40 … 41] max 60  search for 70 goes left only
///                        /
///                   [25 … 60]
/// ```
/// Insert and remove cost O(log n). A search costs O(log n) for each range found.
struct IntervalIndex {
    /// One end of a range; nil for an open end.
    struct End {
        var constant: Constant?
        var orEqual = true
    }

    private struct Range {
        let low: End
        let high: End
        let slot: Int
        let priority: UInt64
        var highest: End
        var left = -1
        var right = -1
    }

    private var ranges: ContiguousArray<Range> = []
    private var free: [Int] = []
    private var root = -1
    private var state: UInt64 = 0x2545_F491_4F6C_DD1D

    var count: Int { ranges.count - free.count }

    mutating func insert(_ slot: Int, low: End, high: End) {
        let range = Range(low: low, high: high, slot: slot, priority: random(), highest: high)
        let new = free.popLast() ?? ranges.count
        if new == ranges.count { ranges.append(range) } else { ranges[new] = range }
        root = insert(new, at: root)
    }

    /// - Parameter low: the lower end with which it was inserted.
    mutating func remove(_ slot: Int, low: End) { root = remove(slot, low, at: root) }

    /// Calls `body` for each range that contains the value; nil for a missing value.
    func find(_ value: NodeCursor?, _ body: (Int) -> Void) { find(value, at: root, body) }

    private func find(_ value: NodeCursor?, at i: Int, _ body: (Int) -> Void) {
        var i = i
        while i >= 0, Self.isBelow(value, ranges[i].highest) {
            find(value, at: ranges[i].left, body)
            guard Self.isAbove(value, ranges[i].low) else { return }
            if Self.isBelow(value, ranges[i].high) { body(ranges[i].slot) }
            i = ranges[i].right
        }
    }

    private static func order(_ value: NodeCursor?, _ constant: Constant) -> Int {
        value?.order(constant) ?? (constant.value.isNull ? 0 : -1)
    }

    private static func isAbove(_ value: NodeCursor?, _ end: End) -> Bool {
        guard let constant = end.constant else { return true }
        let order = order(value, constant)
        return order > 0 || (order == 0 && end.orEqual)
    }

    private static func isBelow(_ value: NodeCursor?, _ end: End) -> Bool {
        guard let constant = end.constant else { return true }
        let order = order(value, constant)
        return order < 0 || (order == 0 && end.orEqual)
    }

    // MARK: Treap

    /// SplitMix64. Priorities need no secret: clients choose neither them nor the order of slots.
    private mutating func random() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// Negative, zero or positive as a lower end comes before, equals, or comes after another. An open end comes first.
    private static func orderLow(_ a: End, _ b: End) -> Int {
        switch (a.constant, b.constant) {
        case (nil, nil): return 0
        case (nil, _): return -1
        case (_, nil): return 1
        case (let x?, let y?):
            let order = x.order(y)
            return order != 0 ? order : (a.orEqual ? 0 : 1) - (b.orEqual ? 0 : 1)
        }
    }

    private static func higher(_ a: End, _ b: End) -> End {
        guard let x = a.constant, let y = b.constant else { return a.constant == nil ? a : b }
        let order = x.order(y)
        return order != 0 ? (order > 0 ? a : b) : (a.orEqual ? a : b)
    }

    private func isBefore(_ slot: Int, _ low: End, _ i: Int) -> Bool {
        let order = Self.orderLow(low, ranges[i].low)
        return order != 0 ? order < 0 : slot < ranges[i].slot
    }

    private mutating func update(_ i: Int) {
        var highest = ranges[i].high
        if ranges[i].left >= 0 { highest = Self.higher(highest, ranges[ranges[i].left].highest) }
        if ranges[i].right >= 0 { highest = Self.higher(highest, ranges[ranges[i].right].highest) }
        ranges[i].highest = highest
    }

    private mutating func insert(_ new: Int, at i: Int) -> Int {
        guard i >= 0 else { return new }
        if isBefore(ranges[new].slot, ranges[new].low, i) {
            let child = insert(new, at: ranges[i].left)
            ranges[i].left = child
            if ranges[child].priority > ranges[i].priority {
                ranges[i].left = ranges[child].right
                ranges[child].right = i
                update(i)
                update(child)
                return child
            }
        } else {
            let child = insert(new, at: ranges[i].right)
            ranges[i].right = child
            if ranges[child].priority > ranges[i].priority {
                ranges[i].right = ranges[child].left
                ranges[child].left = i
                update(i)
                update(child)
                return child
            }
        }
        update(i)
        return i
    }

    private mutating func remove(_ slot: Int, _ low: End, at i: Int) -> Int {
        guard i >= 0 else { return i }
        if ranges[i].slot == slot, Self.orderLow(low, ranges[i].low) == 0 {
            free.append(i)
            return join(ranges[i].left, ranges[i].right)
        }
        if isBefore(slot, low, i) {
            ranges[i].left = remove(slot, low, at: ranges[i].left)
        } else {
            ranges[i].right = remove(slot, low, at: ranges[i].right)
        }
        update(i)
        return i
    }

    private mutating func join(_ a: Int, _ b: Int) -> Int {
        if a < 0 { return b }
        if b < 0 { return a }
        if ranges[a].priority > ranges[b].priority {
            ranges[a].right = join(ranges[a].right, b)
            update(a)
            return a
        }
        ranges[b].left = join(a, ranges[b].left)
        update(b)
        return b
    }
}
