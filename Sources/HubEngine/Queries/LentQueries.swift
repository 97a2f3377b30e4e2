import JSONTree
import LiveQueries

/// Has the live queries of a place follow a large change beside the queue: they are lent to a background thread, and requests for them
/// wait until they are back.
///
/// ```
/// lend ─► all that differs, in the background ─► told ─► what was written meanwhile ─► few: followed, requests look again
///              ▲                                                  └─ many ┘
/// ```
/// Confined to the database queue.
final class LentQueries: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let observed: PlaceTrie
    private let places: QueriedPlaces
    private let telling: QueryTelling
    private let filling: QueryFilling
    private let prompt: PromptChanges
    /// The queries are back, and commits that they had followed were taken back meanwhile.
    var onUndone: (QueriedPlace) -> Void = { _ in }

    init(
        _ context: EngineContext, _ content: Content, _ observed: PlaceTrie, _ places: QueriedPlaces, _ telling: QueryTelling,
        _ filling: QueryFilling, _ prompt: PromptChanges
    ) {
        self.context = context
        self.content = content
        self.observed = observed
        self.places = places
        self.telling = telling
        self.filling = filling
        self.prompt = prompt
    }

    /// Lets the queries follow all that differs.
    /// - Parameter old: the content that observers were told of.
    func lend(_ place: QueriedPlace, told old: Node) {
        place.told = old
        follow(place, from: old)
    }

    private func follow(_ place: QueriedPlace, from old: Node) {
        let (new, sequence) = (content.root.node(at: place.path), content.sequence)
        let observed = observed.existingPlace(at: place.path)
        var orders: [TreeQuery.Index: OrderedChildren] = [.key: .byKey(new.children)]
        for index in observed?.indexes ?? [] { orders[index.ordering] = observed?.children(of: new, by: index.ordering) }
        context.meter.counters.liveQueriesLent += 1
        context.background.run(.upkeep) { [self, place = Lent(place), orders] in
            var told: [(LiveQueryView, LiveQueryView.Change)] = []
            let changes = new.children.changes(since: old.children, atMost: .max) ?? []
            place.value.queries.apply(
                ContiguousArray(changes.lazy.map { ChildWrite($0) }), over: new, in: { orders[$0] }) { told.append(($0, $1)) }
            let found = Lent(told)
            context.queue.async { [self] in followed(place.value, found.value, to: new, sequence) }
        }
    }

    private func followed(_ place: QueriedPlace, _ told: [(LiveQueryView, LiveQueryView.Change)], to node: Node, _ sequence: UInt64) {
        context.queue.assertCurrent()
        if place.isUndone {
            place.told = nil
            return onUndone(place)
        }
        telling.tellLater(at: place)
        for (query, change) in told {
            telling.tell(query, change, at: place, of: node) { telling.onChanged($0, $1, node, sequence) }
        }
        let now = content.root.node(at: place.path)
        if let writes = prompt.writes(from: node, to: now, at: place) {
            goOn(place, writes, over: now)
        } else {
            place.told = node
            follow(place, from: node)
        }
        places.finishWork()
    }

    /// The queries are the queue's again.
    private func goOn(_ place: QueriedPlace, _ writes: ContiguousArray<ChildWrite>, over now: Node) {
        place.told = nil
        if !writes.isEmpty {
            prompt.apply(writes, at: place, over: now) { telling.onChanged($0, $1, now, content.sequence) }
        }
        places.weigh(place)
        filling.relist(place)
        filling.fillLater(place)
        telling.tellAll(place)
        places.resumeWaiting(place)
    }
}
