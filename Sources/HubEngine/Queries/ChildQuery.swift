public import JSONTree
public import LiveQueries
import SecurityRules

/// Which children of a place an observer or a read asks for. Indirect: it is handed on with requests, and most have none.
public indirect enum ChildQuery: Sendable, Hashable {
    /// Order, range and limit: a window of an order (`QueryWindow`).
    case window(TreeQuery)
    /// With conditions, or a circle (`PlaceQueries`).
    case live(LiveQuery)

    /// Order, range and limit; of what is ordered by distance there is no range.
    public var tree: TreeQuery {
        switch self {
        case .window(let query): query
        case .live(let query): query.tree
        }
    }

    /// What it shows, in its order, with metres from its centre where it has one. O(n), or O(n log n) in another order than by key.
    /// - Parameter shown: an object of the children that it shows.
    public func inOrder(_ shown: Node) -> [(key: Key, child: Node, distance: Double?)] {
        switch self {
        case .live(let query): return query.inOrder(shown)
        case .window(let query):
            let children = shown.children
            if query.orderedBy == .key { return children.map { ($0.0, $0.1, nil) } }
            let places = children.map { query.orderedBy.place($0.0, $0.1) }.sorted { $0.order($1) < 0 }
            return places.map { ($0.key, children[$0.key] ?? .null, nil) }
        }
    }

    /// What the realtime protocol can say.
    public var window: TreeQuery? { if case .window(let query) = self { query } else { nil } }
    public var live: LiveQuery? { if case .live(let query) = self { query } else { nil } }

    /// The order that must be kept while it is observed; nil where its children are held, or found by their points.
    var keptOrder: TreeQuery.Index? {
        switch self {
        case .window(let query): query.orderedBy
        case .live(let query): query.keptOrder
        }
    }
}

extension RuleSet {
    /// Where the rules say that children of a place have their position: `.geoIndex`; nil where they do not.
    func geoFields(at path: Path) -> GeoFields? {
        geoIndex(at: path).map { GeoFields(latitude: $0.latitude, longitude: $0.longitude) }
    }
}

extension LiveQuery {
    /// The order that must be there for a limit to take the next children from; nil where they are found by their points, and for a circle,
    /// of which all that match may be held (`LiveQueryView.refillOrder`).
    var keptOrder: TreeQuery.Index? { near == nil && tree.limit != nil ? tree.orderedBy : nil }
}
