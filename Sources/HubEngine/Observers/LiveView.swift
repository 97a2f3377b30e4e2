import JSONTree

/// What is shown of a place to its observers, moved along with commits. The whole place (`WholePlace`) and the window of a query
/// (`LiveWindow`) are two kinds; a live query (`LiveQueryShown`) is another, which `QueryKeeper` moves along with those of its place.
///
/// Confined to the database queue.
protocol LiveView: AnyObject {
    /// Whether all that is written below the place is shown as it is: only then may observers be told the writes themselves, and of
    /// parts of the place.
    var showsWrites: Bool { get }

    /// Whether an observer is told how many children are shown.
    var counts: Bool { get set }

    /// Moves along with a commit that touched the place.
    /// - Returns: what its observers have to be told; nil when nothing of the commit shows, or when it cannot be told yet.
    func apply(_ commit: PlaceChange, at place: ObservedPlace) -> Difference?

    /// Those of many writes that may change what is shown. No more than O(log writes) where they can be found.
    func concerned(by writes: WrittenBelow) -> Range<Int>

    /// Moves along with many writes, as with a commit; what differs is found out later. O(log n)
    func move(along writes: WrittenBelow, at place: ObservedPlace) -> Difference?

    /// All that is shown of the place now. Nil when that is not known yet: it is told when it is.
    func all(of node: Node, at place: ObservedPlace) -> Difference?

    /// Forgets what it showed and starts again from `node`: the place was overwritten, or has gone back to an earlier state.
    func reset(over node: Node, at place: ObservedPlace)
}

/// What one commit did at one observed place.
struct PlaceChange {
    /// Whether the place itself was written, or one above it.
    let isOverwritten: Bool
    let old: Node
    let new: Node
    /// Writes below the place, with what is stored there now; empty when it was overwritten.
    var patches: [(path: Path, value: Node)] = []
    /// The children they lie in, in key order.
    var children: [ChildChange] = []
    /// The same children as the view's order sees them; set for views of queries.
    var ordered: [QueryWindow.Change] = []

    /// What many writes did below the place is still to be set, or the place was written as a whole and nothing is.
    init(isOverwritten: Bool, _ old: Node, _ new: Node) { (self.isOverwritten, self.old, self.new) = (isOverwritten, old, new) }

    init(_ place: ObservedPlace, _ paths: [Path], old: Node, new: Node, root: Node) {
        isOverwritten = place.isOverwritten
        self.old = old
        self.new = new
        let written = place.writtenChild
        place.writtenChild = nil
        guard !isOverwritten else { return }
        if place.touchedBy.count == 1 {
            // The usual commit writes once: what was looked up for it is not looked up again.
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

    /// A child before and after the commit; the only one that was written need not be looked up again.
    func before(_ key: Key) -> Node { isOnly(key) ? children[0].old : old.child(key) }
    func after(_ key: Key) -> Node { isOnly(key) ? children[0].new : new.child(key) }
    private func isOnly(_ key: Key) -> Bool { children.count == 1 && children[0].key == key }
}

/// What a commit did to what a view shows. Patches (realtime protocol, event streams) and events of children (observe protocol)
/// are both written down from it (`ViewChange`).
enum Difference {
    /// All of the place may differ.
    case value(Node, before: Node)
    /// All that a query shows may differ: the place was written as a whole.
    /// - since: the content of which its observers were told before; nil when it is not compared.
    case selection(TreeQuery, OrderedChildren, of: Node, since: Node? = nil)
    /// These children differ; one that is not shown, before or after, is null there. Observers of those that were shown before
    /// are told what was written below them, of others the whole child.
    case children([ChildChange], SiblingOrder)
    /// Much was written below the place, all of which is shown.
    indirect case written(WrittenBelow)
    /// What became of a live query, or all that it shows.
    indirect case live(LiveChange)
    /// Much was written of what a query showed before, or shows now in this order.
    indirect case moved(QueryWindow, WrittenBelow, over: OrderedChildren)
}

extension Difference {
    /// The same for observers who were told of another content last.
    func since(_ told: Node) -> Difference {
        switch self {
        case .value(let value, _): .value(value, before: told)
        case .selection(let query, let children, let node, _): .selection(query, children, of: node, since: told)
        case .children, .written, .moved, .live: self
        }
    }
}

extension Difference {
    /// How many children are shown now, where that may differ from before. O(1), or as `QueryWindow.countShown` of a window that was not
    /// counted; O(children that differ).
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
            // The window is the one before: how many it showed is known where that was counted.
            let now = window.query.extent(in: children).count
            return window.counted == now ? nil : now
        }
    }
}

/// Where a child stands among those that are shown.
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

    /// How many children are shown.
    var count: Int {
        switch self {
        case .byKey(let children): return children.count
        case .window(var window, let children, _): return window.countShown(over: children)
        }
    }

    /// Whether a child that is shown before and after stands at another place, or may: what it is ordered by differs.
    func hasMoved(_ child: ChildChange) -> Bool {
        guard case .window(let window, _, _) = self, window.query.orderedBy != .key else { return false }
        let ordering = window.query.orderedBy
        return ordering.place(child.key, child.old).value.valueOrder(ordering.place(child.key, child.new).value) != 0
    }

    /// Children that are shown, each behind those that come before it. O(n log n) unless they are in key order.
    func sorted(_ children: [ChildChange]) -> [ChildChange] {
        guard children.count > 1, case .window(let window, _, _) = self else { return children }
        let ordering = window.query.orderedBy
        let places = children.map { ordering.place($0.key, $0.new) }
        return children.indices.sorted { places[$0].order(places[$1]) < 0 }.map { children[$0] }
    }
}

/// All that is stored at a place.
final class WholePlace: LiveView {
    var showsWrites: Bool { true }
    var counts = false

    func apply(_ commit: PlaceChange, at place: ObservedPlace) -> Difference? {
        if commit.isOverwritten { return .value(commit.new, before: commit.old) }
        return .children(commit.children, .byKey(commit.new.children))
    }

    func concerned(by writes: WrittenBelow) -> Range<Int> { writes.range }
    func move(along writes: WrittenBelow, at place: ObservedPlace) -> Difference? { .written(writes) }
    func all(of node: Node, at place: ObservedPlace) -> Difference? { .value(node, before: node) }
    func reset(over node: Node, at place: ObservedPlace) {}
}

/// The children that a query selects.
final class LiveWindow: LiveView {
    var showsWrites: Bool { false }
    var counts = false

    private let query: TreeQuery
    /// Nil while the index is built that it needs.
    private var window: QueryWindow?

    /// - Parameter window: what the query shows now.
    init(_ query: TreeQuery, _ window: QueryWindow?) {
        self.query = query
        self.window = window
    }

    func apply(_ commit: PlaceChange, at place: ObservedPlace) -> Difference? {
        if commit.isOverwritten { return all(of: commit.new, at: place)?.since(commit.old) }
        guard let children = place.children(of: commit.new, by: query.orderedBy) else { return nil }
        // The order is the one after the commit: what is counted there must not move along with it again.
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

    func concerned(by writes: WrittenBelow) -> Range<Int> {
        guard let window else { return writes.range.lowerBound..<writes.range.lowerBound }
        return query.orderedBy == .key ? writes.shown(in: window) : writes.range
    }

    func move(along writes: WrittenBelow, at place: ObservedPlace) -> Difference? {
        guard let before = window, let children = place.children(of: writes.new, by: query.orderedBy) else { return nil }
        window = QueryWindow(query, over: children)
        if counts { _ = window?.countShown(over: children) }
        return .moved(before, writes, over: children)
    }

    func all(of node: Node, at place: ObservedPlace) -> Difference? {
        guard window != nil, let children = place.children(of: node, by: query.orderedBy) else { return nil }
        return .selection(query, children, of: node)
    }

    func reset(over node: Node, at place: ObservedPlace) {
        let children = place.children(of: node, by: query.orderedBy)
        window = children.map { QueryWindow(query, over: $0) }
        if counts, let children { _ = window?.countShown(over: children) }
    }
}

extension QueryWindow {
    /// Moves the window along with a commit; what differs of what it shows. O(changes · log n)
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
    /// Whether each comes before the next.
    fileprivate var isAscending: Bool {
        for i in indices.dropFirst() where self[i] <= self[i - 1] { return false }
        return true
    }
}
