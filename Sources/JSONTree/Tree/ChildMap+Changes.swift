extension ChildMap {
    /// One child that differs between two maps; nil where it does not exist.
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

    /// The children that differ from an earlier state of the map, in key order. Shared pages are skipped, so the work depends on the
    /// writes in between and not on the size of the map.
    ///
    /// A child that was written again with equal content may be included.
    /// - Parameter most: most entries and pages to visit.
    /// - Returns: nil when that is not enough, as with maps that share nothing. O(least of `most` and changes · page size · log n)
    public func changes(since old: ChildMap, atMost most: Int) -> ContiguousArray<Change>? {
        var look = Look(left: most) { $0.node.isIdentical(to: $1.node) }
        return changes(since: old, &look)
    }

    /// The state of a comparison of two maps.
    struct Look {
        /// Entries and pages that may still be visited.
        var left: Int
        /// Entries of the newer map in pages that the older one does not share.
        var ownEntries = 0
        /// Whether two nodes of the same key are equal.
        let areSame: (Entry, Entry) -> Bool
    }

    /// As above; visits are subtracted from `look`.
    func changes(since old: ChildMap, _ look: inout Look) -> ContiguousArray<Change>? {
        var changes = ContiguousArray<Change>()
        if let one = root, let other = old.root, one === other { return changes }
        var before = PageWalk(old)
        var after = PageWalk(self)
        look.ownEntries += flat.count
        while true {
            look.left -= 1
            if look.left < 0 { return nil }
            switch (before.page, after.page) {
            case (let a?, let b?):
                if a === b {
                    before.skip()
                    after.skip()
                } else {
                    let (isTaller, isLower) = (before.height >= after.height, before.height <= after.height)
                    if isTaller { _ = before.open() }
                    if isLower { look.ownEntries += after.open() }
                }
            case (let a?, nil):
                // Opened only when it is reached, so that both walks come to a shared page at the same time.
                if let entry = after.entry, entry.key < a.firstKey {
                    changes.append(Change(key: entry.key, old: nil, new: entry.node))
                    after.advance()
                } else {
                    _ = before.open()
                }
            case (nil, let b?):
                if let entry = before.entry, entry.key < b.firstKey {
                    changes.append(Change(key: entry.key, old: entry.node, new: nil))
                    before.advance()
                } else {
                    look.ownEntries += after.open()
                }
            case (nil, nil):
                guard before.entry != nil || after.entry != nil else { return changes }
                Self.compare(&before, &after, &changes, look.areSame)
            }
        }
    }

    private static func compare(
        _ before: inout PageWalk, _ after: inout PageWalk, _ changes: inout ContiguousArray<Change>, _ areSame: (Entry, Entry) -> Bool
    ) {
        let (was, now) = (before.entry, after.entry)
        let order = if let was, let now { Key.order(was.key, now.key) } else { was == nil ? 1 : -1 }
        if order == 0, let was, let now {
            if !areSame(was, now) { changes.append(Change(key: now.key, old: was.node, new: now.node)) }
            before.advance()
            after.advance()
        } else if order < 0, let was {
            changes.append(Change(key: was.key, old: was.node, new: nil))
            before.advance()
        } else if let now {
            changes.append(Change(key: now.key, old: nil, new: now.node))
            after.advance()
        }
    }
}

/// Iterates over a map in key order and can skip whole pages: it stands before a page, at an entry, or at the end.
private struct PageWalk {
    /// The next page; nil at an entry and at the end.
    private(set) var page: ChildPage?
    /// Levels below `page`.
    private(set) var height = 0
    private var entries: ContiguousArray<ChildMap.Entry> = []
    private var index = 0
    private var above: ContiguousArray<(page: ChildPage, next: Int, height: Int)> = []

    init(_ map: ChildMap) {
        page = map.root
        entries = map.flat
        var lower = map.root
        while let inner = lower, !inner.isLeaf {
            height += 1
            lower = inner.pages[0]
        }
    }

    /// The position among the entries of a page.
    var entry: ChildMap.Entry? { index < entries.count ? entries[index] : nil }

    /// - Returns: the entries that lie in the page itself.
    mutating func open() -> Int {
        guard let opened = page else { return 0 }
        if opened.isLeaf {
            page = nil
            (entries, index) = (opened.entries, 0)
            let count = entries.count
            if entries.isEmpty { climb() }
            return count
        }
        above.append((opened, 1, height))
        page = opened.pages[0]
        height -= 1
        return 0
    }

    mutating func skip() {
        page = nil
        climb()
    }

    mutating func advance() {
        index += 1
        if index >= entries.count { climb() }
    }

    /// To the next page to the right.
    private mutating func climb() {
        (entries, index) = ([], 0)
        while let top = above.last {
            if top.next < top.page.pages.count {
                above[above.count - 1].next += 1
                page = top.page.pages[top.next]
                height = top.height - 1
                return
            }
            above.removeLast()
        }
    }
}
