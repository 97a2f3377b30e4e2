import JSONTree
import LiveQueries

/// Explains queries with the plan that would be chosen for the current content. Confined to the database queue.
struct QueryExplanations {
    let context: EngineContext
    let content: Content
    let indexes: IndexStore
    let queried: QuerySetStore
    let permissions: ReadPermissions

    /// The answer to a request, with the explanation if it was requested. REST cannot send both, so it gets only the explanation.
    func explained(
        _ reply: Reply, _ query: Query?, _ showing: LiveQueryView.Showing, at path: Path, isHeld: Bool = false, _ item: SubmittedRequest
    ) -> Reply {
        guard item.request.isExplained else { return reply }
        let explanation = explanation(of: query, showing, at: path, isHeld: isHeld, for: item.client)
        if case .exchange = item.request { return .exchanged(Exchanged(content: explanation.node)) }
        return .explained(reply, explanation)
    }

    /// O(conditions · log n)
    private func explanation(
        of query: Query?, _ showing: LiveQueryView.Showing, at path: Path, isHeld: Bool, for client: Client
    ) -> QueryExplanation {
        context.meter.spend(1)
        guard permissions.mayRead(path, nil, client, in: content.root) else {
            return QueryExplanation(isDeclared: isDeclared(query, at: path))
        }
        let node = content.root.node(at: path)
        var found = start(of: query, showing, at: path, over: node)
        found.children = node.childCount
        if isHeld, let query, !query.isPlain {
            found.held = place(at: path)?.view(of: query, showing)?.live?.view.held
        }
        return found
    }

    /// What the rules alone declare for a query, whatever the data.
    private func isDeclared(_ query: Query?, at path: Path) -> Bool {
        guard let query else { return true }
        return query.isPlain ? !indexes.isMissing(query.tree.orderedBy, path) : LivePlan.isDeclared(query, at: path, indexes)
    }

    /// Nil while a background thread owns the queries.
    private func place(at path: Path) -> ObservedQuerySet? { queried[path].flatMap { $0.isInBackground ? nil : $0 } }

    private func start(of query: Query?, _ showing: LiveQueryView.Showing, at path: Path, over node: Node) -> QueryExplanation {
        func named(_ start: QueryExplanation.Start, _ ordering: TreeQuery.Index, visits: Int?) -> QueryExplanation {
            QueryExplanation(start: start, index: ordering.text, isDeclared: !indexes.isMissing(ordering, path), visits: visits)
        }
        guard let query else { return QueryExplanation(start: .place) }
        if let query = query.plain {
            let order = try? indexes.order(node, at: path, by: query.orderedBy, mustKeep: false)?.get()
            return named(.order, query.orderedBy, visits: order.map { query.extent(in: $0).count })
        }
        let queried = place(at: path)
        // Otherwise the points are being collected.
        guard !query.hasArea || queried?.queries.index != nil else { return QueryExplanation(start: .points, index: ".geoIndex") }
        func plan() -> Result<LivePlan.Answer, Failure> {
            LivePlan.find(
                query, showing, at: path, over: node, indexes, points: queried?.queries.index, context.limits, mustKeep: false)
        }
        switch queried.map({ self.queried.metered($0, plan) }) ?? plan() {
        case .success(.ready(let plan)):
            switch plan.start {
            case .index(let ordering, _, _): return named(.index, ordering, visits: plan.visits)
            case .order: return named(.order, query.tree.orderedBy, visits: plan.visits)
            case .points: return QueryExplanation(start: .points, index: ".geoIndex", visits: plan.visits)
            case .all: return QueryExplanation(start: .children, visits: plan.visits)
            }
        case .success(.waits(let ordering)): return named(ordering == query.tree.orderedBy ? .order : .index, ordering, visits: nil)
        case .failure: return QueryExplanation(start: .children)
        }
    }
}
