import JSONTree
import LiveQueries

/// Applies a large change to the live queries of a place in the background. A background thread owns the queries meanwhile, and requests for them
/// wait.
///
/// ```
/// updateInBackground ─► all differences, in the background ─► notified ─► written meanwhile ─► few: applied here, requests resume
///              ▲                                                ├─ many ┘
///              └────────────── `rounds` times at most ──────────┘    then the observers end
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
    /// Called when the queries are back and do not hold: commits applied to them were rolled back meanwhile, or others wrote too fast.
    var onLost: (ObservedQuerySet, Failure) -> Void = { _, _ in }

    /// Rounds for one large change. Each takes about the time in which others wrote during the last one.
    private static let rounds = 100

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
        let place = Transferred(place)
        let job = Job<Round>(tries: Self.rounds) { [self] last in
            context.meter.counters.liveQueriesUpdatedInBackground += 1
            return round(place, from: last?.node ?? old)
        } use: { [self] round in
            followed(place.value, round)
        } giveUp: { [self] _ in
            place.value.lastSeen = nil
            onLost(place.value, .changesTooFast)
        }
        job.run(in: context)
    }

    /// What one round has found: the changes of the views up to a state of the place.
    private struct Round: Sendable {
        let node: Node
        let sequence: UInt64
        let changes: Transferred<[(LiveQueryView, LiveQueryView.Change)]>
    }

    private func round(_ place: Transferred<ObservedQuerySet>, from old: Node) -> Job<Round>.Computation {
        let (new, sequence) = (content.root.node(at: place.value.path), content.sequence)
        let observed = observed.existingPlace(at: place.value.path)
        var orders: [TreeQuery.Index: OrderedChildren] = [.key: .byKey(new.children)]
        for index in observed?.indexes ?? [] { orders[index.ordering] = observed?.children(of: new, by: index.ordering) }
        return { [orders] in
            var found: [(LiveQueryView, LiveQueryView.Change)] = []
            let changes = new.children.changes(since: old.children, atMost: .max) ?? []
            place.value.queries.apply(
                ContiguousArray(changes.lazy.map { ChildWrite($0) }), over: new, in: { orders[$0] }) { found.append(($0, $1)) }
            return Round(node: new, sequence: sequence, changes: Transferred(found))
        }
    }

    private func followed(_ place: ObservedQuerySet, _ round: Round) -> Job<Round>.Outcome {
        context.queue.assertCurrent()
        if place.wasRolledBack {
            place.lastSeen = nil
            onLost(place, .rolledBack)
            return .done
        }
        defer { places.finishWork() }
        notifier.recordLateNotification(at: place)
        for (query, change) in round.changes.value {
            notifier.notify(query, change, at: place, of: round.node) { notifier.onChanged($0, $1, round.node, round.sequence) }
        }
        let now = content.root.node(at: place.path)
        guard let writes = inline.writes(from: round.node, to: now, at: place) else {
            place.lastSeen = round.node
            return .behind(round)
        }
        resume(place, writes, over: now)
        return .done
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
