public import JSONTree
import LiveQueries

/// From where the children of a query are looked for, for those who ask (`explain`).
public struct QueryExplanation: Sendable, Equatable {
    public enum Start: String, Sendable {
        /// No query: the place as it is.
        case place
        /// An index of the rules, by a condition.
        case index
        /// The order of the query.
        case order
        /// Where the children are: `.geoIndex`.
        case points
        /// Every child.
        case children
    }

    /// Nil for who may not read the place as a whole: which start promises the fewest tells of children that the query need not show.
    public var start: Start?
    /// The name of the index or the order, such as `a/b`, `.key` or `.geoIndex`.
    public var index: String?
    /// Whether the rules have a line for it; without a start, for the order of the query or one of its conditions.
    public var isDeclared = true
    /// Children that are looked at, about; nil where that is not known yet.
    public var looks: Int?
    /// Children of the place.
    public var children: Int?
    /// Children that are held for an observer.
    public var held: Int?

    /// As it is told. Without a start nothing is told that depends on the data.
    public var node: Node {
        guard let start else { return .object([(Key("declared"), Node.bool(isDeclared))]) }
        var members: [(Key, Node)] = [("start", .string(Text(start.rawValue)))]
        if let index { members.append(("index", .string(Text(index)))) }
        if !isDeclared { members.append(("declared", .bool(false))) }
        for (name, number) in [("looks", looks), ("children", children), ("held", held)] as [(Key, Int?)] {
            if let number { members.append((name, .int(Int64(number)))) }
        }
        return .object(members)
    }
}

/// Explains queries: by the same choice that is made for them, on the content as it is then. Confined to the database queue.
struct QueryExplanations {
    let context: EngineContext
    let content: Content
    let indexes: IndexKeeper
    let queried: QueriedPlaces
    let permissions: ReadPermissions

    /// The answer to a request, with what its query started from where it asks for that: REST has no place for both.
    func explained(
        _ reply: Reply, _ query: ChildQuery?, _ showing: LiveQueryView.Showing, at path: Path, isHeld: Bool = false, _ item: Database.Item
    ) -> Reply {
        guard item.request.isExplained else { return reply }
        let explanation = explanation(of: query, showing, at: path, isHeld: isHeld, for: item.client)
        if case .exchange = item.request { return .exchanged(Exchanged(content: explanation.node)) }
        return .explained(reply, explanation)
    }

    /// O(conditions · log n)
    private func explanation(
        of query: ChildQuery?, _ showing: LiveQueryView.Showing, at path: Path, isHeld: Bool, for client: Client
    ) -> QueryExplanation {
        context.meter.spend(1)
        guard permissions.mayRead(path, nil, client, in: content.root) else {
            return QueryExplanation(isDeclared: isDeclared(query, at: path))
        }
        let node = content.root.node(at: path)
        var found = start(of: query, showing, at: path, over: node)
        found.children = node.childCount
        if isHeld, case .live(let live)? = query {
            found.held = (place(at: path)?.view(of: live, showing)?.shown as? LiveQueryShown)?.view.held
        }
        return found
    }

    /// What the rules alone say of a query, whatever there is.
    private func isDeclared(_ query: ChildQuery?, at path: Path) -> Bool {
        switch query {
        case nil: true
        case .window(let query)?: !indexes.isMissing(query.orderedBy, path)
        case .live(let query)?: LivePlan.isDeclared(query, at: path, indexes)
        }
    }

    /// Nil while its queries are another thread's.
    private func place(at path: Path) -> QueriedPlace? { queried[path].flatMap { $0.isLent ? nil : $0 } }

    private func start(of query: ChildQuery?, _ showing: LiveQueryView.Showing, at path: Path, over node: Node) -> QueryExplanation {
        func named(_ start: QueryExplanation.Start, _ ordering: TreeQuery.Index, looks: Int?) -> QueryExplanation {
            QueryExplanation(start: start, index: ordering.text, isDeclared: !indexes.isMissing(ordering, path), looks: looks)
        }
        switch query {
        case nil: return QueryExplanation(start: .place)
        case .window(let query)?:
            let order = try? indexes.order(node, at: path, by: query.orderedBy, mustKeep: false)?.get()
            return named(.order, query.orderedBy, looks: order.map { query.extent(in: $0).count })
        case .live(let query)?:
            let queried = place(at: path)
            // Else they are being collected.
            guard query.near == nil || queried?.queries.index != nil else { return QueryExplanation(start: .points, index: ".geoIndex") }
            func plan() -> Result<LivePlan.Answer, Failure> {
                LivePlan.find(
                    query, showing, at: path, over: node, indexes, points: queried?.queries.index, context.limits, mustKeep: false)
            }
            switch queried.map({ self.queried.metered($0, plan) }) ?? plan() {
            case .success(.ready(let plan)):
                switch plan.start {
                case .index(let ordering, _, _): return named(.index, ordering, looks: plan.looks)
                case .order: return named(.order, query.tree.orderedBy, looks: plan.looks)
                case .points: return QueryExplanation(start: .points, index: ".geoIndex", looks: plan.looks)
                case .all: return QueryExplanation(start: .children, looks: plan.looks)
                }
            case .success(.waits(let ordering)): return named(ordering == query.tree.orderedBy ? .order : .index, ordering, looks: nil)
            case .failure: return QueryExplanation(start: .children)
            }
        }
    }
}
