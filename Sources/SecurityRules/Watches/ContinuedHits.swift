public import JSONTree
import LiveQueries

/// Hits that a commit leaves to later commits, because they are too many for one. Which hits these are is fixed in the commit, which also
/// remembers them; their rows follow, a part at a time, with values of that moment.
public enum ContinuedHits {
    /// The description under which they are stored as pending rows, beside a list of their keys.
    public static let terms: Node = ["hits": true]

    public static func areDescribed(by terms: Node) -> Bool { terms.child("hits") == true }

    /// A pair as one key of the list.
    public static func key(of pair: WatchPair) -> Key {
        Key("\(pair.watch.relativeText)\n\(pair.number)\n\(pair.item.relativeText)")
    }

    /// Nil for a key that no hub has stored.
    public static func pair(of key: Key) -> WatchPair? {
        let parts = key.string.split(separator: "\n", omittingEmptySubsequences: false)
        guard parts.count == 3, let number = Int(parts[1]) else { return nil }
        return WatchPair(watch: Path(relative: String(parts[0])), number: number, item: Path(relative: String(parts[2])))
    }
}

extension RuleSet {
    /// The rows of hits that were left to later commits; none for a watch or a child that is gone, or that the rules no longer have.
    /// O(hits · depth)
    /// - Parameter now: ms since the epoch.
    public func rows(of pairs: [WatchPair], in tree: Node, now: Int64) -> [(path: Path, value: Node)] {
        let reader = WatchReader(program: program, tree: tree)
        var rows: [(path: Path, value: Node)] = []
        for pair in pairs where tree.exists(at: pair.watch) && tree.exists(at: pair.item) {
            let place = program.tables.place(of: pair.watch) { _ in true }
            guard let rule = program.watches.firstIndex(where: { $0.place == place && $0.number == pair.number }),
                let on = program.watches[rule].on.firstIndex(where: { $0.path(of: pair.watch) == pair.item.parent })
            else { continue }
            let watch = program.watches[rule]
            var work = RulesLimits.rowTextWork
            var distance: Double?
            let fields = program.watchedPlaces[watch.on[on].shared].fields
            if let region = reader.region(watch, pair.watch, work: &work),
                case .point(let point) = fields.position(of: tree.node(at: pair.item))
            {
                distance = watch.distance(of: point, in: region)
            }
            let found = WatchSearch.Pair(rule: rule, watch: pair.watch, on: on, item: pair.item, distance: distance)
            guard let row = reader.row(watch, found, now: now, chooses: false, work: &work), row.value.fits(below: row.to.depth) else {
                continue
            }
            rows.append((row.to, row.value))
        }
        return rows
    }
}
