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

/// What became of one child that a live query shows or showed.
///
/// The events of a commit come in the order in which a client applies them: what is removed, then the others in the order of the query.
/// A client that puts each child behind its `previous` has the order of the query then. By distance there is no `previous`: the distances
/// say the order.
public struct LiveEvent: Sendable, Equatable {
    public enum Kind: Sendable, Hashable {
        case added
        /// Its content differs. `hasMoved` says whether its place in the order does as well.
        case changed
        /// Only its place in the order, or its distance, differs: the centre of the circle has moved.
        case moved
        case removed
    }

    /// Why a child is shown no longer.
    public enum Reason: Sendable, Hashable {
        /// It still exists: it does not match any more, is out of the circle, or others come first.
        case left
        case deleted
    }

    public let kind: Kind
    public let key: Key
    /// The child as it is; for `removed` as it was shown.
    public let value: Node
    /// The key of the one before, in the order of the query; nil for the first one, for `removed`, and in the order of distances.
    public let previous: Key?
    /// Metres from the centre; nil where the query has none. For `removed` where the child is now, and where it was if it is nowhere.
    public let distance: Double?
    /// For `changed`: whether the value differs that the query orders by, or the distance where it orders by that.
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

/// One change as a filter sees it.
struct SeenWrite {
    var write: ChildWrite
    /// Whether the filter selects the child before and after.
    var was = false
    var now = false
    var oldPoint: GeoPoint?
    var newPoint: GeoPoint?
}

extension SeenWrite {
    /// The changes between two states of a place, as a filter sees them; nil where they are more than `most` (`ChildMap.changes`).
    static func between(
        _ old: Node, _ new: Node, _ filter: Filter, _ fields: GeoFields?, atMost most: Int
    ) -> ContiguousArray<SeenWrite>? {
        guard let changes = new.children.changes(since: old.children, atMost: most) else { return nil }
        var seen: ContiguousArray<SeenWrite> = []
        for change in changes {
            let write = ChildWrite(change.key, old: change.old ?? .null, new: change.new ?? .null)
            let (was, now) = (filter.admits(write.old), filter.admits(write.new))
            guard was || now else { continue }
            seen.append(
                SeenWrite(
                    write: write, was: was, now: now, oldPoint: fields.flatMap { $0.point(of: write.old) },
                    newPoint: fields.flatMap { $0.point(of: write.new) }))
        }
        return seen
    }
}

extension MatchWindow.Step {
    /// The event that tells it of a child that was changed.
    @inline(__always)
    func event(of write: ChildWrite, previous: Key?, distance: Double? = nil) -> LiveEvent {
        switch kind {
        case .left: LiveEvent(.removed, key, write.old, distance: distance, why: write.new.exists ? .left : .deleted)
        case .entered: LiveEvent(.added, key, write.new, previous: previous, distance: distance)
        case .stayed: LiveEvent(.changed, key, write.new, previous: previous, distance: distance, hasMoved: hasMoved)
        }
    }

    /// The event that tells it.
    /// - Parameters:
    ///   - child: the child as it is, of one that was not changed.
    func event(
        of writes: ContiguousArray<SeenWrite>, previous: Key?, distance: Double? = nil, child: (Key) -> Node
    ) -> LiveEvent {
        if change >= 0 { return event(of: writes[change].write, previous: previous, distance: distance) }
        if kind == .left { return LiveEvent(.removed, key, child(key), distance: distance, why: .left) }
        return LiveEvent(.added, key, child(key), previous: previous, distance: distance)
    }
}
