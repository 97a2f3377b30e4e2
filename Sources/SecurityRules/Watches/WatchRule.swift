public import JSONTree
import LiveQueries

/// One `.watch` of a node: `{"circle": {"lat": "lat", "lng": "lng", "radius": "data.child('radius').val()"}, "on": "events", …}`.
struct WatchRule: Sendable {
    /// Where a watch looks.
    enum Area: Sendable {
        /// A circle around the position in the node at `at`, or in the watching node itself.
        case circle(at: PathTemplate?, fields: GeoFields, radius: Int32)
        /// A box, polygon or circle stored at a place.
        case within(PathTemplate)

        /// The place outside of the node that the area depends on, besides what the radius reads.
        var source: PathTemplate? {
            switch self {
            case .circle(let at, _, _): at
            case .within(let place): place
            }
        }
    }

    /// A place whose children are found. Their snapshot, `item`, differs by place, so each has its own code.
    struct Place: Sendable {
        let template: PathTemplate
        /// Its index in `Program.watchedPlaces`.
        let shared: Int
        /// The instruction of the `if`; -1 for none.
        let condition: Int32
        let value: ValueTemplate
    }

    let area: Area
    let on: [Place]
    /// The key of the found child is numbered after the wildcards of the node's place: at the depth that follows its own.
    let to: PathTemplate
    /// The instructions of `cooldown` and `until`; -1 for none.
    let cooldown: Int32
    let until: Int32
    /// The places outside of the node that the radius may read, each with everything below it.
    let reads: [[Key?]]
    /// Its index among the watches of the place.
    let number: Int
    /// The index of the rule node, and its place; nil for a wildcard.
    var place: Int32 = 0
    var pattern: [Key?] = []

    /// The number of keys of the watching node.
    var nodeDepth: Int { pattern.count }

    /// The places that it depends on, each with everything below it.
    var patterns: [[Key?]] {
        [pattern] + on.map(\.template.pattern) + (area.source.map { [$0.pattern] } ?? []) + reads
    }
}

/// A place whose children some watch may find, with the fields of their positions.
struct WatchedPlace: Sendable, Hashable {
    /// Nil for a wildcard.
    let pattern: [Key?]
    let fields: GeoFields
}

/// A watch and something that it can find.
public struct WatchPair: Sendable, Hashable {
    /// The watching node, and the index of the watch among those of its place.
    public let watch: Path
    public let number: Int
    public let item: Path

    public init(watch: Path, number: Int, item: Path) { (self.watch, self.number, self.item) = (watch, number, item) }
}

/// A hit of a watch, which its commit must store: until then the same watch is silent about the same child.
public struct WatchHit: Sendable, Hashable {
    public let pair: WatchPair
    /// ms since the epoch; `Int64.max` as long as both exist.
    public let mutedUntil: Int64

    public init(_ pair: WatchPair, mutedUntil: Int64) { (self.pair, self.mutedUntil) = (pair, mutedUntil) }
}

/// What the search for hits knows besides the trees.
public struct WatchState {
    /// Of the tree before the commit; nil to scan the tree.
    public var index: WatchIndex?
    /// Until when a pair is silent, by its last hit: ms since the epoch, nil without one.
    public var mutedUntil: (WatchPair) -> Int64?

    public init(index: WatchIndex? = nil, mutedUntil: @escaping (WatchPair) -> Int64? = { _ in nil }) {
        (self.index, self.mutedUntil) = (index, mutedUntil)
    }
}

/// The names that an expression of a `.watch` sees besides the usual ones. `data` and `newData` are both the watching node after the
/// commit.
struct WatchScope {
    /// The found child; nil where there is none yet.
    var item: SnapshotTerm?
    /// The depth at which its key is numbered; nil where a wildcard of the place is called `$item`.
    var key: Int?
    /// Whether the expression is a radius. That is kept in an index, so it must not change by itself.
    var isRadius = false

    /// - Returns: nil for a name that means the same as elsewhere.
    func variable(_ name: String, _ span: Span) throws(ExpressionError) -> Checked? {
        switch name {
        case "item", "distance":
            guard let item else {
                throw ExpressionError(at: span, message: "'\(name)' is seen in 'if' and 'value' alone: here nothing is found yet.")
            }
            return name == "item" ? .snapshot(item) : .value(Term(kind: .distance, span: span), .value)
        case "$item":
            guard let key else { return nil }
            return .value(Term(kind: .capture(depth: key), span: span), .string)
        case "now" where isRadius:
            throw ExpressionError(at: span, message: "'now' is not seen here: a radius changes with data alone.")
        default: return nil
        }
    }

    /// For suggestions.
    var names: [String] { item == nil ? [] : ["item", "$item", "distance"] }
}
