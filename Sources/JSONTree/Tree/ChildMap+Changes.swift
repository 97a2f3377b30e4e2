extension ChildMap {
    /// One child that differs between two maps; nil if absent in that map.
    public struct Change: Sendable {
        public let key: Key
        public let old: Node?
        public let new: Node?

        public init(key: Key, old: Node?, new: Node?) {
            self.key = key
            self.old = old
            self.new = new
        }
    }

    /// The children that differ from an earlier state of the map, in key order. Shared pages are skipped, so the cost depends on the writes in
    /// between and not on the size of the map.
    ///
    /// May include a child that was rewritten with equal content.
    /// - Parameter most: the most entries and pages to visit.
    /// - Returns: nil if that is exceeded, as for maps that share nothing. O(min(`most`, changes · page size · log n))
    public func changes(since old: ChildMap, atMost most: Int) -> ContiguousArray<Change>? {
        var budget = Budget(left: most)
        return changes(since: old, &budget)
    }

    /// The state of a comparison of two maps.
    struct Budget {
        /// The number of entries and pages that may still be visited.
        var left: Int
        /// The bytes of the newer map's packed pages that the older map does not share.
        var ownBytes = 0
    }

    /// Like `changes(since:atMost:)`; visits are subtracted from `budget`.
    func changes(since old: ChildMap, _ budget: inout Budget) -> ContiguousArray<Change>? {
        var changes = ContiguousArray<Change>()
        if let one = root, let other = old.root, one === other { return changes }
        if let one = packed, let other = old.packed, one.isSame(as: other) { return changes }
        var before = PageWalk(old)
        var after = PageWalk(self)
        if let packed { budget.ownBytes += packed.memoryBytes }
        while true {
            budget.left -= 1
            if budget.left < 0 { return nil }
            switch (before.page, after.page) {
            case (let a?, let b?):
                if a === b {
                    before.skip()
                    after.skip()
                } else {
                    let (isTaller, isLower) = (before.height >= after.height, before.height <= after.height)
                    if isTaller { before.open() }
                    if isLower, let leaf = after.open() { budget.ownBytes += leaf.memoryBytes }
                }
            case (let a?, nil):
                // Open a page only when the walk reaches it, so that both walks meet at shared pages.
                if let (object, entry) = after.entry, Key(entry.key) < a.firstKey {
                    changes.append(Change(key: Key(entry.key), old: nil, new: object.node(entry.value)))
                    after.advance()
                } else {
                    before.open()
                }
            case (nil, let b?):
                if let (object, entry) = before.entry, Key(entry.key) < b.firstKey {
                    changes.append(Change(key: Key(entry.key), old: object.node(entry.value), new: nil))
                    before.advance()
                } else if let leaf = after.open() {
                    budget.ownBytes += leaf.memoryBytes
                }
            case (nil, nil):
                budget.left -= PageWalk.passEqual(&before, &after)
                if before.page != nil || after.page != nil { continue }
                guard before.entry != nil || after.entry != nil else { return changes }
                Self.compare(&before, &after, &changes)
            }
        }
    }

    private static func compare(_ before: inout PageWalk, _ after: inout PageWalk, _ changes: inout ContiguousArray<Change>) {
        let (was, now) = (before.entry, after.entry)
        let order = if let was, let now { Key.order(was.entry.key, now.entry.key) } else { was == nil ? 1 : -1 }
        if order == 0, let was, let now {
            if !was.object.isSame(was.entry.value, as: now.entry.value, of: now.object) {
                changes.append(
                    Change(key: Key(now.entry.key), old: was.object.node(was.entry.value), new: now.object.node(now.entry.value)))
            }
            before.advance()
            after.advance()
        } else if order < 0, let was {
            changes.append(Change(key: Key(was.entry.key), old: was.object.node(was.entry.value), new: nil))
            before.advance()
        } else if let now {
            changes.append(Change(key: Key(now.entry.key), old: nil, new: now.object.node(now.entry.value)))
            after.advance()
        }
    }
}

extension PackedObject {
    /// Whether a value equals one of another object's: equal bytes, or the same object in their slots.
    @inline(__always)
    func isSame(_ value: PackedValue, as other: PackedValue, of object: PackedObject) -> Bool {
        let (a, b) = (value.tag, other.tag)
        if a != b { return false }
        guard PackedPage.isSlot(a) else { return value.hasBytes(of: other) }
        return page.slot(value.start.short(1)) == object.page.slot(other.start.short(1))
    }

    /// Approximate bytes in memory of its storage.
    var memoryBytes: Int { offset == 0 ? page.memoryBytes : value.size }
}
