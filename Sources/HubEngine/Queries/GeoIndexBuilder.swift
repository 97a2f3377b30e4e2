import JSONTree
import LiveQueries

/// Builds the point index of a place's children, for circles: on first use, in the background if there are many children.
///
/// ```
/// hasPoints ─► few children: here
///    └─ many: in the background ─► written meanwhile ─► adopted ─► waiting requests resume
///                 ▲                        ├─ too much, or the queries are in the background ┘
///                 └── `tries` times at most ┘    then waiting requests fail
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
    /// Tries to collect the points while other clients write.
    private static let tries = 10

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
        collect(place, fields)
        return false
    }

    private func adopt(_ index: GeoIndex, at place: ObservedQuerySet) {
        place.queries.adopt(index)
        places.updateTotals(place)
    }

    /// The points of a place at one state of it.
    private struct Collected: Sendable {
        let index: GeoIndex
        let node: Node
    }

    private func collect(_ place: ObservedQuerySet, _ fields: GeoFields, from earlier: Collected? = nil) {
        let place = Transferred(place)
        let job = Job<Collected>(tries: Self.tries) { [self] last in
            let node = content.root.node(at: place.value.path)
            return {
                let index = last?.index ?? GeoIndex(fields)
                _ = index.follow(from: last?.node ?? .null, to: node, atMost: .max)
                return Collected(index: index, node: node)
            }
        } use: { [self] found in
            collected(found, fields, at: place.value)
        } giveUp: { [self] last in
            context.release([last])
            end(place.value, .changesTooFast)
        }
        job.run(in: context, from: earlier)
    }

    private func collected(_ found: Collected, _ fields: GeoFields, at place: ObservedQuerySet) -> Job<Collected>.Outcome {
        guard places.contains(place) else { return .done }
        guard fields == content.rules.geoFields(at: place.path) else {
            // New rules were deployed: waiting requests retry.
            end(place)
            return .done
        }
        if place.isInBackground {
            // Take in the points when the queries are back.
            place.waiting.append { [self] _ in collect(place, fields, from: found) }
            return .done
        }
        let now = content.root.node(at: place.path)
        guard found.index.follow(from: found.node, to: now, atMost: context.limits.followedChanges) else { return .behind(found) }
        adopt(found.index, at: place)
        end(place)
        return .done
    }

    /// Resumes the requests that wait for the points.
    private func end(_ place: ObservedQuerySet, _ failure: Failure? = nil) {
        place.isCollecting = false
        places.resumeWaiting(place, failure)
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
