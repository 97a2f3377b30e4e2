import JSONTree
import LiveQueries
import SecurityRules

/// Computes what a returning observer has missed: the events of each commit since its position, as they would have been sent. If the position is too
/// old, or too much was missed, the observer starts from scratch.
///
/// Confined to the database queue. Cost is proportional to the changes, and bounded by `resumeEvents`, `inlineChildren` and `outputBytes`.
final class Resumption {
    private let context: EngineContext
    private let content: Content
    private let places: PlaceTrie
    private let ring: CommitRing

    init(_ context: EngineContext, _ content: Content, _ places: PlaceTrie, _ ring: CommitRing) {
        self.context = context
        self.content = content
        self.places = places
        self.ring = ring
    }

    /// Clients may return with positions of this epoch.
    var epoch: String { ring.epoch }

    /// One replay may take this fraction (1/4) of a batch's output bytes.
    private static let parts = 4

    /// - Returns: the missed changes, oldest first; nil if they are unknown or too many.
    func missed(by observation: Observation, of client: Client, since position: Position) -> [ViewChange]? {
        guard case .events(_, let kinds, _) = observation.style, let known = ring.commits(since: position) else { return nil }
        // It may have been another region at `since`: the query is read again at the start.
        if case .stored? = observation.query?.within?.source { return nil }
        let path = observation.path
        let before = known.root.node(at: path)
        let touching = Array(known.commits.lazy.filter { commit in commit.paths.contains { $0.contains(path) || path.contains($0) } })
        let looked = known.commits.reduce(known.commits.count) { $0 + $1.paths.count }
        context.meter.spend(looked / RequestCost.childrenForWork)
        if kinds.isDisjoint(with: .children) {
            // An observer of values receives the current state.
            let now = content.root.node(at: path)
            if touching.isEmpty || now.isIdentical(to: before) { return [] }
            return [ViewChange(at: path, sequence: content.sequence, new: now)]
        }
        // Intermediate values are not replayed, so the order of values and child events would be lost.
        if kinds.contains(.value) { return nil }
        guard touching.count <= context.limits.resumeEvents else { return nil }
        context.meter.spend(touching.count)
        guard allows(observation, client, known.root), touching.allSatisfy({ allows(observation, client, $0.root) }) else { return nil }
        guard let query = observation.query else { return replay(path, from: before, touching) }
        return query.isPlain ? replay(query.tree, path, from: before, touching) : replay(query, observation, from: before, touching)
    }

    /// True if the rules would have allowed the observer at that commit. Data that was hidden then is not replayed.
    private func allows(_ observation: Observation, _ client: Client, _ root: Node) -> Bool {
        if client.identity.isAdmin { return true }
        return content.rules.decide(observation, root: root, auth: client.identity.auth, now: context.clock()).isAllowed
    }

    // MARK: Replay

    private func replay(_ path: Path, from start: Node, _ commits: [CommitRing.Entry]) -> [ViewChange]? {
        var (node, replayed, left) = (start, ReplayBuffer(context.limits), context.limits.inlineChildren)
        for commit in commits {
            let now = commit.root.node(at: path)
            guard let changes = changes(of: now, since: node, &left) else { return nil }
            let children = changes.map { ChildChange($0) }
            let count = now.childCount == node.childCount ? nil : now.childCount
            guard replayed.add(ChildEvent.events(of: children, .byKey(now.children)), count, path, commit.sequence) else { return nil }
            node = now
        }
        return replayed.changes
    }

    private func replay(_ query: TreeQuery, _ path: Path, from start: Node, _ commits: [CommitRing.Entry]) -> [ViewChange]? {
        guard var index = index(query.orderedBy, path, of: start) else { return nil }
        var window = QueryWindow(query, over: index.children(of: start))
        var count = window.countShown(over: index.children(of: start))
        var (node, replayed, left) = (start, ReplayBuffer(context.limits), context.limits.inlineChildren)
        for commit in commits {
            let now = commit.root.node(at: path)
            guard let changes = changes(of: now, since: node, &left) else { return nil }
            index.follow(changes)
            let order = index.children(of: now)
            let children = changes.map { ChildChange($0) }
            let differing = window.apply(children.placed(by: query.orderedBy), of: children, from: node, to: now, over: order)
            let counted = window.countShown(over: order)
            let events = ChildEvent.events(of: differing, .window(window, order, of: now))
            guard replayed.add(events, counted == count ? nil : counted, path, commit.sequence) else { return nil }
            (node, count) = (now, counted)
        }
        return replayed.changes
    }

    /// Replays a live query from its current window, moved back in time. A circle or a region is replayed from the children's earlier
    /// positions. A query for the nearest children cannot be replayed.
    private func replay(
        _ query: Query, _ observation: Observation, from start: Node, _ commits: [CommitRing.Entry]
    ) -> [ViewChange]? {
        let path = observation.path
        guard let shown = places.existingView(of: observation)?.live, !shown.view.isShort else { return nil }
        let queries = QuerySet(context.limits.windows)
        var index = query.keptOrder.flatMap { self.index($0, path, of: start) }
        if query.keptOrder != nil, index == nil { return nil }
        let view: LiveQueryView
        if !query.hasArea, var window = shown.view.window {
            let (now, former) = (content.root.node(at: path), index?.children(of: start))
            guard window.follow(from: now, to: start, from: former.map { .order($0) }, atMost: context.limits.inlineChildren), !window.isShort else { return nil }
            view = queries.add(window)
        } else if query.isByPosition, query.tree.limit == nil, let fields = query.fields {
            let points = GeoIndex(fields)
            queries.adopt(points)
            view = queries.add(Window(query, over: start, from: .points(points)))
        } else {
            return nil
        }
        // The replayed circle starts without its children, so its count is unknown.
        let wantsCount = observation.style.parts.contains(.count)
        if wantsCount, query.hasArea { return nil }
        var (node, replayed, left) = (start, ReplayBuffer(context.limits), context.limits.inlineChildren)
        for commit in commits {
            let now = commit.root.node(at: path)
            guard let changes = changes(of: now, since: node, &left) else { return nil }
            index?.follow(changes)
            let order = index
            var events: ContiguousArray<LiveEvent> = []
            let before = view.count
            queries.apply(ContiguousArray(changes.lazy.map { ChildWrite($0) }), over: now, in: { _ in order?.children(of: now) }) {
                events += $1.events
            }
            if view.isShort { return nil }
            let count = wantsCount && view.count != before ? view.count : nil
            guard replayed.add(ChildEvent.events(events, isByPosition: query.isByPosition), count, path, commit.sequence) else { return nil }
            node = now
        }
        return replayed.changes
    }

    /// The children that differ, shown or not. `left` limits their number over all commits.
    private func changes(of now: Node, since former: Node, _ left: inout Int) -> ContiguousArray<ChildMap.Change>? {
        guard let changes = now.children.changes(since: former.children, atMost: context.limits.inlineChildren) else { return nil }
        left -= changes.count
        context.meter.spend(1 + changes.count)
        return left < 0 ? nil : changes
    }

    /// The order of the children at an earlier commit.
    private struct PastOrder {
        let ordering: TreeQuery.Index
        /// Nil for key order.
        var index: OrderedIndex?

        func children(of node: Node) -> OrderedChildren { index.map { .indexed($0, of: node.children) } ?? .byKey(node.children) }
        mutating func follow(_ changes: ContiguousArray<ChildMap.Change>) { for change in changes { index?.move(change) } }
    }

    /// The order at an earlier commit: the current one, moved back.
    private func index(_ ordering: TreeQuery.Index, _ path: Path, of node: Node) -> PastOrder? {
        if ordering == .key { return PastOrder(ordering: ordering) }
        if var sorted = places.existingPlace(at: path)?.existingIndex(ordering)?.index,
            sorted.follow(from: content.root.node(at: path), to: node, atMost: context.limits.inlineChildren) {
            return PastOrder(ordering: ordering, index: sorted)
        }
        guard node.childCount <= context.limits.inlineChildren else { return nil }
        context.meter.spend(node.childCount / RequestCost.childrenForWork)
        return PastOrder(ordering: ordering, index: OrderedIndex(ordering, of: node))
    }

    /// Collects the replayed changes within the limits.
    private struct ReplayBuffer {
        private(set) var changes: [ViewChange] = []
        private var eventsLeft: Int
        private var bytesLeft: Int

        init(_ limits: EngineLimits) { (eventsLeft, bytesLeft) = (limits.resumeEvents, limits.outputBytes / Resumption.parts) }

        mutating func add(_ events: [ChildEvent], _ count: Int?, _ path: Path, _ sequence: UInt64) -> Bool {
            if events.isEmpty, count == nil { return true }
            eventsLeft -= events.count
            guard eventsLeft >= 0, events.allSatisfy({ $0.value.isWithin(&bytesLeft) }) else { return false }
            changes.append(ViewChange(at: path, sequence: sequence, events: events, count: count))
            return true
        }
    }
}

extension ChildChange {
    fileprivate init(_ change: ChildMap.Change) {
        self.init(key: change.key, old: change.old ?? .null, new: change.new ?? .null)
    }
}
