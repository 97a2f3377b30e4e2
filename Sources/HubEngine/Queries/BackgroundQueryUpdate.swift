import JSONTree
import LiveQueries

/// Applies a large change to the live queries of a place in the background. A background thread owns the queries meanwhile, and requests for them
/// wait.
///
/// ```
/// updateInBackground ─► all differences, in the background ─► notified ─► written meanwhile ─► few: applied here, requests resume
///                            ▲                                                └─ many ┘
/// ```
/// Confined to the database queue.
final class BackgroundQueryUpdate: @unchecked Sendable {
    // Sendable: background work that captures it only returns to the queue.
    private let context: EngineContext
    private let content: Content
    private let observed: PlaceTrie
    private let places: QuerySetStore
    private let notifier: QueryNotifier
    private let refill: WindowRefill
    private let inline: InlineQueryUpdate
    /// Called when the queries are back and some of the commits applied to them were rolled back meanwhile.
    var onUndone: (ObservedQuerySet) -> Void = { _ in }

    init(
        _ context: EngineContext, _ content: Content, _ observed: PlaceTrie, _ places: QuerySetStore, _ notifier: QueryNotifier,
        _ refill: WindowRefill, _ inline: InlineQueryUpdate
    ) {
        self.context = context
        self.content = content
        self.observed = observed
        self.places = places
        self.notifier = notifier
        self.refill = refill
        self.inline = inline
    }

    /// Applies all differences in the background.
    /// - Parameter old: the content that observers have last seen.
    func updateInBackground(_ place: ObservedQuerySet, lastSeen old: Node) {
        place.lastSeen = old
        follow(place, from: old)
    }

    private func follow(_ place: ObservedQuerySet, from old: Node) {
        let (new, sequence) = (content.root.node(at: place.path), content.sequence)
        let observed = observed.existingPlace(at: place.path)
        var orders: [TreeQuery.Index: OrderedChildren] = [.key: .byKey(new.children)]
        for index in observed?.indexes ?? [] { orders[index.ordering] = observed?.children(of: new, by: index.ordering) }
        context.meter.counters.liveQueriesUpdatedInBackground += 1
        context.background.run(.upkeep) { [self, place = Transferred(place), orders] in
            var reports: [(LiveQueryView, LiveQueryView.Change)] = []
            let changes = new.children.changes(since: old.children, atMost: .max) ?? []
            place.value.queries.apply(
                ContiguousArray(changes.lazy.map { ChildWrite($0) }), over: new, in: { orders[$0] }) { reports.append(($0, $1)) }
            let found = Transferred(reports)
            context.queue.async { [self] in followed(place.value, found.value, to: new, sequence) }
        }
    }

    private func followed(_ place: ObservedQuerySet, _ reports: [(LiveQueryView, LiveQueryView.Change)], to node: Node, _ sequence: UInt64) {
        context.queue.assertCurrent()
        if place.wasRolledBack {
            place.lastSeen = nil
            return onUndone(place)
        }
        notifier.recordLateNotification(at: place)
        for (query, change) in reports {
            notifier.notify(query, change, at: place, of: node) { notifier.onChanged($0, $1, node, sequence) }
        }
        let now = content.root.node(at: place.path)
        if let writes = inline.writes(from: node, to: now, at: place) {
            resume(place, writes, over: now)
        } else {
            place.lastSeen = node
            follow(place, from: node)
        }
        places.finishWork()
    }

    /// Returns the queries to the database queue.
    private func resume(_ place: ObservedQuerySet, _ writes: ContiguousArray<ChildWrite>, over now: Node) {
        place.lastSeen = nil
        if !writes.isEmpty {
            inline.apply(writes, at: place, over: now) { notifier.onChanged($0, $1, now, content.sequence) }
        }
        places.updateTotals(place)
        refill.relist(place)
        refill.fillLater(place)
        notifier.notifyComplete(place)
        places.resumeWaiting(place)
    }
}
