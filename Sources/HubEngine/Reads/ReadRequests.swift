import JSONTree
import LiveQueries
import Synchronization

struct Selection: Sendable {
    let value: Node
    /// Nil for a live query.
    let window: QueryWindow?
    /// Number of selected children.
    let count: Int
    /// Charges the value's children to the memory budget, if there are many, until the value is encoded.
    var hold: MemoryLease?
}

/// Handles reads and query results. A query is answered at once if its index exists and its result is small. Otherwise the request is suspended while
/// an index is built or a large result is collected off the queue. Writes made meanwhile are then applied to the result. So an answer is never older
/// than what its client has been sent.
///
/// Confined to the database queue.
final class ReadRequests: @unchecked Sendable {
    // Sendable: background work that captures it only returns to the queue.
    private let context: EngineContext
    private let content: Content
    private let places: PlaceTrie
    private let indexes: IndexStore
    private let permissions: ReadPermissions
    private let suspendedRequests: SuspendedRequests
    private let answers: Answers
    private let live: LiveReads
    private let explanations: QueryExplanations

    init(
        _ context: EngineContext, _ content: Content, _ places: PlaceTrie, _ indexes: IndexStore, _ permissions: ReadPermissions,
        _ suspendedRequests: SuspendedRequests, _ answers: Answers, _ live: LiveReads
    ) {
        self.context = context
        self.content = content
        self.places = places
        self.indexes = indexes
        self.permissions = permissions
        self.suspendedRequests = suspendedRequests
        self.answers = answers
        self.live = live
        explanations = QueryExplanations(
            context: context, content: content, indexes: indexes, queried: live.places, permissions: permissions)
    }

    private var limits: EngineLimits { context.limits }

    private static let selectingAttempts = 3

    /// Answers a get. `reply` wraps the value; REST passes its own.
    func get(_ path: Path, _ asked: Query?, _ item: SubmittedRequest, as reply: @escaping @Sendable (Node) -> Reply = { .value($0) }) {
        let client = item.client
        var query = asked
        switch asked.map({ permissions.located($0, at: path, for: client) }) {
        case .failure(let failure)?: return answers.answer(.failed(failure), item)
        case .success(let located)?: query = located
        case nil: break
        }
        if isTooLong(query) { return answers.answer(.failed(.queryTooLong(limits.queryBytes)), item) }
        guard permissions.allowsRead(path, query, client) else { return answers.answer(.failed(.permissionDenied), item) }
        guard let query else {
            if case .get = item.request, answers.answer(contentAt: path, of: content.root, item) { return }
            return answers.answer(explained(reply(content.root.node(at: path)), nil, at: path, item), item)
        }
        guard !lacksIndex(query, path, client) else { return answers.answer(.failed(.missingIndex(query.tree.orderedBy, path)), item) }
        select(query, at: path, for: item, countsOnly: false) { [self] result, isLater in
            if isLater {
                if client.isGone.load(ordering: .relaxed) { return }
                guard permissions.allowsRead(path, query, client) else { return answers.answer(.failed(.permissionDenied), item) }
            }
            switch result {
            case .success(let selection):
                // An object has no order, so the observe protocol sends the order separately.
                let answer = client.dialect == .observe ? .selected(selection.value, query) : reply(selection.value)
                answers.answer(explained(answer, query, at: path, item), item, holding: selection.hold)
            case .failure(let failure): answers.answer(.failed(failure), item)
            }
        }
    }

    /// Answers the number of children of a place, or of a query's result. Visits and copies none of them.
    func count(
        _ path: Path, _ asked: Query?, _ item: SubmittedRequest, as reply: @escaping @Sendable (Int) -> Reply = { .counted($0) }
    ) {
        let client = item.client
        var query = asked
        switch asked.map({ permissions.located($0, at: path, for: client) }) {
        case .failure(let failure)?: return answers.answer(.failed(failure), item)
        case .success(let located)?: query = located
        case nil: break
        }
        query = permissions.counted(query, at: path, for: client)
        if isTooLong(query) { return answers.answer(.failed(.queryTooLong(limits.queryBytes)), item) }
        guard permissions.allowsCount(path, query, client) else { return answers.answer(.failed(.permissionDenied), item) }
        if let failure = permissions.noteCount(of: path, client) { return answers.answer(.failed(failure), item) }
        guard let query else {
            return answers.answer(explained(reply(content.root.node(at: path).childCount), nil, .count, at: path, item), item)
        }
        guard !lacksIndex(query, path, client) else { return answers.answer(.failed(.missingIndex(query.tree.orderedBy, path)), item) }
        select(query, at: path, for: item, countsOnly: true) { [self] result, isLater in
            if isLater {
                if client.isGone.load(ordering: .relaxed) { return }
                guard permissions.allowsCount(path, query, client) else { return answers.answer(.failed(.permissionDenied), item) }
            }
            switch result {
            case .success(let selection):
                answers.answer(explained(reply(selection.count), query, .count, at: path, item), item)
            case .failure(let failure): answers.answer(.failed(failure), item)
            }
        }
    }

    /// The answer to a request, with the explanation of its query if requested.
    func explained(
        _ reply: Reply, _ query: Query?, _ showing: LiveQueryView.Showing = .children, at path: Path, isHeld: Bool = false,
        _ item: SubmittedRequest
    ) -> Reply {
        explanations.explained(reply, query, showing, at: path, isHeld: isHeld, item)
    }

    /// True if a get is refused because the rules declare no index. Always so for the SDKs and REST (contract §3.4). Observe clients are refused only
    /// for places too large to be observed in such an order.
    private func lacksIndex(_ query: Query, _ path: Path, _ client: Client) -> Bool {
        // A query with conditions can use another index than that of its order.
        guard let query = query.plain else { return false }
        guard indexes.isMissing(query.orderedBy, path) else { return false }
        return client.dialect != .observe || content.root.node(at: path).childCount > limits.unindexedChildren
    }

    func isTooLong(_ query: Query?) -> Bool { query.map { $0.textBytes > limits.queryBytes } ?? false }

    // MARK: Queries

    /// Calls back with the current result of a query, for a single read.
    private func select(
        _ query: Query, at path: Path, for item: SubmittedRequest, countsOnly: Bool,
        _ done: @escaping @Sendable (Result<Selection, Failure>, _ isLater: Bool) -> Void
    ) {
        if query.isPlain { return select(query.tree, at: path, for: item, mustKeep: false, countsOnly: countsOnly, done) }
        live.find(query, countsOnly ? .count : .children, at: path, for: item) { [live] result, isLater in
            done(result.flatMap { view in live.selection(of: view).map { .success($0) } ?? .failure(.changesTooFast) }, isLater)
        }
    }

    /// Calls back on the queue with the current result of a query: at once, or with `isLater` after the request was suspended.
    /// - Parameters:
    ///   - mustKeep: true for an observer, whose index must stay.
    ///   - countsOnly: true if the selection needs no value.
    func select(
        _ query: TreeQuery, at path: Path, for item: SubmittedRequest, mustKeep: Bool, countsOnly: Bool = false,
        _ done: @escaping @Sendable (Result<Selection, Failure>, _ isLater: Bool) -> Void
    ) {
        select(PendingSelect(query: query, path: path, item: item, mustKeep: mustKeep, countsOnly: countsOnly, done: done))
    }

    /// Holds the suspended request that waits for an index. Used on the database queue only.
    private final class Waiting {
        var suspendedRequest: SuspendedRequest?
    }

    /// A request for the result of a query, while it is computed.
    private struct PendingSelect: Sendable {
        let query: TreeQuery
        let path: Path
        let item: SubmittedRequest
        let mustKeep: Bool
        let countsOnly: Bool
        let done: @Sendable (Result<Selection, Failure>, Bool) -> Void
        /// An index of a past state, for this request alone, used if the limits do not allow keeping one.
        var own: Own?
        var attempt = 0
        var isLater = false
    }

    private struct Own: Sendable {
        var index: OrderedIndex
        let node: Node
        /// Charges the index to the memory budget.
        let hold: MemoryLease
    }

    /// Memory of one collected child: its position in the order, its key and its value.
    static let bytesOfSelected = MemoryLayout<OrderedChild>.stride + MemoryLayout<(Key, Node)>.stride

    private func select(_ selecting: PendingSelect) {
        let (query, path) = (selecting.query, selecting.path)
        let node = content.root.node(at: path)
        if var own = selecting.own {
            guard own.index.follow(from: own.node, to: node, atMost: limits.followedChanges) else {
                return again(selecting)
            }
            return select(selecting, of: node, from: .indexed(own.index, of: node.children))
        }
        switch indexes.order(node, at: path, by: query.orderedBy, mustKeep: selecting.mustKeep) {
        case .success(let children)?: select(selecting, of: node, from: children)
        case .failure(let failure)?: selecting.done(.failure(failure), selecting.isLater)
        case nil: sort(selecting, node)
        }
    }

    /// Suspends the request until its order is ready.
    private func sort(_ selecting: PendingSelect, _ node: Node) {
        let (item, ordering) = (selecting.item, selecting.query.orderedBy)
        // Set once the index is awaited. A request that runs again after a rollback waits with a new object.
        let waiting = Waiting()
        let failure = indexes.awaitIndex(ordering, at: selecting.path, over: node) { [self] failure in
            guard let suspended = waiting.suspendedRequest else { return }
            suspendedRequests.resumeSuspended(suspended, item.client) {
                var selecting = selecting
                selecting.isLater = true
                if let failure { selecting.done(.failure(failure), true) } else { select(selecting) }
            }
        }
        guard let failure else {
            waiting.suspendedRequest = suspendedRequests.suspend(item)
            return
        }
        if selecting.mustKeep { return selecting.done(.failure(failure), selecting.isLater) }
        context.meter.counters.childrenSorted += node.childCount
        suspendedRequests.suspend(item) { [collected = context.collected] () -> Own? in
            let hold = MemoryLease(collected, for: .answers)
            guard hold.grow(by: node.childCount * OrderedIndex.bytesOfEntry) else { return nil }
            return Own(index: OrderedIndex(ordering, of: node), node: node, hold: hold)
        } then: { [self] own in
            guard let own else { return selecting.done(.failure(.noRoomForQuery), true) }
            var selecting = selecting
            selecting.isLater = true
            selecting.own = own
            select(selecting)
        }
    }

    private func select(_ selecting: PendingSelect, of node: Node, from children: OrderedChildren) {
        let query = selecting.query
        var found: Selection?
        if selecting.countsOnly {
            var window = QueryWindow(query, over: children)
            let count = window.countShown(over: children)
            found = Selection(value: .null, window: window, count: count)
        } else if let few = query.select(from: children, atMost: limits.inlineChildren) {
            context.meter.spend(few.count / RequestCost.childrenForWork)
            found = Selection(value: TreeQuery.value(of: few, in: node), window: QueryWindow(query, showing: few), count: few.count)
        }
        if let found {
            selecting.done(.success(found), selecting.isLater)
            if selecting.mustKeep, let index = index(selecting) { indexes.settle(index) }
            return
        }
        suspendedRequests.suspend(selecting.item) { [collected = context.collected] () -> Selection? in
            let selected = query.select(from: children)
            let hold = MemoryLease(collected, for: .answers)
            let copied = TreeQuery.copiedBytes(of: selected, in: node)
            guard hold.grow(by: selected.count * Self.bytesOfSelected + copied) else { return nil }
            return Selection(
                value: TreeQuery.value(of: selected, in: node), window: QueryWindow(query, showing: selected), count: selected.count,
                hold: hold)
        } then: { [self] selection in
            guard let selection else { return selecting.done(.failure(.noRoomForQuery), true) }
            var selecting = selecting
            selecting.isLater = true
            if case .indexed(let index, _) = children, let own = selecting.own {
                selecting.own = Own(index: index, node: node, hold: own.hold)
            }
            catchUp(selecting, selection, node)
        }
        suspendedRequests.pin(index(selecting), for: selecting.item.client)
    }

    private func index(_ selecting: PendingSelect) -> ChildIndex? {
        places.existingPlace(at: selecting.path)?.existingIndex(selecting.query.orderedBy)
    }

    /// Updates a selection with the writes made since it was computed.
    private func catchUp(_ selecting: PendingSelect, _ selection: Selection, _ node: Node) {
        let query = selecting.query
        let now = content.root.node(at: selecting.path)
        if now.isIdentical(to: node) { return selecting.done(.success(selection), true) }
        let before = node.children
        let children: OrderedChildren
        if var own = selecting.own {
            guard own.index.follow(from: own.node, to: now, atMost: limits.followedChanges) else {
                return again(selecting)
            }
            children = .indexed(own.index, of: now.children)
        } else {
            guard let known = places.existingPlace(at: selecting.path)?.children(of: now, by: query.orderedBy) ?? byKey(query, now) else {
                return again(selecting)
            }
            children = known
        }
        guard let changes = now.children.changes(since: before, atMost: limits.followedChanges) else {
            return again(selecting)
        }
        guard var window = selection.window else { return again(selecting) }
        let moved = changes.map { change in
            PlacedChild(
                key: change.key, old: change.old.map { query.orderedBy.place(change.key, $0) },
                new: change.new.map { query.orderedBy.place(change.key, $0) })
        }
        let difference = window.apply(Array(moved), over: children)
        var value = selection.value
        for key in difference.left { value.set(.null, at: Path([key])) }
        for key in difference.entered + difference.stayed { value.set(now.child(key), at: Path([key])) }
        selecting.done(.success(Selection(value: value, window: window, count: value.childCount, hold: selection.hold)), true)
    }

    private func byKey(_ query: TreeQuery, _ node: Node) -> OrderedChildren? {
        query.orderedBy == .key ? .byKey(node.children) : nil
    }

    /// Starts again after too many writes.
    private func again(_ selecting: PendingSelect) {
        guard selecting.attempt < Self.selectingAttempts else { return selecting.done(.failure(.changesTooFast), true) }
        var selecting = selecting
        selecting.attempt += 1
        selecting.own = nil
        select(selecting)
    }
}

extension Failure {
    static func queryTooLong(_ limit: Int) -> Failure {
        Failure(.tooBig, "The bounds and the order of a query may have \(limit) bytes together.")
    }

    static let noRoomForQuery = Failure(
        .unavailable, "The server has no memory left for the result of a query of this size at the moment; try again.")
}
