package import Commits
package import JSONTree

/// What a view currently shows of a place, updated with each commit.
///
/// Confined to the database queue.
package enum Shown {
    /// Everything stored there.
    case place
    /// The children that a query selects.
    case window(ShownWindow)
    /// The result of a live query. `LiveQueryUpdater` updates it with the others of its place.
    case live(ShownLiveQuery)

    /// True if all writes below the place are shown unchanged. Only then may observers receive the writes themselves, or parts of the place.
    package var showsWrites: Bool { if case .place = self { true } else { false } }

    /// Applies a commit that touched the place.
    /// - Parameters:
    ///   - children: the children that contain the writes.
    ///   - placed: the same children with their positions in the order of the query.
    /// - Returns: what its observers receive. Nil if the commit changes nothing shown, or if the result is not yet known.
    package func apply(_ change: Change, _ children: [ChildChange], _ placed: [PlacedChild], at place: TrieNode) -> Difference? {
        switch self {
        case .place: change.isOverwritten ? .value(change.new, before: change.old) : .children(children, .byKey(change.new.children), change)
        case .window(let window): window.apply(change, children, placed, at: place)
        case .live: nil
        }
    }

    /// Applies many writes at once. The differences are computed later. O(log n)
    package func move(along change: Change, at place: TrieNode) -> Difference? {
        switch self {
        case .place: .written(change)
        case .window(let window): window.move(along: change, at: place)
        case .live: nil
        }
    }

    /// The part of the writes that may change the result. O(log writes) where the order allows a search.
    package func part(of change: Change) -> Change {
        if case .window(let window) = self { window.part(of: change) } else { change }
    }

    /// Everything that is shown now. Nil while it is not known yet; observers then receive it later.
    package func all(of node: Node, at place: TrieNode) -> Difference? {
        switch self {
        case .place: .value(node, before: node)
        case .window(let window): window.all(of: node, at: place)
        case .live(let query): query.all(of: node)
        }
    }

    /// Starts again from `node`, after an overwrite or a rollback.
    package func reset(over node: Node, at place: TrieNode) { if case .window(let window) = self { window.reset(over: node, at: place) } }
}

/// Shows the children that a query selects.
package final class ShownWindow {
    private let query: TreeQuery
    /// Nil while its index is being built.
    private var window: QueryWindow?
    /// True if an observer receives the number of shown children.
    package var counts = false

    /// - Parameter window: what the query shows now.
    package init(_ query: TreeQuery, _ window: QueryWindow?) {
        self.query = query
        self.window = window
    }

    package func apply(_ change: Change, _ children: [ChildChange], _ placed: [PlacedChild], at place: TrieNode) -> Difference? {
        if change.isOverwritten { return all(of: change.new, at: place)?.since(change.old) }
        guard let order = place.children(of: change.new, by: query.orderedBy) else { return nil }
        // `order` is the one after the commit. A count taken from it must not be adjusted by this commit again.
        defer { if counts { _ = window?.countShown(over: order) } }
        guard let differing = window?.apply(placed, of: children, from: change.old, to: change.new, over: order), let window else { return nil }
        return differing.isEmpty ? nil : .children(differing, .window(window, order, of: change.new), change)
    }

    package func part(of change: Change) -> Change {
        guard let window else { return change.part(change.range.prefix(0)) }
        return query.orderedBy == .key ? change.part(change.shown(in: window)) : change
    }

    package func move(along change: Change, at place: TrieNode) -> Difference? {
        guard let before = window, let children = place.children(of: change.new, by: query.orderedBy) else { return nil }
        window = QueryWindow(query, over: children)
        if counts { _ = window?.countShown(over: children) }
        return .moved(before, change, over: children)
    }

    package func all(of node: Node, at place: TrieNode) -> Difference? {
        guard window != nil, let children = place.children(of: node, by: query.orderedBy) else { return nil }
        return .selection(query, children, of: node, since: nil)
    }

    package func reset(over node: Node, at place: TrieNode) {
        let children = place.children(of: node, by: query.orderedBy)
        window = children.map { QueryWindow(query, over: $0) }
        if counts, let children { _ = window?.countShown(over: children) }
    }
}

#if DEBUG
    extension ShownWindow {
        /// True if the window is what the query shows of a node, or is not ready.
        package func holds(over node: Node, at place: TrieNode) -> Bool {
            guard let window, let children = place.children(of: node, by: query.orderedBy) else { return true }
            return window.holds(over: children)
        }
    }
#endif
