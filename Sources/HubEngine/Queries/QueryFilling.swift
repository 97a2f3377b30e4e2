import JSONTree
import LiveQueries

/// Views that show fewer than there may be look on, a part in each turn, and their observers are told when they show all.
///
/// ```
/// fillLater ─► a turn: some views look on ─► told ─┬─► all shown: requests that waited look again
///     ▲            └─ their order is not there: they wait for it (goOn)
///     └──────────────────────────────── others ────┘
/// ```
/// Confined to the database queue.
final class QueryFilling: @unchecked Sendable {
    // Sendable: only hops back to the queue.
    private let context: EngineContext
    private let content: Content
    private let places: QueriedPlaces
    private let telling: QueryTelling

    /// Views that look for more children in one turn.
    static let filledAtOnce = 4

    init(_ context: EngineContext, _ content: Content, _ places: QueriedPlaces, _ telling: QueryTelling) {
        self.context = context
        self.content = content
        self.places = places
        self.telling = telling
    }

    func fillLater(_ place: QueriedPlace) {
        if place.isFilling || place.isLent || !place.queries.hasUnfilled { return }
        place.isFilling = true
        context.queue.async { [self, place = Lent(place)] in fill(place.value) }
    }

    private func fill(_ place: QueriedPlace) {
        context.queue.assertCurrent()
        place.isFilling = false
        guard places.contains(place), !place.isLent else { return }
        let node = content.root.node(at: place.path)
        let orders = places.orders(place, over: node)
        for query in place.queries.takeUnfilled(atMost: Self.filledAtOnce) {
            if let ordering = query.query.keptOrder, orders(ordering) == nil {
                place.unordered.append(query)
                continue
            }
            context.meter.spend(context.limits.windows.visits / RequestLoop.childrenForWork)
            let wasShort = query.isShort
            let change = place.queries.fill(query, over: node, in: orders)
            if wasShort { telling.tellLater(at: place) }
            telling.tell(query, change, at: place, of: node) { telling.onChanged($0, $1, node, content.sequence) }
        }
        places.weigh(place)
        fillLater(place)
        telling.tellAll(place)
        places.resumeWaiting(place)
        places.finishWork()
    }

    /// An order of a place is there again: views that wait for it look on.
    func goOn(_ place: QueriedPlace) {
        if place.isLent { return }
        relist(place)
        fillLater(place)
    }

    /// Views that waited for an order look whether it is there.
    func relist(_ place: QueriedPlace) {
        if place.unordered.isEmpty { return }
        for view in place.takeUnordered() { place.queries.listUnfilled(view) }
    }
}
