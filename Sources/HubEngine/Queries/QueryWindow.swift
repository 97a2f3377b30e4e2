import JSONTree

/// The children that a live query shows, kept as children change: the work follows the change, not the size of the place.
///
///     index order   … | ▇ ▇ ▇ ▇ ▇ | … … …        a window of limitToFirst(5)
///                            edge ┘  └ the next ones, found in the index when a child leaves
///
/// Without a limit the window is the range itself and nothing needs to be kept.
struct QueryWindow {
    let query: TreeQuery
    /// Ascending; only for queries with a limit.
    private var entries: ContiguousArray<OrderedChild> = []

    /// One child of the place before and after a commit, as the query's order sees it; nil where it does not exist.
    struct Change {
        let key: Key
        let old: OrderedChild?
        let new: OrderedChild?
    }

    /// What a commit did to the window.
    struct Difference {
        /// Children that are shown now and were not before.
        var entered: [Key] = []
        /// Children that were shown before and are not now.
        var left: [Key] = []
        /// Changed children that are shown as before.
        var stayed: [Key] = []
    }

    init(_ query: TreeQuery, over children: OrderedChildren) {
        self.query = query
        if query.limit != nil { entries = query.select(from: children) }
    }

    /// - Parameter selected: what the query selects now.
    init(_ query: TreeQuery, showing selected: ContiguousArray<OrderedChild>) {
        self.query = query
        if query.limit != nil { entries = selected }
    }

    /// The children shown, in ascending order.
    func selection(over children: OrderedChildren) -> ContiguousArray<OrderedChild> {
        query.limit == nil ? query.select(from: children) : entries
    }

    /// Moves the window along with changes of children.
    /// - Parameter children: the order after the changes.
    mutating func apply(_ changes: [Change], over children: OrderedChildren) -> Difference {
        guard let limit = query.limit else { return applyUnlimited(changes) }
        if changes.count == 1 { return apply(changes[0], limit, over: children) }
        let keepsFirst = query.keeps == .first
        /// The outermost child of a full window. Unchanged children that are not shown all lie beyond it.
        let edge = entries.count == limit ? (keepsFirst ? entries.last : entries.first) : nil
        var wasShown: Set<Key> = []
        var isShown: Set<Key> = []
        for change in changes {
            guard let old = change.old, let at = position(of: old) else { continue }
            entries.remove(at: at)
            wasShown.insert(change.key)
        }
        for change in changes {
            guard let new = change.new, query.admits(new) else { continue }
            if let edge, keepsFirst ? new.order(edge) > 0 : new.order(edge) < 0 { continue }
            entries.insert(new, at: insertionIndex(of: new))
            isShown.insert(change.key)
        }
        var dropped: [Key] = []
        while entries.count > limit {
            let outermost = keepsFirst ? entries.removeLast() : entries.removeFirst()
            if isShown.remove(outermost.key) == nil { dropped.append(outermost.key) }
        }
        if let edge, entries.count < limit { isShown.formUnion(fill(beyond: edge, over: children)) }

        var difference = Difference(left: dropped)
        let changed = Set(changes.map(\.key))
        for key in changed {
            switch (wasShown.contains(key), isShown.contains(key)) {
            case (false, true): difference.entered.append(key)
            case (true, false): difference.left.append(key)
            case (true, true): difference.stayed.append(key)
            case (false, false): break
            }
        }
        difference.entered += isShown.subtracting(changed)
        return difference
    }

    /// Takes the next children beyond the former edge until the window is full again.
    /// - Returns: their keys.
    private mutating func fill(beyond edge: OrderedChild, over children: OrderedChildren) -> [Key] {
        var missing = (query.limit ?? 0) - entries.count
        var found = ContiguousArray<OrderedChild>()
        let take: (OrderedChild) -> Bool = { [query] child in
            guard query.admits(child) else { return false }
            found.append(child)
            missing -= 1
            return missing > 0
        }
        if query.keeps == .first {
            children.ascend(from: OrderBound(excluding: edge), take)
            entries.append(contentsOf: found)
        } else {
            children.descend(from: OrderBound(excluding: edge), take)
            entries.insert(contentsOf: found.reversed(), at: 0)
        }
        return found.map(\.key)
    }

    /// The usual commit changes one child: as `apply` does it, without sets.
    private mutating func apply(_ change: Change, _ limit: Int, over children: OrderedChildren) -> Difference {
        let keepsFirst = query.keeps == .first
        let edge = entries.count == limit ? (keepsFirst ? entries.last : entries.first) : nil
        var difference = Difference()
        var (wasShown, isShown) = (false, false)
        if let old = change.old, let at = position(of: old) {
            entries.remove(at: at)
            wasShown = true
        }
        if let new = change.new, query.admits(new), edge.map({ keepsFirst ? new.order($0) <= 0 : new.order($0) >= 0 }) ?? true {
            entries.insert(new, at: insertionIndex(of: new))
            isShown = true
        }
        if entries.count > limit {
            let outermost = keepsFirst ? entries.removeLast() : entries.removeFirst()
            if outermost.key == change.key { isShown = false } else { difference.left.append(outermost.key) }
        }
        if let edge, entries.count < limit {
            for key in fill(beyond: edge, over: children) {
                if key == change.key { isShown = true } else { difference.entered.append(key) }
            }
        }
        switch (wasShown, isShown) {
        case (false, true): difference.entered.insert(change.key, at: 0)
        case (true, false): difference.left.append(change.key)
        case (true, true): difference.stayed.append(change.key)
        case (false, false): break
        }
        return difference
    }

    private func applyUnlimited(_ changes: [Change]) -> Difference {
        var difference = Difference()
        for change in changes {
            switch (change.old.map(query.admits) ?? false, change.new.map(query.admits) ?? false) {
            case (false, true): difference.entered.append(change.key)
            case (true, false): difference.left.append(change.key)
            case (true, true): difference.stayed.append(change.key)
            case (false, false): break
            }
        }
        return difference
    }

    private func insertionIndex(of child: OrderedChild) -> Int {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].order(child) < 0 { low = middle + 1 } else { high = middle }
        }
        return low
    }

    private func position(of child: OrderedChild) -> Int? {
        let at = insertionIndex(of: child)
        return at < entries.count && entries[at].order(child) == 0 ? at : nil
    }
}
