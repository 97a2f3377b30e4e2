public import JSONTree
public import LiveQueries
import SecurityRules

/// Selects children of a place for an observer or a read. Indirect, because it is passed along with all requests and most have none.
public indirect enum ChildQuery: Sendable, Hashable {
    /// Order, range and limit: a window (`QueryWindow`).
    case window(TreeQuery)
    /// A query with conditions or a circle (`QuerySet`).
    case live(LiveQuery)

    /// Order, range and limit. A query by distance has no range.
    public var tree: TreeQuery {
        switch self {
        case .window(let query): query
        case .live(let query): query.tree
        }
    }

    /// The shown children in the query's order, with metres from its centre if it has one. O(n), or O(n log n) if not ordered by key.
    /// - Parameter shown: an object of the children that the query shows.
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

    /// The queries that the realtime protocol can express.
    public var window: TreeQuery? { if case .window(let query) = self { query } else { nil } }
    public var live: LiveQuery? { if case .live(let query) = self { query } else { nil } }

    /// The order whose index must be kept while the query is observed. Nil if its children are held, or found by their points.
    var keptOrder: TreeQuery.Index? {
        switch self {
        case .window(let query): query.orderedBy
        case .live(let query): query.keptOrder
        }
    }
}

extension RuleSet {
    /// The position fields that `.geoIndex` declares for children of a place; nil if none.
    func geoFields(at path: Path) -> GeoFields? {
        geoIndex(at: path).map { GeoFields(latitude: $0.latitude, longitude: $0.longitude) }
    }
}

extension LiveQuery {
    /// The order from which a limit takes the next children. Nil for queries that find them by point, and for circles, which may hold all matches
    /// (`LiveQueryView.refillOrder`).
    var keptOrder: TreeQuery.Index? { near == nil && tree.limit != nil ? tree.orderedBy : nil }
}

extension TreeQuery {
    /// Bytes of its bounds and order as text. O(levels of the order)
    var textBytes: Int {
        var bytes = 0
        for case let bound? in [start, end] {
            if case .string(let text) = bound.value.leaf { bytes += text.utf8Count }
            bytes += bound.key?.text.utf8Count ?? 0
        }
        if case .child(let path)? = index { bytes += path.keys.reduce(0) { $0 + $1.text.utf8Count + 1 } }
        return bytes
    }
}
