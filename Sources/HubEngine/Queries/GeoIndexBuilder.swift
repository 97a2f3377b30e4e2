import JSONTree
import LiveQueries

/// Builds the point index of a place's children, for circles: on first use, in the background if there are many children.
///
/// ```
/// hasPoints ─► few children: here
///    └─ many: in the background ─► written meanwhile ─► adopted ─► waiting requests resume
///                 ▲                        └─ too much, or the queries are in the background ┘
/// ```
/// Confined to the database queue.
final class GeoIndexBuilder: @unchecked Sendable {
    // Sendable: background work that captures it only returns to the queue.
    private let context: EngineContext
    private let content: Content
    private let places: QuerySetStore

    init(_ context: EngineContext, _ content: Content, _ places: QuerySetStore) {
        self.context = context
        self.content = content
        self.places = places
    }

    /// Children whose points cost as much to collect as one small request.
    private static let collectedForWork = 4

    /// True if the points of a place's children are indexed.
    /// - Returns: false while they are being collected; `waiting` is resumed afterwards.
    func hasPoints(_ place: ObservedQuerySet, _ fields: GeoFields, over node: Node) -> Bool {
        if place.queries.index != nil { return true }
        if place.isCollecting { return false }
        if node.childCount <= context.limits.inlineChildren {
            context.meter.spend(node.childCount / Self.collectedForWork)
            adopt(GeoIndex(fields, of: node), at: place)
            return true
        }
        place.isCollecting = true
        collect(place, fields, over: node)
        return false
    }

    private func adopt(_ index: GeoIndex, at place: ObservedQuerySet) {
        place.queries.adopt(index)
        places.updateTotals(place)
    }

    private func collect(_ place: ObservedQuerySet, _ fields: GeoFields, over node: Node, from earlier: (index: GeoIndex, node: Node)? = nil) {
        context.background.run(.upkeep) { [self, place = Transferred(place)] in
            let index = earlier?.index ?? GeoIndex(fields)
            _ = index.follow(from: earlier?.node ?? .null, to: node, atMost: .max)
            context.queue.async { [self] in collected(index, of: node, fields, at: place.value) }
        }
    }

    private func collected(_ index: GeoIndex, of node: Node, _ fields: GeoFields, at place: ObservedQuerySet) {
        let now = content.root.node(at: place.path)
        guard places.contains(place) else { return }
        guard fields == content.rules.geoFields(at: place.path) else {
            // New rules were deployed: waiting requests retry.
            place.isCollecting = false
            places.resumeWaiting(place)
            return places.finishWork()
        }
        // Take in the points when the queries are back.
        if place.isInBackground { return place.waiting.append { [self] in collect(place, fields, over: now, from: (index, node)) } }
        guard place.queries.index == nil, index.follow(from: node, to: now, atMost: context.limits.followedChanges) else {
            return collect(place, fields, over: now, from: (index, node))
        }
        place.isCollecting = false
        adopt(index, at: place)
        places.resumeWaiting(place)
        places.finishWork()
    }
}

extension Failure {
    static func missingPoints(_ path: Path) -> Failure {
        Failure(
            .missingIndex,
            "No points defined, add \".geoIndex\": {\"lat\": \"lat\", \"lng\": \"lng\"}, or where children have their degrees, "
                + "for path \"\(path)\", to the rules")
    }
}
