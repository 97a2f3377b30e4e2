public import JSONTree

/// One live query of a place, shared by its observers.
///
/// Confined to the database queue.
public final class LiveQueryView {
    /// The part of the result that its observers receive.
    public enum Showing: Sendable, Hashable {
        case children
        /// Only the number of children.
        case count
    }

    /// A change of the result.
    public enum Change: Sendable, Equatable {
        /// The usual change: one child.
        case child(LiveEvent)
        /// In the order in which a client applies them.
        case children(ContiguousArray<LiveEvent>)
        case count(Int)

        /// The events; empty for a count.
        public var events: ContiguousArray<LiveEvent> {
            switch self {
            case .child(let event): [event]
            case .children(let events): events
            case .count: []
            }
        }

        /// - Returns: nil if nothing differs.
        init?(_ events: ContiguousArray<LiveEvent>) {
            guard let first = events.first else { return nil }
            self = events.count == 1 ? .child(first) : .children(events)
        }
    }

    public internal(set) var query: Query
    public let showing: Showing
    /// Number of children shown or counted.
    public var count: Int { window?.count ?? query.reportedCount(total) }
    /// True if fewer children are shown than may exist; `QuerySet.fill` continues the search.
    public var isShort: Bool { window?.isShort ?? false }
    /// True if `QuerySet.fill` should continue now, before the view becomes short.
    var needsFill: Bool { window?.needsFill ?? false }
    /// True if the next children must be searched for off the queue and passed to `QuerySet.replace`.
    public var needsBackgroundSearch: Bool { window?.needsBackgroundSearch ?? false }
    /// The order from which its next children come. Nil if all matches are held or found by their points, and for a count.
    public var refillOrder: TreeQuery.Index? {
        guard let window, !query.isByPosition, query.tree.limit != nil, !window.holdsAll else { return nil }
        return query.tree.orderedBy
    }
    /// Number of children held, shown or not.
    public var held: Int { window?.heldCount ?? 0 }
    /// Nil for a count.
    public internal(set) var window: Window?
    /// Number of matches, whatever the limit; for `count`.
    var total = 0
    let selector: Selector
    /// `Window.isCircle`. Stored, since every change of a child in the circle asks.
    var isCircle = false
    /// The number of its circle or region; -1 without one.
    var circle = -1
    /// The squared chord for which its circle is listed in `CircleIndex`.
    var reach = -1.0
    /// True while it is listed as holding few children with more to find.
    var isUnfilled = false
    /// True while its next children are searched for off the queue.
    var isSearched = false
    /// The changes of the current commit that affect this view.
    var pending: ContiguousArray<FilteredWrite> = []

    init(_ query: Query, _ showing: Showing, _ selector: Selector) {
        self.query = query
        self.showing = showing
        self.selector = selector
    }

    /// The selection that several views share: a filter, with the range of an order. Evaluated once per change.
    final class Selector {
        struct Name: Hashable {
            let filter: Filter
            let range: [Condition]
            /// True for views of circles and regions, which are found by position instead of by their conditions.
            let hasArea: Bool
        }

        let name: Name
        let slot: Int
        var views: ContiguousArray<LiveQueryView> = []
        /// The last change that was evaluated, and the result before and after it.
        var evaluatedFor = 0
        var was = false
        var now = false

        init(_ name: Name, slot: Int) {
            self.name = name
            self.slot = slot
        }
    }
}
