import JSONTree
import Scheduling
import SecurityRules

/// Indexes are built where they are needed, off the queue when they are large, kept while they are used, and dropped when they
/// have been idle for long or room is needed.
///
/// Confined to the database queue.
final class IndexKeeper: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let places: PlaceTrie
    private let durability: DurabilityLine
    private var kept = KeptIndexes()
    /// Orders that were brought up to date with the commit that is being told.
    private var prepared = PreparedOrders()
    /// Live queries of a place in an order show what they select now: their index has been built anew.
    var onShown: (Path, TreeQuery.Index, Owed) -> Void = { _, _, _ in }
    /// An order is there, or there again.
    var onReady: (Path) -> Void = { _ in }
    /// An observer cannot go on, as there is no room for the index that it needs.
    var cancel: (Observation, Client) -> Void = { _, _ in }

    init(_ context: EngineContext, _ content: Content, _ places: PlaceTrie, _ durability: DurabilityLine) {
        self.context = context
        self.content = content
        self.places = places
        self.durability = durability
    }

    private var limits: EngineLimits { context.limits }

    /// Fewer children are sorted for each answer: keeping their order gains nothing.
    private static let fewestKept = 64
    /// Children that are sorted, and steps through the parts of an order, that are as much work as a small request.
    private static let sortedForWork = 4
    private static let stepsForWork = 500
    /// How often an index is built for those who wait, while the place is written faster than that.
    private static let buildingAttempts = 3

    // MARK: Having one

    /// The children of a place in an order, if that can be had at once.
    /// - Parameters:
    ///   - mustKeep: for an observer, after which the index is to be settled; the failure says why it cannot be kept.
    func order(_ node: Node, at path: Path, by ordering: TreeQuery.Index, mustKeep: Bool) -> Result<OrderedChildren, Failure>? {
        if ordering == .key { return .success(.byKey(node.children)) }
        if let known = places.existingPlace(at: path)?.existingIndex(ordering), let index = known.index {
            if !mustKeep { settle(known) }
            return .success(.indexed(index))
        }
        guard isSortedQuickly(node, by: ordering) else { return nil }
        let known = places.existingPlace(at: path)?.existingIndex(ordering)
        // It is being built for others; an observer needs that one.
        if mustKeep, known != nil { return nil }
        let index = OrderedIndex(ordering, of: node)
        context.meter.counters.childrenSortedOnQueue += index.count
        context.meter.spend(index.count / Self.sortedForWork)
        if known != nil || (!mustKeep && node.childCount < Self.fewestKept) { return .success(.indexed(index)) }
        switch keep(ordering, at: path, over: node) {
        case .success(let made):
            kept.change(made) { made.index = index }
            if !mustKeep { settle(made) }
        case .failure(let failure): if mustKeep { return .failure(failure) }
        }
        return .success(.indexed(index))
    }

    /// Whether sorting the children delays no other request: they are few, and of strings there is little to compare.
    /// O(inlineChildren)
    private func isSortedQuickly(_ node: Node, by ordering: TreeQuery.Index) -> Bool {
        guard node.childCount <= limits.inlineChildren else { return false }
        var left = limits.inlineTextBytes
        for (key, child) in node.children {
            guard case .string(let text) = ordering.place(key, child).value.leaf else { continue }
            left -= text.utf8Count
            if left < 0 { return false }
        }
        return true
    }

    /// How many children ranges of an order select together, charged to the turn.
    /// - Returns: nil where that is `most` or more.
    func extent(_ ranges: [TreeQuery], in children: OrderedChildren, below most: Int) -> Int? {
        var sum = 0
        for range in ranges {
            let extent = range.extent(in: children)
            context.meter.spend(1 + children.stepsOfExtent / Self.stepsForWork)
            sum += extent.count
            if sum >= most { return nil }
        }
        return sum
    }

    /// Calls `resume` on the queue when the index of an order is ready, or with the reason why it will not be. It is built off the
    /// queue, once for all requests that wait.
    /// - Returns: why it cannot be kept; nil when `resume` will be called.
    func awaitIndex(_ ordering: TreeQuery.Index, at path: Path, over node: Node, _ resume: @escaping (Failure?) -> Void) -> Failure? {
        let awaited: KeptIndex
        if let known = places.existingPlace(at: path)?.existingIndex(ordering) {
            awaited = known
        } else {
            switch keep(ordering, at: path, over: node) {
            case .success(let made): awaited = made
            case .failure(let failure): return failure
            }
        }
        kept.use(awaited)
        awaited.waiting.append(resume)
        if !awaited.isBuilding { build(awaited, over: node) }
        return nil
    }

    /// A place for an index that is not there yet, if there is room for it.
    private func keep(_ ordering: TreeQuery.Index, at path: Path, over node: Node) -> Result<KeptIndex, Failure> {
        let made = KeptIndex(path, ordering, isDeclared: !isMissing(ordering, path), over: node)
        made.isOfMember = isOfMember(ordering, path)
        if made.isOfMember, !makeRoom(forMemberOf: made) { return .failure(.tooManyMembers(limits.membershipOrders)) }
        makeRoom(for: made.entries)
        guard kept.entries + made.entries <= limits.indexEntries else { return .failure(.tooManyIndexes) }
        if !made.isDeclared {
            guard kept.unindexedEntries + made.entries <= limits.indexEntries / 2,
                (places.existingPlace(at: path)?.indexes.count { !$0.isDeclared } ?? 0) < limits.unindexedOrders
            else { return .failure(.missingIndex(ordering, path)) }
        }
        places.place(at: path).add(made)
        kept.add(made)
        return .success(made)
    }

    /// Anybody may ask for any member of a set: their orders are few at a place, and half of all entries. Idle ones go first.
    private func makeRoom(forMemberOf made: KeptIndex) -> Bool {
        func isOneTooMany() -> Bool {
            kept.memberEntries + made.entries > limits.indexEntries / 2
                || (places.existingPlace(at: made.path)?.indexes.count { $0.isOfMember } ?? 0) >= limits.membershipOrders
        }
        var next = kept.oldest
        while isOneTooMany(), let idle = next {
            next = idle.newer
            if idle.isOfMember, idle.path == made.path || kept.memberEntries + made.entries > limits.indexEntries / 2 { drop(idle) }
        }
        return !isOneTooMany()
    }

    /// Whether an observer is charged for an order: no rule names it, or one line stands for as many as somebody makes up.
    func isCharged(_ ordering: TreeQuery.Index, _ path: Path) -> Bool { isMissing(ordering, path) || isOfMember(ordering, path) }

    private func isOfMember(_ ordering: TreeQuery.Index, _ path: Path) -> Bool {
        guard case .child = ordering else { return false }
        return content.rules.declaresIndex(ordering.text, at: path) == .asMember
    }

    private func makeRoom(for entries: Int) {
        while kept.entries + entries > limits.indexEntries, let oldest = kept.oldest { drop(oldest) }
    }

    // MARK: Building

    /// An index, and the children that it is of.
    private typealias Sorted = (index: OrderedIndex, node: Node)

    /// - Parameter earlier: where the index differs from one of an earlier state in less than half of the children, that is brought
    ///   up to date.
    private func build(_ index: KeptIndex, over node: Node, attempt: Int = 1, from earlier: Sorted? = nil) {
        index.isBuilding = true
        kept.change(index) { index.expected = node.childCount }
        if earlier == nil { context.meter.counters.childrenSorted += node.childCount }
        let ordering = index.ordering
        context.background.run(.upkeep) { [self] in
            var followed = earlier?.index
            if let earlier, followed?.follow(ordering, from: earlier.node, to: node, atMost: node.childCount / 2) != true { followed = nil }
            let sorted = followed ?? OrderedIndex(ordering, of: node)
            let isSortedAnew = earlier != nil && followed == nil
            context.queue.async { [self] in
                if isSortedAnew { context.meter.counters.childrenSorted += node.childCount }
                built(index, sorted, over: node, attempt)
            }
        }
    }

    private func built(_ index: KeptIndex, _ sorted: OrderedIndex, over node: Node, _ attempt: Int) {
        context.queue.assertCurrent()
        var sorted = sorted
        let now = content.root.node(at: index.path)
        guard sorted.follow(index.ordering, from: node, to: now, atMost: limits.followedChanges) else {
            if attempt < Self.buildingAttempts { return build(index, over: now, attempt: attempt + 1, from: (sorted, node)) }
            resumeWaiting(for: index, .changesTooFast)
            // A request asks again; live queries cannot.
            if index.views > 0 { build(index, over: now, from: (sorted, node)) } else { finishBuilding(index) }
            return
        }
        kept.change(index) { index.index = sorted }
        // A request that goes on may write the place as a whole: the index is not being built any more then, and must not go.
        index.isBuilding = false
        index.pins += 1
        show(index)
        onReady(index.path)
        resumeWaiting(for: index, nil)
        unpin(index)
        finishWork()
    }

    private func finishBuilding(_ index: KeptIndex) {
        index.isBuilding = false
        // Requests that have come in the meantime are served by another try.
        if index.index == nil, !index.waiting.isEmpty { build(index, over: content.root.node(at: index.path)) }
        if index.index == nil, !index.isBuilding { drop(index) } else { settle(index) }
        finishWork()
    }

    private func finishWork() {
        tend()
        durability.finishBatch()
    }

    private func resumeWaiting(for index: KeptIndex, _ failure: Failure?) {
        let waiting = index.waiting
        index.waiting = []
        for resume in waiting { resume(failure) }
    }

    /// Live queries whose place was written as a whole while it was large show what they select now.
    private func show(_ index: KeptIndex) {
        guard let owed = index.takeOwed(), let place = places.existingPlace(at: index.path) else { return }
        let node = content.root.node(at: index.path)
        for view in place.views(by: index.ordering) { view.shown.reset(over: node, at: place) }
        onShown(index.path, index.ordering, owed)
    }

    // MARK: Following commits

    /// The orders at a place and below it that live queries need. Those above are moved by one child only.
    /// O(places looked at, at most `inlineChildren`)
    func orders(within path: Path) -> PreparedOrders {
        var orders = PreparedOrders()
        places.forEach(within: path, over: content.root, atMost: limits.inlineChildren) { place, node in
            for index in place.indexes where index.views > 0 && !orders.isFull {
                guard let sorted = index.index else { continue }
                orders.add(place.path, index.ordering, sorted, of: node)
            }
        }
        return orders
    }

    /// Tells of a commit with the orders that were prepared for it.
    func use(_ orders: PreparedOrders, _ body: () -> Void) {
        prepared = orders
        body()
        prepared = PreparedOrders()
    }

    /// Takes an order over that was prepared for the commit.
    /// - Returns: false when there is none that is near enough.
    private func takePrepared(_ index: KeptIndex, over node: Node) -> Bool {
        guard !prepared.isEmpty, let former = index.index,
            let sorted = prepared.sorted(index.path, by: index.ordering, of: node, atMost: limits.inlineChildren)
        else { return false }
        kept.change(index) { index.index = sorted }
        context.release([former])
        return true
    }

    /// Brings a place's indexes up to date with children that a commit changed. O(indexes · changes · log n)
    func follow(_ changes: [ChildChange], at place: ObservedPlace) { kept.follow(changes, at: place) }

    /// After many children were changed at once: what is sorted is brought up to date beside the queue, and live queries show then
    /// what they select.
    func follow(_ place: ObservedPlace, from old: Node, to new: Node) {
        for index in place.indexes {
            // What is being built is brought up to date, or built again, when it comes back.
            guard let sorted = index.index, !takePrepared(index, over: new) else { continue }
            kept.use(index)
            kept.change(index) { index.index = nil }
            index.owe(since: old, content.sequence)
            build(index, over: new, from: (sorted, old))
        }
    }

    /// After a place was written as a whole: windows follow, at once or, where the index that they need is large, when it has
    /// been built anew. Indexes that are not used go.
    func rebuild(_ place: ObservedPlace, over node: Node, from old: Node) {
        for index in place.indexes { rebuild(index, over: node, from: old) }
        for view in place.views { view.shown.reset(over: node, at: place) }
    }

    /// - Parameter old: the content of which observers have been told, unless it waits to be told.
    private func rebuild(_ index: KeptIndex, over node: Node, from old: Node) {
        if index.isBuilding {
            // What is being built is brought up to date, or built again, when it comes back.
            kept.change(index) { index.index = nil }
            index.owe(since: old, content.sequence)
        } else if !index.isInUse {
            drop(index)
        } else if takePrepared(index, over: node) {
            return
        } else if isSortedQuickly(node, by: index.ordering) {
            kept.change(index) { index.index = OrderedIndex(index.ordering, of: node) }
            context.meter.counters.childrenSortedOnQueue += node.childCount
        } else {
            kept.change(index) { index.index = nil }
            index.owe(since: old, content.sequence)
            build(index, over: node)
        }
    }

    /// Brings indexes and windows in line with a tree that has gone back to an earlier state. The work follows what differs.
    func follow(from before: Node) {
        places.forEach(from: before, to: content.root) { [self] place, old, new in
            for index in place.indexes {
                index.rollBack(to: content.sequence)
                guard var sorted = index.index, sorted.follow(index.ordering, from: old, to: new, atMost: limits.followedChanges) else {
                    // What was told of what is taken back has not left.
                    rebuild(index, over: new, from: new)
                    continue
                }
                kept.change(index) { index.index = sorted }
            }
            for view in place.views { view.shown.reset(over: new, at: place) }
        }
    }

    /// The view of a query whose observer comes back; it shows what it selects when its index is there.
    func returningView(_ query: TreeQuery?, at path: Path) -> View {
        let place = places.place(at: path)
        guard let query else { return place.view(nil, lanes: context.lanes, window: nil) }
        let node = content.root.node(at: path)
        if query.orderedBy != .key, place.existingIndex(query.orderedBy) == nil {
            // It was there a moment ago: whether there is room is not asked.
            let made = KeptIndex(path, query.orderedBy, isDeclared: !isMissing(query.orderedBy, path), over: node)
            made.isOfMember = isOfMember(query.orderedBy, path)
            place.add(made)
            kept.add(made)
        }
        let view = place.view(
            query, lanes: context.lanes, window: place.children(of: node, by: query.orderedBy).map { QueryWindow(query, over: $0) })
        if let index = place.existingIndex(query.orderedBy) {
            kept.use(index)
            if index.index == nil, !index.isBuilding { rebuild(index, over: node, from: node) }
            if view.shown.all(of: node, at: place) == nil { view.shown.reset(over: node, at: place) }
        }
        return view
    }

    // MARK: Dropping

    /// An index was used, or is not needed any more: idle ones wait for their next use, but for those that no rule names.
    func settle(_ index: KeptIndex) {
        if index.isInUse { return kept.use(index) }
        if index.isDeclared { kept.rest(index, now: context.scheduler.steadyMs) } else { drop(index) }
    }

    /// The index stays until it is unpinned.
    func pin(_ index: KeptIndex) {
        kept.use(index)
        index.pins += 1
    }

    func unpin(_ index: KeptIndex) {
        index.pins -= 1
        settle(index)
    }

    private func drop(_ index: KeptIndex) {
        kept.remove(index)
        places.existingPlace(at: index.path)?.remove(index)
        places.prune(index.path)
    }

    /// Between requests: drops what has been idle for long, and makes room when indexes have grown with their places.
    func tend() {
        if kept.oldest != nil {
            let now = context.scheduler.steadyMs
            while let oldest = kept.oldest, now - oldest.usedAt >= limits.indexIdleMs { drop(oldest) }
        }
        if kept.entries > limits.indexEntries { shrink() }
        (context.meter.counters.indexes, context.meter.counters.indexEntries) = (kept.count, kept.entries)
    }

    /// Orders that no rule names and whose places have outgrown the namespace's memory end, the largest first.
    private func shrink() {
        makeRoom(for: 0)
        while kept.entries > limits.indexEntries {
            let inUse = kept.unindexed.values.filter { $0.views > 0 }
            guard let largest = inUse.max(by: { $0.entries < $1.entries }), let place = places.existingPlace(at: largest.path) else {
                return
            }
            for view in place.views(by: largest.ordering) {
                for (style, audience) in Array(view.audiences) + Array(view.suspended) {
                    for client in audience.lanes.joined() { cancel(view.observation(style), client) }
                }
            }
            if !largest.isDropped, largest.views > 0 { return }
        }
    }

    /// After a deploy: updates which indexes the rules declare.
    func recheckDeclarations() {
        var undeclared: [KeptIndex] = []
        places.forEach(over: content.root) { place, _ in
            for index in place.indexes {
                let isOfMember = isOfMember(index.ordering, place.path)
                if isOfMember != index.isOfMember { kept.change(index) { index.isOfMember = isOfMember } }
                guard index.isDeclared == isMissing(index.ordering, place.path) else { continue }
                kept.change(index) { index.isDeclared.toggle() }
                if !index.isDeclared, !index.isInUse { undeclared.append(index) }
            }
        }
        for index in undeclared { drop(index) }
    }

    /// Whether an order needs an index that no rule declares; key and priority order need none (contract §3.4).
    func isMissing(_ ordering: TreeQuery.Index, _ path: Path) -> Bool {
        switch ordering {
        case .key, .priority: false
        case .value, .child: content.rules.declaresIndex(ordering.text, at: path) == nil
        }
    }
}

extension Failure {
    static func missingIndex(_ ordering: TreeQuery.Index, _ path: Path) -> Failure {
        Failure(.missingIndex, "Index not defined, add \".indexOn\": \"\(ordering.text)\", for path \"\(path)\", to the rules")
    }

    fileprivate static func tooManyMembers(_ most: Int) -> Failure {
        Failure(.tooBig, "The hub keeps orders of at most \(most) members of a set at one place, and so many together as it has room for.")
    }

    static let tooManyIndexes = Failure(
        .tooBig, "The namespace keeps as many indexes as it may; observe fewer children in this order, or by key.")
    static let changesTooFast = Failure(.unavailable, "The place is written as a whole faster than it can be sorted; ask again.")
}
