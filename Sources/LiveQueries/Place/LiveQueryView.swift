public import JSONTree

/// One live query of a place, as its observers share it.
///
/// Confined to the database queue.
public final class LiveQueryView {
    /// What its observers are told.
    public enum Showing: Sendable, Hashable {
        case children
        /// How many there are, without what they are.
        case count
    }

    /// A change of what is shown.
    public enum Change: Sendable, Equatable {
        /// The usual one.
        case child(LiveEvent)
        /// In the order in which a client applies them.
        case children(ContiguousArray<LiveEvent>)
        case count(Int)

        /// The events; none of a count.
        public var events: ContiguousArray<LiveEvent> {
            switch self {
            case .child(let event): [event]
            case .children(let events): events
            case .count: []
            }
        }

        /// - Returns: nil where nothing differs.
        init?(_ events: ContiguousArray<LiveEvent>) {
            guard let first = events.first else { return nil }
            self = events.count == 1 ? .child(first) : .children(events)
        }
    }

    public internal(set) var query: LiveQuery
    public let showing: Showing
    /// How many children are shown, or are counted.
    public var count: Int { filtered?.count ?? near?.count ?? query.told(total) }
    /// Whether fewer are shown than there may be; `PlaceQueries.fill` goes on.
    public var isShort: Bool { filtered?.isShort ?? near?.isShort ?? false }
    /// Whether `PlaceQueries.fill` should go on before fewer are shown than there are.
    var needsFill: Bool { filtered?.needsFill ?? near?.needsFill ?? false }
    /// Whether the next children have to be searched for off the queue, to be taken in by `PlaceQueries.replace`.
    public var isStuck: Bool { near?.isStuck ?? false }
    /// The order that its next children are found in; nil where all that match are held, or found by their points, and for a count.
    public var refillOrder: TreeQuery.Index? {
        guard let filtered, query.tree.limit != nil, !filtered.holdsAll else { return nil }
        return query.tree.orderedBy
    }
    /// Children that are held, shown or not.
    public var held: Int { filtered?.heldCount ?? near?.heldCount ?? 0 }
    /// What it shows of the place, to be moved to another state of it; nil for a circle and a count.
    public var window: FilteredWindow? { filtered }

    /// One of the two for `children`, none for `count`.
    var filtered: FilteredWindow?
    var near: NearWindow?
    /// Matches, whatever the limit; for `count`.
    var total = 0
    let selector: Selector
    /// Whether it is a circle of which nothing is held.
    var isCircle = false
    /// The number of its circle; -1 without one.
    var circle = -1
    /// The square of the chord for which its circle is listed.
    var reach = -1.0
    /// Whether it is listed as one that holds few and may find more.
    var isUnfilled = false
    /// Whether its next children are searched for off the queue.
    var isSearched = false
    /// Of the commit that is being told: what concerns it.
    var pending: ContiguousArray<SeenWrite> = []

    init(_ query: LiveQuery, _ showing: Showing, _ selector: Selector) {
        self.query = query
        self.showing = showing
        self.selector = selector
    }

    /// What selects children for some views: a filter, with the range of an order. Asked once for each change.
    final class Selector {
        struct Name: Hashable {
            let filter: Filter
            let range: [Condition]
            /// Views of circles are found by these, and not by what they ask.
            let isNear: Bool
        }

        let name: Name
        let slot: Int
        var views: ContiguousArray<LiveQueryView> = []
        /// The change for which it was asked last, and what it said.
        var askedFor = 0
        var was = false
        var now = false

        init(_ name: Name, slot: Int) {
            self.name = name
            self.slot = slot
        }
    }
}
