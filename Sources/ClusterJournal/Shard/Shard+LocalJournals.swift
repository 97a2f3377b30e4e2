import Dispatch
import Journal
import Logging
import Scheduling
import SQLiteJournal

/// What of the log the local journals have.
///
/// ```
/// applying ─► local journal, with the position ─► stored ─► complete up to there ─► the tail goes on
///    ▲                └─ refuses ─► all wait, and are given again ─┘
/// ```
extension Shard {
    /// Gives the local journals what is next for them.
    func storeLocally() {
        while let (key, entry, place) = applying.next() {
            var batch = entry.batch
            batch.staged = []
            batch.setting = StoredPosition(created: created, sequence: place.sequence, complete: applying.complete).setting
            local.journal(of: entry.namespace).append(batch) { [weak self] result in
                self?.hop { $0.storedLocally(entry, key, result) }
            }
        }
    }

    private func storedLocally(_ entry: LocalLine.Entry, _ key: LocalLine.Key, _ result: Result<Void, JournalError>) {
        switch result {
        case .success: stored(entry, key)
        // It was given again since its outcome was not known, and has no id by which the journal would have said so.
        case .failure(.conflict(_, let last)) where last >= entry.batch.sequence: stored(entry, key)
        case .failure(let error):
            let number = applying.refused(key)
            if let number {
                let failure = error == .closed ? error : .unknown(reason: "the cluster has it; this hub's disk does not take it: \(error)")
                decide(entry.namespace, number, .failure(failure))
            }
            guard standing != .closed, error != .closed else { return }
            logger.error("the local journal does not take what the cluster's log holds", metadata: ["reason": "\(error)"])
            scheduler.after(ms: settings.localRetryMs, on: queue) { [weak self] in self?.storeAgain() }
        }
    }

    private func stored(_ entry: LocalLine.Entry, _ key: LocalLine.Key) {
        if let number = applying.stored(key) { decide(entry.namespace, number, .success(())) }
        release()
        tellStill()
        if !waiting.isEmpty { proceed() }
    }

    /// Stores how far the local journals are, at the end, so that the next start receives nothing again. With a batch it is stored how far
    /// they were when that was given to them.
    func storePosition(_ done: @escaping @Sendable () -> Void) {
        let furthest = ledger.marks.max { $0.value.position < $1.value.position }
        guard applying.count == 0, let (namespace, mark) = furthest, mark.position > 0 else { return done() }
        let position = StoredPosition(created: created, sequence: mark.position, complete: applying.complete)
        local.store.put(position.setting.value, setting: StoredPosition.name, of: namespace) { _ in done() }
    }

    /// Calls back when the local journals have all that they were given, and gives them no more until a snapshot is on its way, or for a
    /// while.
    func whenStill(_ done: @escaping @Sendable () -> Void) {
        queue.async { [self] in
            applying.isHeld = true
            still.append(done)
            tellStill()
            scheduler.after(ms: settings.stillMs, on: queue) { [weak self] in self?.goOn() }
        }
    }

    private func tellStill() {
        if applying.isHeld, applying.underWay == 0 { askWhoWaits() }
    }

    private func askWhoWaits() {
        let ready = still
        still = []
        for done in ready { done() }
    }

    /// The local journals are given what came meanwhile. On the queue.
    func goOn() {
        guard applying.isHeld else { return }
        applying.isHeld = false
        storeLocally()
        // They took too long: asked nevertheless, since nobody asks again before.
        askWhoWaits()
    }

    private func storeAgain() { if applying.resume() { storeLocally() } }

    /// Lets the tail go on if the local journals keep up.
    func release() {
        tellCaughtUp()
        guard applying.count < settings.recordsApplied else { return }
        for _ in 0..<owedPlaces { tail?.done() }
        owedPlaces = 0
    }

    // MARK: Catching up

    /// Calls back when the local journals have all that the log holds at some moment after this call; not before the log can be followed.
    func whenCaughtUp(_ done: @escaping @Sendable () -> Void) {
        queue.async { [self] in
            behind.append((nil, done))
            look()
        }
    }

    func tellCaughtUp() {
        guard !behind.isEmpty else { return }
        // At the end of the log there may be parts of a record that nobody completes.
        let reached = applying.count == 0 ? newest.sequence : applying.complete.sequence
        let ready = behind.filter { $0.target.map { $0 <= reached } ?? false }
        behind.removeAll { $0.target.map { $0 <= reached } ?? false }
        for one in ready { one.done() }
    }
}
