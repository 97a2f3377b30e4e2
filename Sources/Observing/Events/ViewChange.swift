package import Commits
public import JSONTree

/// What the observers of one view receive: the change of a commit, what they have missed, or all that it shows. Parts that are too large for the database queue are computed while encoding.
public struct ViewChange: Sendable {
    /// The observed place.
    public let path: Path
    public let sequence: UInt64
    /// The current value at the place, or what a query shows of it. For a query, set only if requested or if `patches` is empty.
    public private(set) var new = Node.null
    /// The changes below the place, as absolute paths and resulting values. Empty if the place itself was overwritten.
    public private(set) var patches: [(path: Path, value: Node)] = []
    /// The place whose keys a client has updated. Nil for a set, or if the changes are not known to be one update.
    public package(set) var update: Path?
    /// Child and value events, computed if an observer wants events.
    public private(set) var events: [ChildEvent] = []
    /// The number of shown children; nil if unchanged or not requested.
    public private(set) var count: Int?
    /// True if this view is unaffected after all: the written children were not shown and are not shown now.
    public private(set) var isNothing = false
    /// The parts that are not computed yet, and what they derive from.
    private var missing: (parts: ObservedParts, of: Difference)?

    /// - Parameters:
    ///   - wanted: parts that some observer receives.
    ///   - limits: work beyond them is left to `finish`. Reduced by the work done.
    package init(_ difference: Difference, at path: Path, for wanted: ObservedParts, sequence: UInt64, within limits: inout ChangeLimits) {
        (self.path, self.sequence) = (path, sequence)
        if wanted.contains(.count) { count = difference.count }
        let wanted = difference.parts(wanted)
        let large = wanted.intersection(difference.largeParts(wanted, within: &limits))
        compute(wanted.subtracting(large), of: difference)
        if !large.isEmpty { missing = (large, difference) }
    }

    /// A change whose parts are known.
    package init(
        at path: Path, sequence: UInt64, new: Node = .null, patches: [(path: Path, value: Node)] = [], events: [ChildEvent] = [],
        count: Int? = nil
    ) {
        (self.path, self.sequence, self.new) = (path, sequence, new)
        (self.patches, self.events, self.count) = (patches, events, count)
    }

    package var isComplete: Bool { missing == nil }

    /// True if observers of this style receive something that is not computed yet.
    package func lacks(_ style: ObserverStyle) -> Bool {
        guard let missing else { return false }
        return !missing.of.parts(style.parts).isDisjoint(with: missing.parts)
    }

    /// True if observers of this style receive nothing.
    package func isNothing(for style: ObserverStyle) -> Bool { isNothing && !(count != nil && style.parts.contains(.count)) }

    /// Computes the missing parts. O(children of both contents, written or shown)
    package mutating func finish() {
        guard let missing else { return }
        self.missing = nil
        compute(missing.parts, of: missing.of)
    }

    private mutating func compute(_ parts: ObservedParts, of difference: Difference) {
        switch difference {
        case .value(let value, let before):
            new = value
            if parts.contains(.events) { events = ChildEvent.events(from: before, to: value) }
        case .selection(let query, let children, let node, let before):
            if parts.isDisjoint(with: [.value, .events]) { return }
            let shown = query.select(from: children)
            if parts.contains(.value) { new = TreeQuery.value(of: shown, in: node) }
            if let before, parts.contains(.events) { events = ChildEvent.events(query, from: before, to: node, showing: shown) }
        case .children(let children, let order, let change): compute(parts, of: children, order, change)
        case .written(let change): compute(parts, of: change.children() ?? [], .byKey(change.new.children), change)
        case .moved(var window, let change, let order):
            let children = change.children() ?? []
            let placed = children.placed(by: window.query.orderedBy)
            let differing = window.apply(placed, of: children, from: change.old, to: change.new, over: order)
            isNothing = differing.isEmpty
            compute(parts, of: differing, .window(window, order, of: change.new), change)
        case .live(let change, let node):
            if parts.contains(.patches) { patches = change.patches(below: path) }
            if parts.contains(.events) { events = ChildEvent.events(of: change) }
            if parts.contains(.value), let shown = change.shown { new = node.selecting(shown) }
        }
    }

    private mutating func compute(_ parts: ObservedParts, of children: [ChildChange], _ order: SiblingOrder, _ change: Change) {
        if parts.contains(.events) { events = ChildEvent.events(of: children, order) }
        switch order {
        case .byKey:
            new = change.new
            if parts.contains(.patches) { patches = change.patches(of: children) }
        case .window(let window, let all, let node):
            if parts.contains(.patches) { patches = children.patches(of: change) }
            if parts.contains(.value) { new = TreeQuery.value(of: window.query.select(from: all), in: node) }
        }
    }
}

/// How much one change may compute on the database queue.
package struct ChangeLimits {
    /// Children compared or collected for one view.
    package let children: Int
    /// Children that may still be collected, over all views.
    package var room: Int

    package init(children: Int, room: Int) {
        self.children = children
        self.room = room
    }

    /// Takes room for as many children. False if there is not enough; then nothing is left for later views either.
    fileprivate mutating func take(_ count: Int) -> Bool {
        let fits = count <= min(room, children)
        room = fits ? room - count : max(0, room - children)
        return fits
    }

    /// The same for all that a query shows.
    fileprivate mutating func take(_ query: TreeQuery, _ order: OrderedChildren, of node: Node) -> Bool {
        let most = min(query.limit ?? .max, node.childCount)
        return take(most <= RequestCost.childrenForWork ? most : query.extent(in: order).count)
    }
}

extension Difference {
    /// What some observers receive of it: those of patches receive a whole result as a value.
    fileprivate func parts(_ wanted: ObservedParts) -> ObservedParts {
        let isWhole: Bool =
            switch self {
            case .value, .selection: true
            case .live(let change, _): change.isWhole
            case .children, .written, .moved: false
            }
        return isWhole && wanted.contains(.patches) ? wanted.union(.value) : wanted
    }

    /// The parts that would take too long on the database queue.
    fileprivate func largeParts(_ wanted: ObservedParts, within limits: inout ChangeLimits) -> ObservedParts {
        switch self {
        case .value(let value, let before): return max(before.childCount, value.childCount) > limits.children ? .events : []
        case .selection(let query, let children, let node, let before):
            if wanted.isDisjoint(with: [.value, .events]) { return [] }
            guard limits.take(query, children, of: node) else { return .all }
            return before?.childCount ?? 0 > limits.children ? .events : []
        case .children(_, .window(let window, let order, let node), _):
            return wanted.contains(.value) && !limits.take(window.query, order, of: node) ? .value : []
        case .children: return []
        case .written, .moved: return .all
        case .live(let change, _): return wanted.contains(.value) && !limits.take(change.shown?.count ?? 0) ? .value : []
        }
    }
}

extension Node {
    /// An object of these children. O(keys · log n)
    package func selecting(_ keys: ContiguousArray<Key>) -> Node {
        let children = children
        return .object(keys.lazy.map { ($0, children[$0] ?? .null) })
    }
}
