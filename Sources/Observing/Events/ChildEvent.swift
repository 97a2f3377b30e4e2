public import Commits
public import JSONTree
public import LiveQueries

/// An event of one child. Events of one commit come in this order: removed; added and moved, by position; changed. So a client already knows the
/// sibling before each added or moved child.
public struct ChildEvent: Sendable, Equatable {
    public let kind: EventKinds
    public let key: Key
    /// The child's new value; its old value for `removed`; null for `moved`.
    public let value: Node
    /// The key of the preceding sibling after the change. Nil for the first child, for `removed`, and by position.
    public let previous: Key?
    /// Metres from the centre; nil if the query has none.
    public let distance: Double?
    /// The reason, for `removed` of a live query.
    public let why: LiveEvent.Reason?
    /// True if children are ordered by distance, or have no order in a region. No preceding sibling is sent then.
    public let isByPosition: Bool

    public init(
        kind: EventKinds, key: Key, value: Node, previous: Key?, distance: Double? = nil, why: LiveEvent.Reason? = nil,
        isByPosition: Bool = false
    ) {
        (self.kind, self.key, self.value, self.previous) = (kind, key, value, previous)
        (self.distance, self.why, self.isByPosition) = (distance, why, isByPosition)
    }
}

extension ChildEvent {
    /// The events of a live query, commit by commit.
    package static func events(of change: LiveChange) -> [ChildEvent] {
        if change.earlier.isEmpty { return events(change.change?.events ?? [], isByPosition: change.query.isByPosition) }
        return change.commits.flatMap { events($0, isByPosition: change.query.isByPosition) }
    }

    /// The events of one commit.
    package static func events(_ liveEvents: ContiguousArray<LiveEvent>, isByPosition: Bool) -> [ChildEvent] {
        var events: [ChildEvent] = []
        events.reserveCapacity(liveEvents.count)
        func add(_ kind: EventKinds, _ event: LiveEvent, _ value: Node) {
            events.append(
                ChildEvent(
                    kind: kind, key: event.key, value: value, previous: event.previous, distance: event.distance, why: event.why,
                    isByPosition: isByPosition))
        }
        // Changed values come last, when all children have their final positions.
        for event in liveEvents where event.kind == .removed { add(.removed, event, event.value) }
        for event in liveEvents {
            switch event.kind {
            case .added: add(.added, event, event.value)
            case .moved: add(.moved, event, .null)
            case .changed: if event.hasMoved { add(.moved, event, .null) }
            case .removed: break
            }
        }
        for event in liveEvents where event.kind == .changed { add(.changed, event, event.value) }
        return events
    }

    /// The events of these differing children. O(children · log n)
    package static func events(of children: [ChildChange], _ order: SiblingOrder) -> [ChildEvent] {
        var events = Sorted()
        for child in order.sorted(children) {
            let isShown = !child.old.isNull && !child.new.isNull
            events.compare(child.key, child.old, child.new, hasMoved: isShown && order.hasMoved(child)) { order.sibling(before: child.key) }
        }
        return events.all
    }

    /// The events between a query's results on two contents. O(n log n)
    /// - Parameter shown: the result on the new content.
    package static func events(
        _ query: TreeQuery, from old: Node, to new: Node, showing shown: ContiguousArray<OrderedChild>
    ) -> [ChildEvent] {
        let ordering = query.orderedBy
        let ordered: OrderedChildren = ordering == .key ? .byKey(old.children) : .indexed(OrderedIndex(ordering, of: old), of: old.children)
        let former = query.select(from: ordered)
        let now = Set(shown.lazy.map(\.key))
        var places: [Key: OrderedChild] = [:]
        var events = Sorted()
        for child in former {
            places[child.key] = child
            if !now.contains(child.key) { events.compare(child.key, old.child(child.key), .null) { nil } }
        }
        var previous: Key?
        for child in shown {
            let before = places[child.key]
            let hasMoved = before.map { $0.value.valueOrder(child.value) != 0 } ?? false
            events.compare(child.key, before == nil ? .null : old.child(child.key), new.child(child.key), hasMoved: hasMoved) { previous }
            previous = child.key
        }
        return events.all
    }

    /// The events between two objects. O(n)
    package static func events(from old: Node, to new: Node) -> [ChildEvent] {
        let (before, after) = (old.children, new.children)
        var events = Sorted()
        for (key, was) in before where after[key] == nil { events.compare(key, was, .null) { nil } }
        var previous: Key?
        for (key, now) in after {
            events.compare(key, before[key] ?? .null, now) { previous }
            previous = key
        }
        return events.all
    }

    /// Events by kind, in the order in which they are sent.
    private struct Sorted {
        private var removed: [ChildEvent] = []
        /// Added and moved, by position.
        private var placed: [ChildEvent] = []
        private var changed: [ChildEvent] = []

        var all: [ChildEvent] { removed + placed + changed }

        /// - Parameter hasMoved: true if a child shown before and after may have another position.
        mutating func compare(_ key: Key, _ was: Node, _ now: Node, hasMoved: Bool = false, previous: () -> Key?) {
            if now.isNull {
                if was.isNull { return }
                removed.append(ChildEvent(kind: .removed, key: key, value: was, previous: nil))
            } else if was.isNull {
                placed.append(ChildEvent(kind: .added, key: key, value: now, previous: previous()))
            } else if !was.isIdentical(to: now), was != now {
                let before = previous()
                if hasMoved { placed.append(ChildEvent(kind: .moved, key: key, value: .null, previous: before)) }
                changed.append(ChildEvent(kind: .changed, key: key, value: now, previous: before))
            }
        }
    }
}
