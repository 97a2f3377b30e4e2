import JSONTree

/// What a view currently shows of a place, updated with each commit. Kinds: the whole place (`WholePlace`), a query's window (`LiveWindow`), and a
/// live query (`LiveQueryShown`), which `LiveQueryUpdater` updates.
///
/// Confined to the database queue.
protocol LiveView: AnyObject {
    /// True if all writes below the place are shown unchanged. Only then may observers receive the writes themselves, or parts of the place.
    var showsWrites: Bool { get }

    /// True if an observer receives the number of shown children.
    var counts: Bool { get set }

    /// Applies a commit that touched the place.
    /// - Returns: what its observers receive. Nil if the commit changes nothing shown, or if the result is not yet known.
    func apply(_ commit: PlaceChange, at place: TrieNode) -> Difference?

    /// The subrange of the writes that may change the view's result. At most O(log writes) where an order allows a search.
    func concerned(by writes: SubtreeWrites) -> Range<Int>

    /// Applies many writes at once. The differences are computed later. O(log n)
    func move(along writes: SubtreeWrites, at place: TrieNode) -> Difference?

    /// Everything that is shown now. Nil while it is not known yet; observers then receive it later.
    func all(of node: Node, at place: TrieNode) -> Difference?

    /// Starts again from `node`, after an overwrite or a rollback.
    func reset(over node: Node, at place: TrieNode)
}

/// What one commit did at one observed place.
struct PlaceChange {
    /// True if the place itself or an ancestor was written.
    let isOverwritten: Bool
    let old: Node
    let new: Node
    /// Writes below the place, with the values stored there now. Empty if the place was overwritten.
    var patches: [(path: Path, value: Node)] = []
    /// The children that contain these writes, in key order.
    var children: [ChildChange] = []
    /// The same children with their positions in the view's order. Set for views of queries.
    var ordered: [QueryWindow.Change] = []

    /// For many writes below the place, whose details the caller sets; or for an overwritten place, which has none.
    init(isOverwritten: Bool, _ old: Node, _ new: Node) { (self.isOverwritten, self.old, self.new) = (isOverwritten, old, new) }

    init(_ place: TrieNode, _ paths: [Path], old: Node, new: Node, root: Node) {
        isOverwritten = place.isOverwritten
        self.old = old
        self.new = new
        let written = place.writtenChild
        place.writtenChild = nil
        guard !isOverwritten else { return }
        if place.touchedBy.count == 1 {
            // Most commits write once: reuse the lookup of the fan-out.
            let path = paths[place.touchedBy[0]]
            let key = path.keys[place.path.depth]
            let child = ChildChange(key: key, old: written?.old ?? old.child(key), new: written?.new ?? new.child(key))
            patches = [(path, child.new.node(at: path.keys[(place.path.depth + 1)...]))]
            children = [child]
            return
        }
        var keys: [Key] = []
        for index in place.touchedBy {
            patches.append((paths[index], root.node(at: paths[index])))
            keys.append(paths[index].keys[place.path.depth])
        }
        if !keys.isAscending { keys = Set(keys).sorted() }
        children = keys.map { ChildChange(key: $0, old: old.child($0), new: new.child($0)) }
    }

    /// The child before and after the commit. A single written child is not looked up again.
    func before(_ key: Key) -> Node { isOnly(key) ? children[0].old : old.child(key) }
    func after(_ key: Key) -> Node { isOnly(key) ? children[0].new : new.child(key) }
    private func isOnly(_ key: Key) -> Bool { children.count == 1 && children[0].key == key }
}

/// What a commit changed in a view. `ViewChange` encodes it as patches (realtime protocol, event streams) or child events (observe protocol).
enum Difference {
    /// The whole place may differ.
    case value(Node, before: Node)
    /// Everything that a query shows may differ, because the place was overwritten.
    /// - since: the content that its observers have last seen; nil if it is not compared.
    case selection(TreeQuery, OrderedChildren, of: Node, since: Node? = nil)
    /// These children differ. A child not shown before or after is null there. Observers receive the writes below children that were shown before,
    /// and whole children otherwise.
    case children([ChildChange], SiblingOrder)
    /// Many writes below the place, all of which is shown.
    indirect case written(SubtreeWrites)
    /// A change of a live query, or its whole result.
    indirect case live(LiveChange)
    /// Many writes to children that a query showed before, or shows now in this order.
    indirect case moved(QueryWindow, SubtreeWrites, over: OrderedChildren)
}

extension Difference {
    /// The same difference for observers whose last seen content is `lastSeen`.
    func since(_ lastSeen: Node) -> Difference {
        switch self {
        case .value(let value, _): .value(value, before: lastSeen)
        case .selection(let query, let children, let node, _): .selection(query, children, of: node, since: lastSeen)
        case .children, .written, .moved, .live: self
        }
    }
}

extension Difference {
    /// How many children are shown now; nil if the count is unchanged. O(1); like `QueryWindow.countShown` for a window not yet counted; O(children
    /// that differ).
    var count: Int? {
        switch self {
        case .value(let value, let before):
            return value.childCount == before.childCount && !value.isIdentical(to: before) ? nil : value.childCount
        case .selection(let query, let children, _, _): return query.extent(in: children).count
        case .children(let differing, let order):
            let change = differing.reduce(0) { $0 + ($1.old.isNull ? 1 : 0) - ($1.new.isNull ? 1 : 0) }
            return change == 0 ? nil : order.count
        case .written(let writes): return writes.old.childCount == writes.new.childCount ? nil : writes.new.childCount
        case .live(let change): return change.hasOtherCount ? change.count : nil
        case .moved(let window, _, let children):
            // The window is the previous one: its count is known if it was counted.
            let now = window.query.extent(in: children).count
            return window.counted == now ? nil : now
        }
    }
}

/// The order of the children that a view shows.
enum SiblingOrder {
    case byKey(ChildMap)
    case window(QueryWindow, OrderedChildren, of: Node)

    /// The key of the sibling before a shown child; nil for the first one. O(log n)
    func sibling(before key: Key) -> Key? {
        switch self {
        case .byKey(let children): children.key(before: key)
        case .window(let window, let children, let node): window.sibling(before: key, in: node, over: children)
        }
    }

    var count: Int {
        switch self {
        case .byKey(let children): return children.count
        case .window(var window, let children, _): return window.countShown(over: children)
        }
    }

    /// True if a child shown before and after has, or may have, another position: the value that it is ordered by differs.
    func hasMoved(_ child: ChildChange) -> Bool {
        guard case .window(let window, _, _) = self, window.query.orderedBy != .key else { return false }
        let ordering = window.query.orderedBy
        return ordering.place(child.key, child.old).value.valueOrder(ordering.place(child.key, child.new).value) != 0
    }

    /// Shown children in the view's order. O(n log n), or O(1) in key order.
    func sorted(_ children: [ChildChange]) -> [ChildChange] {
        guard children.count > 1, case .window(let window, _, _) = self else { return children }
        let ordering = window.query.orderedBy
        let places = children.map { ordering.place($0.key, $0.new) }
        return children.indices.sorted { places[$0].order(places[$1]) < 0 }.map { children[$0] }
    }
}

/// Shows everything stored at a place.
final class WholePlace: LiveView {
    var showsWrites: Bool { true }
    var counts = false

    func apply(_ commit: PlaceChange, at place: TrieNode) -> Difference? {
        if commit.isOverwritten { return .value(commit.new, before: commit.old) }
        return .children(commit.children, .byKey(commit.new.children))
    }

    func concerned(by writes: SubtreeWrites) -> Range<Int> { writes.range }
    func move(along writes: SubtreeWrites, at place: TrieNode) -> Difference? { .written(writes) }
    func all(of node: Node, at place: TrieNode) -> Difference? { .value(node, before: node) }
    func reset(over node: Node, at place: TrieNode) {}
}

/// Shows the children that a query selects.
final class LiveWindow: LiveView {
    var showsWrites: Bool { false }
    var counts = false

    private let query: TreeQuery
    /// Nil while its index is being built.
    private var window: QueryWindow?

    /// - Parameter window: what the query shows now.
    init(_ query: TreeQuery, _ window: QueryWindow?) {
        self.query = query
        self.window = window
    }

    func apply(_ commit: PlaceChange, at place: TrieNode) -> Difference? {
        if commit.isOverwritten { return all(of: commit.new, at: place)?.since(commit.old) }
        guard let children = place.children(of: commit.new, by: query.orderedBy) else { return nil }
        // `children` is the order after the commit. A count taken from it must not be adjusted by this commit again.
        if counts, window?.isCounted == false {
            defer { _ = window?.countShown(over: children) }
            return applied(commit, over: children)
        }
        return applied(commit, over: children)
    }

    private func applied(_ commit: PlaceChange, over children: OrderedChildren) -> Difference? {
        guard let differing = window?.apply(commit, over: children), let window else { return nil }
        return differing.isEmpty ? nil : .children(differing, .window(window, children, of: commit.new))
    }

    func concerned(by writes: SubtreeWrites) -> Range<Int> {
        guard let window else { return writes.range.lowerBound..<writes.range.lowerBound }
        return query.orderedBy == .key ? writes.shown(in: window) : writes.range
    }

    func move(along writes: SubtreeWrites, at place: TrieNode) -> Difference? {
        guard let before = window, let children = place.children(of: writes.new, by: query.orderedBy) else { return nil }
        window = QueryWindow(query, over: children)
        if counts { _ = window?.countShown(over: children) }
        return .moved(before, writes, over: children)
    }

    func all(of node: Node, at place: TrieNode) -> Difference? {
        guard window != nil, let children = place.children(of: node, by: query.orderedBy) else { return nil }
        return .selection(query, children, of: node)
    }

    func reset(over node: Node, at place: TrieNode) {
        let children = place.children(of: node, by: query.orderedBy)
        window = children.map { QueryWindow(query, over: $0) }
        if counts, let children { _ = window?.countShown(over: children) }
    }
}

extension QueryWindow {
    /// Applies a commit to the window. Returns the shown children that differ. O(changes · log n)
    mutating func apply(_ commit: PlaceChange, over children: OrderedChildren) -> [ChildChange] {
        let moved = apply(commit.ordered, over: children)
        var differing: [ChildChange] = []
        differing.reserveCapacity(moved.left.count + moved.entered.count + moved.stayed.count)
        for key in moved.left { differing.append(ChildChange(key: key, old: commit.before(key), new: .null)) }
        for key in moved.entered { differing.append(ChildChange(key: key, old: .null, new: commit.after(key))) }
        for key in moved.stayed { differing.append(ChildChange(key: key, old: commit.before(key), new: commit.after(key))) }
        return differing
    }
}

extension [Key] {
    /// True if the keys strictly ascend.
    fileprivate var isAscending: Bool {
        for i in indices.dropFirst() where self[i] <= self[i - 1] { return false }
        return true
    }
}

#if DEBUG
    extension LiveWindow {
        /// True if the window is what the query shows of a node, or is not ready.
        func holds(over node: Node, at place: TrieNode) -> Bool {
            guard let window, let children = place.children(of: node, by: query.orderedBy) else { return true }
            return window.holds(over: children)
        }
    }
#endif
