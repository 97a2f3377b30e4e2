import JSONTree
import Scheduling
import SecurityRules

/// Builds indexes on demand, in the background if they are large. Keeps them while they are used. Drops them when they have been idle for
/// `indexIdleMs`, or when others need the space.
///
/// Confined to the database queue.
final class IndexStore: @unchecked Sendable {
    // Sendable: background work that captures it only returns to the queue.
    private let context: EngineContext
    private let content: Content
    private let places: PlaceTrie
    private let durability: DurabilityQueue
    private var kept = IndexUsage()
    /// Orders that were updated in the background for the commit whose observers are being notified.
    private var prepared = PreparedOrders()
    /// Called when an index has been rebuilt. The live queries of that place and order now show their result, which their observers must receive.
    var onResultReady: (Path, TreeQuery.Index, DeferredUpdate) -> Void = { _, _, _ in }
    /// Called when an index is ready, for the first time or again.
    var onReady: (Path) -> Void = { _ in }
    /// Cancels an observer for whose index there is no space.
    var cancel: (Observation, Client) -> Void = { _, _ in }

    init(_ context: EngineContext, _ content: Content, _ places: PlaceTrie, _ durability: DurabilityQueue) {
        self.context = context
        self.content = content
        self.places = places
        self.durability = durability
    }

    private var limits: EngineLimits { context.limits }

    /// Orders of fewer children are not kept: sorting them for each answer costs as little.
    private static let fewestKept = 64
    /// Sorted children, and steps through an order's parts, that cost as much as one small request.
    private static let sortedForWork = 4
    private static let stepsForWork = 500
    /// Tries to build an index before waiting requests fail, and ms until it is tried again for live queries.
    private static let buildingTries = 3
    private static let buildingPauseMs: Int64 = 1_000

    // MARK: Lookup

    /// The children of a place in an order, if available at once.
    /// - Parameters:
    ///   - mustKeep: set for an observer. The caller then calls `settle`; a failure says why the index cannot be kept.
    func order(_ node: Node, at path: Path, by ordering: TreeQuery.Index, mustKeep: Bool) -> Result<OrderedChildren, Failure>? {
        if ordering == .key { return .success(.byKey(node.children)) }
        if let known = places.existingPlace(at: path)?.existingIndex(ordering), let index = known.index {
            if !mustKeep { settle(known) }
            return .success(.indexed(index, of: node.children))
        }
        guard isSortedQuickly(node, by: ordering) else { return nil }
        let known = places.existingPlace(at: path)?.existingIndex(ordering)
        // Another request is having it built; an observer waits for that one.
        if mustKeep, known != nil { return nil }
        let index = OrderedIndex(ordering, of: node)
        context.meter.counters.childrenSortedOnQueue += node.childCount
        context.meter.spend(node.childCount / Self.sortedForWork)
        if known != nil || (!mustKeep && node.childCount < Self.fewestKept) { return .success(.indexed(index, of: node.children)) }
        switch keep(ordering, at: path, over: node) {
        case .success(let made):
            kept.change(made) { made.index = index }
            if !mustKeep { settle(made) }
        case .failure(let failure): if mustKeep { return .failure(failure) }
        }
        return .success(.indexed(index, of: node.children))
    }

    /// True if sorting the children on the queue delays no other request: there are few, and little text to compare.
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

    /// How many children the ranges select together. Charges the cost to this turn.
    /// - Returns: nil if the count reaches `most`.
    func extent(_ ranges: [TreeQuery], in children: OrderedChildren, below most: Int) -> Int? {
        var sum = 0
        for range in ranges {
            let extent = range.extent(in: children)
            context.meter.spend(1 + children.extentSteps / Self.stepsForWork)
            sum += extent.count
            if sum >= most { return nil }
        }
        return sum
    }

    /// Calls `resume` on the queue when the index is ready, or with the failure. The index is built in the background, once for all waiting requests.
    /// - Returns: why the index cannot be kept, or nil if `resume` will be called.
    func awaitIndex(_ ordering: TreeQuery.Index, at path: Path, over node: Node, _ resume: @escaping (Failure?) -> Void) -> Failure? {
        let awaited: ChildIndex
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
        if !awaited.isBuilding { build(awaited) }
        return nil
    }

    /// Creates the entry for a missing index, if the limits allow it.
    private func keep(_ ordering: TreeQuery.Index, at path: Path, over node: Node) -> Result<ChildIndex, Failure> {
        let made = ChildIndex(path, ordering, isDeclared: !isMissing(ordering, path), over: node)
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

    /// Clients choose the members of a set freely. So their orders are limited per place, and to half of all entries. Drops idle ones first.
    private func makeRoom(forMemberOf made: ChildIndex) -> Bool {
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

    /// True if observers pay for the order: no rule names it, or one rule line covers any number of members.
    func isCharged(_ ordering: TreeQuery.Index, _ path: Path) -> Bool { isMissing(ordering, path) || isOfMember(ordering, path) }

    private func isOfMember(_ ordering: TreeQuery.Index, _ path: Path) -> Bool {
        guard case .child = ordering else { return false }
        return content.rules.declaresIndex(ordering.text, at: path) == .asMember
    }

    private func makeRoom(for entries: Int) {
        while kept.entries + entries > limits.indexEntries, let oldest = kept.oldest { drop(oldest) }
    }

    // MARK: Building

    /// An index, and the node whose children it sorts.
    private struct Sorted: Sendable {
        let index: OrderedIndex
        let node: Node
        /// True if the index of an earlier node was of no use.
        var isFromScratch = false
    }

    /// - Parameter earlier: an index of an earlier state. It is updated if it differs in less than half of the children.
    private func build(_ index: ChildIndex, from earlier: Sorted? = nil) {
        index.isBuilding = true
        let job = Job<Sorted>(tries: Self.buildingTries) { [self] earlier in
            let (node, ordering) = (content.root.node(at: index.path), index.ordering)
            kept.change(index) { index.expected = node.childCount }
            if earlier == nil { context.meter.counters.childrenSorted += node.childCount }
            return {
                if let earlier {
                    var followed = earlier.index
                    if followed.follow(from: earlier.node, to: node, atMost: node.childCount / 2) {
                        return Sorted(index: followed, node: node)
                    }
                }
                return Sorted(index: OrderedIndex(ordering, of: node), node: node, isFromScratch: earlier != nil)
            }
        } use: { [self] sorted in
            if sorted.isFromScratch { context.meter.counters.childrenSorted += sorted.node.childCount }
            return built(index, sorted)
        } giveUp: { [self] last in
            resumeWaiting(for: index, .changesTooFast)
            // Waiting requests have failed and can retry. Live queries cannot: it is built again for them, after a pause.
            guard index.views > 0 else { return finishBuilding(index) }
            context.later(ms: Self.buildingPauseMs) { [self] in
                if index.views > 0 { build(index, from: last) } else { finishBuilding(index) }
            }
        }
        job.run(in: context, from: earlier)
    }

    private func built(_ index: ChildIndex, _ built: Sorted) -> Job<Sorted>.Outcome {
        context.queue.assertCurrent()
        var sorted = built.index
        let now = content.root.node(at: index.path)
        guard sorted.follow(from: built.node, to: now, atMost: limits.followedChanges) else { return .behind(built) }
        kept.change(index) { index.index = sorted }
        // A resumed request may overwrite the place. The index no longer counts as being built then, so a pin protects it from being dropped.
        index.isBuilding = false
        index.pins += 1
        show(index)
        onReady(index.path)
        resumeWaiting(for: index, nil)
        unpin(index)
        finishWork()
        return .done
    }

    private func finishBuilding(_ index: ChildIndex) {
        index.isBuilding = false
        // Build again for requests that arrived meanwhile.
        if index.index == nil, !index.waiting.isEmpty { build(index) }
        if index.index == nil, !index.isBuilding { drop(index) } else { settle(index) }
        finishWork()
    }

    private func finishWork() {
        evictIdle()
        durability.finishBatch()
    }

    private func resumeWaiting(for index: ChildIndex, _ failure: Failure?) {
        let waiting = index.waiting
        index.waiting = []
        for resume in waiting { resume(failure) }
    }

    /// Shows the current result of live queries whose large place was overwritten.
    private func show(_ index: ChildIndex) {
        guard let update = index.takeDeferredUpdate(), let place = places.existingPlace(at: index.path) else { return }
        let node = content.root.node(at: index.path)
        for view in place.views(by: index.ordering) { view.shown.reset(over: node, at: place) }
        onResultReady(index.path, index.ordering, update)
    }

    // MARK: Updating after commits

    /// The orders at a place and below it that live queries need. Orders above it change by one child only, so they are left out. O(places visited,
    /// at most `inlineChildren`)
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

    /// Runs `body`, which notifies observers of a commit, with the orders prepared for that commit.
    func use(_ orders: PreparedOrders, _ body: () -> Void) {
        prepared = orders
        body()
        prepared = PreparedOrders()
    }

    /// Replaces an index by the order prepared for this commit.
    /// - Returns: false if none was prepared, or if it differs too much.
    private func takePrepared(_ index: ChildIndex, over node: Node) -> Bool {
        guard !prepared.isEmpty, let former = index.index,
            let sorted = prepared.sorted(index.path, by: index.ordering, of: node, atMost: limits.inlineChildren)
        else { return false }
        kept.change(index) { index.index = sorted }
        context.release([former])
        return true
    }

    /// Updates a place's indexes with the children that a commit changed. O(indexes · changes · log n)
    func follow(_ changes: [ChildChange], at place: TrieNode, from old: Node, to new: Node) {
        kept.follow(changes, at: place)
        for index in place.indexes where index.index?.isOutgrown == true { rebuild(index, over: new, from: old) }
    }

    /// Handles a commit that changed many children. Indexes are updated in the background; live queries show their result afterwards.
    func follow(_ place: TrieNode, from old: Node, to new: Node) {
        for index in place.indexes {
            // An index being built is updated, or built again, when it is finished.
            guard let sorted = index.index, !takePrepared(index, over: new) else { continue }
            kept.use(index)
            kept.change(index) { index.index = nil }
            index.deferUpdate(since: old, content.sequence)
            build(index, from: Sorted(index: sorted, node: old))
        }
    }

    /// Handles an overwritten place. Windows are reset at once, or after a large index that they need has been rebuilt. Drops unused indexes.
    func rebuild(_ place: TrieNode, over node: Node, from old: Node) {
        for index in place.indexes { rebuild(index, over: node, from: old) }
        for view in place.views { view.shown.reset(over: node, at: place) }
    }

    /// - Parameter old: the content that observers have seen, unless an earlier notification is still pending.
    private func rebuild(_ index: ChildIndex, over node: Node, from old: Node) {
        if index.isBuilding {
            // An index being built is updated, or built again, when it is finished.
            kept.change(index) { index.index = nil }
            index.deferUpdate(since: old, content.sequence)
        } else if !index.isInUse {
            drop(index)
        } else if takePrepared(index, over: node) {
            return
        } else if isSortedQuickly(node, by: index.ordering) {
            kept.change(index) { index.index = OrderedIndex(index.ordering, of: node) }
            context.meter.counters.childrenSortedOnQueue += node.childCount
        } else {
            kept.change(index) { index.index = nil }
            index.deferUpdate(since: old, content.sequence)
            build(index)
        }
    }

    /// Updates indexes and windows after a rollback. The cost is proportional to what differs.
    func follow(from before: Node) {
        places.forEach(from: before, to: content.root) { [self] place, old, new in
            for index in place.indexes {
                index.rollBack(to: content.sequence)
                guard var sorted = index.index, sorted.follow(from: old, to: new, atMost: limits.followedChanges) else {
                    // Notifications of the rolled-back commits were never sent.
                    rebuild(index, over: new, from: new)
                    continue
                }
                kept.change(index) { index.index = sorted }
            }
            for view in place.views { view.shown.reset(over: new, at: place) }
        }
    }

    /// The view of a query whose observer is restored. It shows its result once the index is ready.
    func restoredView(_ query: TreeQuery?, at path: Path) -> View {
        let place = places.place(at: path)
        guard let query else { return place.view(nil, lanes: context.lanes, window: nil) }
        let node = content.root.node(at: path)
        if query.orderedBy != .key, place.existingIndex(query.orderedBy) == nil {
            // The index existed a moment ago, so the limits are not checked.
            let made = ChildIndex(path, query.orderedBy, isDeclared: !isMissing(query.orderedBy, path), over: node)
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

    /// Call when an index was used or is no longer needed. An unused index becomes idle; one that no rule declares is dropped.
    func settle(_ index: ChildIndex) {
        if index.isInUse { return kept.use(index) }
        if index.isDeclared { kept.rest(index, now: context.scheduler.steadyMs) } else { drop(index) }
    }

    /// Keeps the index until it is unpinned.
    func pin(_ index: ChildIndex) {
        kept.use(index)
        index.pins += 1
    }

    func unpin(_ index: ChildIndex) {
        index.pins -= 1
        settle(index)
    }

    private func drop(_ index: ChildIndex) {
        kept.remove(index)
        places.existingPlace(at: index.path)?.remove(index)
        places.prune(index.path)
    }

    /// Runs between requests: drops indexes that were idle for too long, and shrinks when indexes have grown with their places.
    func evictIdle() {
        if kept.oldest != nil {
            let now = context.scheduler.steadyMs
            while let oldest = kept.oldest, now - oldest.usedAt >= limits.indexIdleMs { drop(oldest) }
        }
        if kept.entries > limits.indexEntries { shrink() }
        (context.meter.counters.indexes, context.meter.counters.indexEntries) = (kept.count, kept.entries)
    }

    /// Cancels the observers of undeclared orders, largest first, until the remaining indexes fit into the namespace's limit.
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

    /// Updates after a deploy which indexes the rules declare.
    func recheckDeclarations() {
        var undeclared: [ChildIndex] = []
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

    /// True if an order needs an index that no rule declares. Key and priority order need none (contract §3.4).
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

#if DEBUG
    extension IndexStore {
        func check(_ places: PlaceTrie, _ found: inout Invariants) {
            var all: [ChildIndex] = []
            places.forEach(over: content.root) { place, _ in all += place.indexes }
            found.check(kept.count, is: all.count, "indexes")
            found.check(kept.entries, is: all.reduce(0) { $0 + $1.entries }, "entries of indexes")
            found.check(kept.unindexedEntries, is: all.reduce(0) { $0 + ($1.isDeclared ? 0 : $1.entries) }, "entries without a rule")
            found.check(kept.memberEntries, is: all.reduce(0) { $0 + ($1.isOfMember ? $1.entries : 0) }, "entries of members")
            found.check(Set(kept.unindexed.keys), is: Set(all.filter { !$0.isDeclared }.map(ObjectIdentifier.init)), "indexes without a rule")
            var (next, last) = (kept.oldest, Int64.min)
            while let idle = next {
                found.check(!idle.isInUse, "an index in use is in the idle list: \(idle.path)")
                found.check(idle.usedAt >= last, "the idle list is not in the order of use")
                (next, last) = (idle.newer, idle.usedAt)
            }
        }
    }
#endif
