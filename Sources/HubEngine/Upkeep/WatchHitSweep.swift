import Journal
import JSONTree

/// Removes remembered hits of watches whose cooldown is over, after some minutes: found in the background, and removed a part in a turn.
///
/// Confined to the database queue.
final class WatchHitSweep: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let durability: DurabilityQueue
    private let log: LogGuard
    private let commits: CommitPipeline
    /// Number of the current sweep; timers and results of earlier ones are discarded.
    private var number = 0
    private var isWaiting = false

    /// Entries removed in a turn.
    private static let removedAtOnce = 500
    /// Most entries of one sweep.
    private static let foundAtOnce = 100_000

    init(_ context: EngineContext, _ content: Content, _ durability: DurabilityQueue, _ log: LogGuard, _ commits: CommitPipeline) {
        (self.context, self.content, self.durability, self.log, self.commits) = (context, content, durability, log, commits)
    }

    /// Sweeps after a while, if there is anything to remember. Called after each hit.
    func begin() {
        guard !isWaiting, !content.watchHits.isEmpty else { return }
        isWaiting = true
        context.later(ms: context.limits.watchSweepMs) { [weak self, number] in
            guard let self, number == self.number else { return }
            sweep(number)
        }
    }

    func stop() { (number, isWaiting) = (number + 1, true) }

    private func end() {
        isWaiting = false
        begin()
    }

    private func sweep(_ number: Int) {
        let (hits, now) = (content.watchHits, context.clock())
        context.compute { hits.expired(at: now, atMost: Self.foundAtOnce) } then: { [weak self] in self?.remove($0[...], number) }
    }

    private func remove(_ found: ArraySlice<WatchHits.Entry>, _ number: Int) {
        guard number == self.number else { return }
        if found.isEmpty || log.isRefusing { return end() }
        // A hit since then has another time.
        let gone = found.prefix(Self.removedAtOnce).filter {
            content.watchHits.mutedUntil(watch: $0.watch, number: $0.number, item: $0.item) == $0.until
        }
        if !gone.isEmpty {
            commits.record(gone.map { .watch(.muted(watch: $0.watch, number: $0.number, item: $0.item, until: nil)) })
            context.meter.spend(gone.count)
            durability.finishBatch()
        }
        let rest = found.dropFirst(Self.removedAtOnce)
        if rest.isEmpty { return end() }
        context.queue.async { [weak self] in self?.remove(rest, number) }
    }
}
