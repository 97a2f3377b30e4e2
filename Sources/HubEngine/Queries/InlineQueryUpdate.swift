import JSONTree
import LiveQueries

/// Applies a few changed children to the live queries of a place on the database queue. Each change costs one step per affected view.
///
/// Confined to the database queue.
final class InlineQueryUpdate {
    private let context: EngineContext
    private let places: QuerySetStore
    private let notifier: QueryNotifier
    private let refill: WindowRefill

    init(_ context: EngineContext, _ places: QuerySetStore, _ notifier: QueryNotifier, _ refill: WindowRefill) {
        self.context = context
        self.places = places
        self.notifier = notifier
        self.refill = refill
    }

    /// The changes of a commit to apply on the queue; nil if they are too many.
    /// - Parameter children: nil if there are many, or if the place was overwritten.
    func writes(_ children: [ChildChange]?, from old: Node, to new: Node, at place: ObservedQuerySet) -> ContiguousArray<ChildWrite>? {
        guard let children else { return writes(from: old, to: new, at: place) }
        guard areFew(children.count, at: place) else { return nil }
        return ContiguousArray(children.lazy.filter { $0.old != $0.new }.map { ChildWrite($0) })
    }

    /// The same between two states of the place.
    func writes(from old: Node, to new: Node, at place: ObservedQuerySet) -> ContiguousArray<ChildWrite>? {
        let most = context.limits.inlineChildren
        guard let changes = new.children.changes(since: old.children, atMost: most), areFew(changes.count, at: place) else { return nil }
        return ContiguousArray(changes.lazy.map { ChildWrite($0) })
    }

    private func areFew(_ changes: Int, at place: ObservedQuerySet) -> Bool {
        changes <= 16 || (changes <= context.limits.inlineChildren && changes * max(1, place.count) <= context.limits.windowsAtOnce)
    }

    /// - Parameter onChange: called for each view whose observers are notified.
    func apply(
        _ writes: ContiguousArray<ChildWrite>, at place: ObservedQuerySet, over new: Node, _ onChange: (View, LiveChange) -> Void
    ) {
        context.meter.spend(1)
        places.metered(place) {
            place.queries.apply(writes, over: new, in: places.orders(place, over: new)) { query, change in
                notifier.notify(query, change, at: place, of: new, onChange)
            }
        }
        places.updateTotals(place)
        refill.fillLater(place)
    }
}

extension ChildWrite {
    init(_ change: ChildChange) { self.init(change.key, old: change.old, new: change.new) }
    init(_ change: ChildMap.Change) { self.init(change.key, old: change.old ?? .null, new: change.new ?? .null) }
}
