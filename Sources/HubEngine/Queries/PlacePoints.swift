import JSONTree
import LiveQueries

/// The points of a place's children, for circles: collected when they are first asked for, of many children beside the queue.
///
/// ```
/// hasPoints ─► few children: here
///    └─ many: in the background ─► what was written meanwhile ─► adopted ─► requests that waited look again
///                 ▲                        └─ too much, or the queries are lent ┘
/// ```
/// Confined to the database queue.
final class PlacePoints: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let places: QueriedPlaces

    init(_ context: EngineContext, _ content: Content, _ places: QueriedPlaces) {
        self.context = context
        self.content = content
        self.places = places
    }

    /// Children whose points are collected that are as much work as a small request.
    private static let collectedForWork = 4

    /// The points of a place's children, if they are known.
    /// - Returns: false when they are being collected: `waiting` is resumed then.
    func hasPoints(_ place: QueriedPlace, _ fields: GeoFields, over node: Node) -> Bool {
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

    private func adopt(_ index: GeoIndex, at place: QueriedPlace) {
        place.queries.adopt(index)
        places.weigh(place)
    }

    private func collect(_ place: QueriedPlace, _ fields: GeoFields, over node: Node, from earlier: (index: GeoIndex, node: Node)? = nil) {
        context.background.run(.upkeep) { [self, place = Lent(place)] in
            let index = earlier?.index ?? GeoIndex(fields)
            _ = index.follow(from: earlier?.node ?? .null, to: node, atMost: .max)
            context.queue.async { [self] in collected(index, of: node, fields, at: place.value) }
        }
    }

    private func collected(_ index: GeoIndex, of node: Node, _ fields: GeoFields, at place: QueriedPlace) {
        let now = content.root.node(at: place.path)
        guard places.contains(place) else { return }
        guard fields == content.rules.geoFields(at: place.path) else {
            // Other rules were deployed: who waits asks again.
            place.isCollecting = false
            places.resumeWaiting(place)
            return places.finishWork()
        }
        // They are taken in when the queries are back.
        if place.isLent { return place.waiting.append { [self] in collect(place, fields, over: now, from: (index, node)) } }
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
