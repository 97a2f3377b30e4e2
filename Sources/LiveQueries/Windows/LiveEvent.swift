public import JSONTree

/// One child of a place before and after a commit; null where it does not exist.
public struct ChildWrite: Sendable {
    public let key: Key
    public let old: Node
    public let new: Node

    public init(_ key: Key, old: Node, new: Node) {
        self.key = key
        self.old = old
        self.new = new
    }
}

/// The change of one child that a live query shows or has shown.
///
/// The events of a commit come in the order in which a client applies them: removed children, then the others in the query's order. A client that
/// puts each child after its `previous` has the query's order. In distance order there is no `previous`, since the distances define the order.
public struct LiveEvent: Sendable, Equatable {
    public enum Kind: Sendable, Hashable {
        case added
        /// Its content differs. `hasMoved` tells whether its position in the order does too.
        case changed
        /// Only its position in the order, or its distance, differs: the centre of the circle has moved.
        case moved
        case removed
    }

    /// Why a child is no longer shown.
    public enum Reason: Sendable, Hashable {
        /// It still exists, but no longer matches, has left the circle, or others come first.
        case left
        case deleted
    }

    public let kind: Kind
    public let key: Key
    /// The current child; for `removed`, as it was shown.
    public let value: Node
    /// The key of the preceding sibling in the query's order. Nil for the first child, for `removed`, and in distance order.
    public let previous: Key?
    /// Metres from the centre; nil if the query has none. For `removed`, that of the child's current position, or of its last one if it has none now.
    public let distance: Double?
    /// For `changed`: true if the value, or the distance, that the query orders by differs.
    public let hasMoved: Bool
    /// For `removed`.
    public let why: Reason?

    init(
        _ kind: Kind, _ key: Key, _ value: Node, previous: Key? = nil, distance: Double? = nil, hasMoved: Bool = false, why: Reason? = nil
    ) {
        self.kind = kind
        self.key = key
        self.value = value
        self.previous = previous
        self.distance = distance
        self.hasMoved = hasMoved
        self.why = why
    }
}

/// One change with the results of a filter.
struct FilteredWrite {
    var write: ChildWrite
    /// Whether the filter selects the child before and after.
    var was = false
    var now = false
    var oldPoint: GeoPoint?
    var newPoint: GeoPoint?
}

extension FilteredWrite {
    /// The changes between two states of a place, with the results of a filter. Nil if more than `most` differ (`ChildMap.changes`).
    static func between(
        _ old: Node, _ new: Node, _ filter: Filter, _ fields: GeoFields?, atMost most: Int
    ) -> ContiguousArray<FilteredWrite>? {
        guard let changes = new.children.changes(since: old.children, atMost: most) else { return nil }
        var seen: ContiguousArray<FilteredWrite> = []
        for change in changes {
            let write = ChildWrite(change.key, old: change.old ?? .null, new: change.new ?? .null)
            let (was, now) = (filter.admits(write.old), filter.admits(write.new))
            guard was || now else { continue }
            seen.append(
                FilteredWrite(
                    write: write, was: was, now: now, oldPoint: fields.flatMap { $0.point(of: write.old) },
                    newPoint: fields.flatMap { $0.point(of: write.new) }))
        }
        return seen
    }
}

extension MatchWindow.Step {
    /// The event of a step for a changed child.
    @inline(__always)
    func event(of write: ChildWrite, previous: Key?, distance: Double? = nil) -> LiveEvent {
        switch kind {
        case .left: LiveEvent(.removed, key, write.old, distance: distance, why: write.new.exists ? .left : .deleted)
        case .entered: LiveEvent(.added, key, write.new, previous: previous, distance: distance)
        case .stayed: LiveEvent(.changed, key, write.new, previous: previous, distance: distance, hasMoved: hasMoved)
        }
    }

    /// The event of a step.
    /// - Parameters:
    ///   - child: the current value of a child that was not changed itself.
    func event(
        of writes: ContiguousArray<FilteredWrite>, previous: Key?, distance: Double? = nil, child: (Key) -> Node
    ) -> LiveEvent {
        if change >= 0 { return event(of: writes[change].write, previous: previous, distance: distance) }
        if kind == .left { return LiveEvent(.removed, key, child(key), distance: distance, why: .left) }
        return LiveEvent(.added, key, child(key), previous: previous, distance: distance)
    }
}
