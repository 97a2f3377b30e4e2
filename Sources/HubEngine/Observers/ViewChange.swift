public import JSONTree
public import LiveQueries

/// The change of one commit, for the observers of one place.
public struct ViewChange: Sendable {
    /// The observed place.
    public let path: Path
    public let sequence: UInt64
    /// The current value at the place, or what a query shows of it. For a query, set only if `patches` is empty.
    public private(set) var new: Node
    /// The changes below the place, as absolute paths and resulting values. Empty if the place itself was overwritten.
    public private(set) var patches: [(path: Path, value: Node)]
    /// The place whose keys a client has updated. Nil for a set, or if the changes are not known to be one update.
    public internal(set) var update: Path?
    /// Child and value events, computed if an observer wants events.
    public private(set) var events: [ChildEvent]
    /// The number of shown children; nil if unchanged or not requested.
    public private(set) var count: Int?
    /// Work too large for the database queue, computed while encoding. Nil when complete.
    private(set) var remainder: Remainder?

    indirect enum Remainder: Sendable {
        /// The events; the place had this content before.
        case events(since: Node)
        /// What a query shows of this content, in this order of its children. If `since` is set, also the events from that content.
        case selection(TreeQuery, OrderedChildren, of: Node, since: Node?)
        /// Only the value that a query shows.
        case value(TreeQuery, OrderedChildren, of: Node)
        /// Only the value, made of these children.
        case children(ContiguousArray<Key>, of: Node)
        /// The patches of these writes below the place, and the events if requested.
        case written(SubtreeWrites, events: Bool)
        /// The same for a query, from its previous window to the current order, and its value if requested.
        case moved(QueryWindow, SubtreeWrites, over: OrderedChildren, events: Bool, value: Bool)

        /// True if observers of this style receive something that is not computed yet.
        func concerns(_ style: ObserverStyle) -> Bool {
            switch self {
            case .events: style.hasChildEvents
            case .value: style.hasValues
            case .children: style.hasValues || style.hasPatches
            case .selection, .written, .moved: !style.isCount
            }
        }
    }

    /// True if this view is unaffected after all: the written children were not shown and are not shown now.
    public private(set) var isNothing = false

    /// True if observers of this style receive nothing.
    func isNothing(for style: ObserverStyle) -> Bool { isNothing && !(count != nil && style.hasCounts) }

    /// Computes the remainder. O(children of both contents, written or shown)
    mutating func finish() {
        switch remainder {
        case .events(let old)?: events = ChildEvent.events(from: old, to: new)
        case .selection(let query, let children, let node, let old)?:
            let selected = query.select(from: children)
            new = TreeQuery.value(of: selected, in: node)
            if let old { events = ChildEvent.events(query, from: old, to: node, showing: selected) }
        case .value(let query, let children, let node)?: new = TreeQuery.value(of: query.select(from: children), in: node)
        case .children(let keys, let node)?: new = node.selecting(keys)
        case .written(let writes, let wantsEvents)?:
            let commit = PlaceChange(writes)
            patches = commit.patches
            if wantsEvents { events = ChildEvent.events(of: commit.children, .byKey(new.children)) }
        case .moved(var window, let writes, let children, let wantsEvents, let wantsValue)?:
            var commit = PlaceChange(writes)
            commit.ordered = commit.children.placed(by: window.query.orderedBy)
            let differing = window.apply(commit, over: children)
            patches = Self.patches(of: differing, commit.patches, below: path)
            if wantsEvents { events = ChildEvent.events(of: differing, .window(window, children, of: commit.new)) }
            if wantsValue { new = TreeQuery.value(of: window.query.select(from: children), in: commit.new) }
            isNothing = differing.isEmpty
        case nil: return
        }
        remainder = nil
    }
}

/// An event of one child. Events of one commit come in this order: removed; added and moved, by position; changed. So a client already knows the
/// sibling before each added or moved child.
public struct ChildEvent: Sendable, Equatable {
    public let kind: EventKinds
    public let key: Key
    /// The child's new value; its old value for `removed`; null for `moved`.
    public let value: Node
    /// The key of the preceding sibling after the change. Nil for the first child, for `removed`, and in distance order.
    public let previous: Key?
    /// Metres from the centre; nil if the query has none.
    public let distance: Double?
    /// The reason, for `removed` of a live query.
    public let why: LiveEvent.Reason?
    /// True if children are ordered by distance, so that no preceding sibling is sent.
    public let isByDistance: Bool

    public init(
        kind: EventKinds, key: Key, value: Node, previous: Key?, distance: Double? = nil, why: LiveEvent.Reason? = nil,
        isByDistance: Bool = false
    ) {
        (self.kind, self.key, self.value, self.previous) = (kind, key, value, previous)
        (self.distance, self.why, self.isByDistance) = (distance, why, isByDistance)
    }
}

/// How much one change may compute on the database queue.
struct ChangeLimits {
    /// Children compared or collected for one view.
    let children: Int
    /// Children that may still be collected, over all views.
    var room: Int
}

extension ViewChange {
    /// Encodes a difference as patches, and as child events if an observer wants them. Work beyond the limits becomes the remainder. O(what differs)
    /// - Parameters:
    ///   - patches: the writes below the place.
    ///   - limits: reduced by the work done.
    init(
        _ difference: Difference, of view: View, written patches: [(path: Path, value: Node)], new: Node, sequence: UInt64,
        within limits: inout ChangeLimits
    ) {
        path = view.path
        self.sequence = sequence
        count = view.wantsCount ? difference.count : nil
        switch difference {
        case .value(let value, let before):
            self.new = value
            self.patches = []
            events = []
            guard view.wantsChildren else { return }
            if max(before.childCount, value.childCount) > limits.children {
                remainder = .events(since: before)
            } else {
                events = ChildEvent.events(from: before, to: value)
            }
        case .selection(let query, let children, let node, let lastSeen):
            self.patches = []
            events = []
            let old = view.wantsChildren ? lastSeen : nil
            let few = Self.few(query, children, within: &limits)
            self.new = few.map { TreeQuery.value(of: $0, in: node) } ?? .null
            if let few, old?.childCount ?? 0 <= limits.children {
                if let old { events = ChildEvent.events(query, from: old, to: node, showing: few) }
            } else {
                remainder = .selection(query, children, of: node, since: old)
            }
        case .children(let children, let order):
            self.new = view.shown.showsWrites ? new : .null
            self.patches = view.shown.showsWrites ? patches : Self.patches(of: children, patches, below: view.path)
            events = view.wantsChildren ? ChildEvent.events(of: children, order) : []
            guard view.wantsSelection, case .window(let window, let all, let node) = order else { return }
            if let few = Self.few(window.query, all, within: &limits) {
                self.new = TreeQuery.value(of: few, in: node)
            } else {
                remainder = .value(window.query, all, of: node)
            }
        case .written(let writes):
            self.new = new
            self.patches = []
            events = []
            remainder = .written(writes, events: view.wantsChildren)
        case .live(let change):
            self.new = .null
            self.patches = view.wantsPatches ? Self.patches(of: change, below: view.path) : []
            events = view.wantsChildren ? ChildEvent.events(of: change) : []
            guard view.wantsSelection || (change.isWhole && view.wantsPatches) else { return }
            let keys = change.keys()
            if keys.count <= min(limits.room, limits.children) {
                limits.room -= keys.count
                self.new = new.selecting(keys)
            } else {
                limits.room = 0
                remainder = .children(keys, of: new)
            }
        case .moved(let window, let writes, let children):
            self.new = .null
            self.patches = []
            events = []
            remainder = .moved(window, writes, over: children, events: view.wantsChildren, value: view.wantsSelection)
        }
    }

    /// What a query shows, if few enough children for the database queue.
    private static func few(
        _ query: TreeQuery, _ children: OrderedChildren, within limits: inout ChangeLimits
    ) -> ContiguousArray<OrderedChild>? {
        let most = min(limits.room, limits.children)
        let few = query.select(from: children, atMost: most)
        limits.room -= few?.count ?? most
        return few
    }

    /// A change that sends missed places with their current values.
    init(_ patches: [(path: Path, value: Node)], of view: View, new: Node, sequence: UInt64) {
        self.init(path: view.path, sequence: sequence, new: new, patches: patches, events: [])
    }

    init(path: Path, sequence: UInt64, new: Node, patches: [(path: Path, value: Node)], events: [ChildEvent], count: Int? = nil) {
        self.path = path
        self.sequence = sequence
        self.new = new
        self.patches = patches
        self.events = events
        self.count = count
    }

    /// Sets the parts that one observer of a live query receives.
    mutating func set(_ change: LiveChange, of node: Node, in style: ObserverStyle) {
        events = ChildEvent.events(of: change)
        if style.hasCounts { count = Difference.live(change).count }
        if style.hasPatches { patches = Self.patches(of: change, below: path) }
        if style.hasValues { new = node.selecting(change.keys()) }
    }

    /// Patches with each child once, at its current value.
    private static func patches(of change: LiveChange, below path: Path) -> [(path: Path, value: Node)] {
        var patches = (change.change?.events ?? []).map { (path: path.appending($0.key), value: $0.kind == .removed ? .null : $0.value) }
        if change.earlier.isEmpty { return patches }
        var seen = Set(patches.map(\.path))
        for event in change.earlier.reversed().joined() where seen.insert(path.appending(event.key)).inserted {
            patches.append((path.appending(event.key), event.kind == .removed ? .null : event.value))
        }
        return patches
    }

    /// A query's patches for a commit (contract §3.5): null for children that leave, whole children that enter, and the writes below all others.
    private static func patches(
        of children: [ChildChange], _ written: [(path: Path, value: Node)], below path: Path
    ) -> [(path: Path, value: Node)] {
        var patches: [(path: Path, value: Node)] = []
        var stayed: [Key] = []
        for child in children {
            if child.new.isNull || child.old.isNull {
                patches.append((path.appending(child.key), child.new))
            } else {
                stayed.append(child.key)
            }
        }
        if stayed.isEmpty { return patches }
        let many = stayed.count > 8 ? Set(stayed) : nil
        for patch in written {
            let key = patch.path.keys[path.depth]
            if many?.contains(key) ?? stayed.contains(key) { patches.append(patch) }
        }
        return patches
    }
}

extension Node {
    /// An object of these children. O(keys · log n)
    func selecting(_ keys: ContiguousArray<Key>) -> Node {
        let children = children
        return .object(keys.lazy.map { ($0, children[$0] ?? .null) })
    }
}

extension ChildEvent {
    /// The events of a live query, commit by commit.
    static func events(of change: LiveChange) -> [ChildEvent] {
        if change.earlier.isEmpty { return events(change.change?.events ?? [], isByDistance: change.query.isByDistance) }
        return change.commits.flatMap { events($0, isByDistance: change.query.isByDistance) }
    }

    /// The events of one commit.
    static func events(_ liveEvents: ContiguousArray<LiveEvent>, isByDistance: Bool) -> [ChildEvent] {
        var events: [ChildEvent] = []
        events.reserveCapacity(liveEvents.count)
        func add(_ kind: EventKinds, _ event: LiveEvent, _ value: Node) {
            events.append(
                ChildEvent(
                    kind: kind, key: event.key, value: value, previous: event.previous, distance: event.distance, why: event.why,
                    isByDistance: isByDistance))
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
    static func events(of children: [ChildChange], _ order: SiblingOrder) -> [ChildEvent] {
        var events = Sorted()
        for child in order.sorted(children) {
            let isShown = !child.old.isNull && !child.new.isNull
            events.compare(child.key, child.old, child.new, hasMoved: isShown && order.hasMoved(child)) { order.sibling(before: child.key) }
        }
        return events.all
    }

    /// The events between a query's results on two contents. O(n log n)
    /// - Parameter shown: the result on the new content.
    static func events(
        _ query: TreeQuery, from old: Node, to new: Node, showing shown: ContiguousArray<OrderedChild>
    ) -> [ChildEvent] {
        let ordering = query.orderedBy
        let ordered: OrderedChildren = ordering == .key ? .byKey(old.children) : .indexed(OrderedIndex(ordering, of: old))
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
    static func events(from old: Node, to new: Node) -> [ChildEvent] {
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
