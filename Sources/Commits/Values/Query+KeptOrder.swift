package import JSONTree
package import LiveQueries
package import SecurityRules

extension Query {
    /// The order whose index must be kept while the query is observed: its window finds children there, or a limit the next ones. Nil if its
    /// children are held, or found by their points, as a circle or a region may hold all matches (`LiveQueryView.refillOrder`).
    package var keptOrder: TreeQuery.Index? { isPlain || !hasArea && tree.limit != nil ? tree.orderedBy : nil }

    /// Bytes of its bounds and order as text. O(levels of the order)
    package var textBytes: Int {
        var bytes = 0
        for case let bound? in [tree.start, tree.end] {
            if case .string(let text) = bound.value.leaf { bytes += text.utf8Count }
            bytes += bound.key?.text.utf8Count ?? 0
        }
        if case .child(let path)? = tree.index { bytes += path.keys.reduce(0) { $0 + $1.text.utf8Count + 1 } }
        return bytes
    }
}

extension RuleSet {
    /// The position fields that `.geoIndex` declares for children of a place; nil if none.
    package func geoFields(at path: Path) -> GeoFields? {
        geoIndex(at: path).map { GeoFields(latitude: $0.latitude, longitude: $0.longitude) }
    }
}
