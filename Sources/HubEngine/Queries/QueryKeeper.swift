import JSONTree
import LiveQueries

/// Has live queries follow what is written at their places: at once where a commit changes few children, else beside the queue.
///
/// ```
/// commit ── few children ──► PromptChanges: views concerned ─► told
///    └── many, or the place as a whole ─► LentQueries: in the background ─► told ─► what was written meanwhile
/// a view that shows fewer than there may be ─► QueryFilling: looks on, a part in each turn ─► told when it shows all
/// the tree goes back ─► QueryReturn: views go back with it, or end
/// ```
/// `QueriedPlaces` knows the places, `PlacePoints` where their children are, `QueryTelling` what observers are told. Confined to the
/// database queue.
final class QueryKeeper {
    private let content: Content
    let places: QueriedPlaces
    let points: PlacePoints
    let telling: QueryTelling
    private let filling: QueryFilling
    private let prompt: PromptChanges
    private let lent: LentQueries
    private let undoing: QueryReturn

    init(
        _ context: EngineContext, _ content: Content, _ observed: PlaceTrie, _ indexes: IndexKeeper, _ batch: Batch,
        _ durability: DurabilityLine
    ) {
        self.content = content
        places = QueriedPlaces(context, observed, indexes, durability)
        points = PlacePoints(context, content, places)
        telling = QueryTelling(context, content, places, batch)
        filling = QueryFilling(context, content, places, telling)
        prompt = PromptChanges(context, places, telling, filling)
        lent = LentQueries(context, content, observed, places, telling, filling, prompt)
        undoing = QueryReturn(context, content, observed, places, filling)
        lent.onUndone = { [undoing] in undoing.endAll($0, .takenBack) }
    }

    /// Takes a view in that was found for the place as it is now.
    func add(_ view: LiveQueryView, at place: QueriedPlace) -> View {
        if let known = place.view(of: view) { return known }
        defer { filling.fillLater(place) }
        return places.add(view, at: place)
    }

    /// Moves the views of a place along with a commit.
    /// - Parameters:
    ///   - children: that it has changed; nil when they are many, or when the place was written as a whole.
    ///   - told: is called for each view of which its observers are told something.
    func follow(
        _ place: QueriedPlace, _ children: [ChildChange]?, from old: Node, to new: Node,
        _ told: (View, LiveChange) -> Void
    ) {
        if place.isLent { return }
        filling.relist(place)
        guard let writes = prompt.writes(children, from: old, to: new, at: place) else { return lent.lend(place, told: old) }
        prompt.apply(writes, at: place, over: new, told)
    }

    /// An order of a place is there again: views that wait for it look on.
    func goOn(at path: Path) { if let place = places[path] { filling.goOn(place) } }

    /// The tree has gone back to an earlier state. What is known of the queries' observers goes back with it, where nothing was still to
    /// be told; else they end.
    func follow(from before: Node) { undoing.follow(from: before) }

    /// Ends all observers of a place's live queries: what they were told was taken back.
    func endAll(at path: Path) { if let place = places[path] { undoing.endAll(place, .takenBack) } }

    /// After a deploy: points that are declared otherwise are of no use any more, nor are the circles that rest on them.
    func recheckDeclarations() {
        for place in places.all {
            guard let index = place.queries.index, index.fields != content.rules.geoFields(at: place.path) else { continue }
            undoing.endAll(place, .missingPoints(place.path))
        }
    }
}
