import Dispatch
import Journal
import Logging
import Scheduling
import SQLiteJournal

/// The part of the log that the local journals have stored.
///
/// ```
/// applying ─► local journal, with the position ─► stored ─► complete up to there ─► the tail continues
///    ▲                └─ refuses ─► all wait, and are passed again ─┘
/// ```
extension Shard {
    /// Passes the next entries to the local journals.
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

    private func storedLocally(_ entry: LocalApplyQueue.Entry, _ key: LocalApplyQueue.Key, _ result: Result<Void, JournalError>) {
        switch result {
        case .success: stored(entry, key)
        // The entry was passed again because its outcome was unknown, and it has no id by which the journal would recognise it.
        case .failure(.conflict(_, let last)) where last >= entry.batch.sequence: stored(entry, key)
        case .failure(let error):
            let number = applying.refused(key)
            if let number {
                let failure = error == .closed ? error : .unknown(reason: "the cluster has it; this hub's disk does not take it: \(error)")
                decide(entry.namespace, number, .failure(failure))
            }
            guard followState != .closed, error != .closed else { return }
            logger.error("the local journal does not take what the cluster's log holds", metadata: ["reason": "\(error)"])
            scheduler.after(ms: settings.localRetryMs, on: queue) { [weak self] in self?.storeAgain() }
        }
    }

    private func stored(_ entry: LocalApplyQueue.Entry, _ key: LocalApplyQueue.Key) {
        if let number = applying.stored(key) { decide(entry.namespace, number, .success(())) }
        release()
        notifyIfQuiesced()
        if !waiting.isEmpty { proceed() }
    }

    /// Stores the local journals' progress at the end, so that the next start receives nothing again. Each batch is stored with the progress at the
    /// time it was passed on.
    func storePosition(_ done: @escaping @Sendable () -> Void) {
        let furthest = ledger.marks.max { $0.value.position < $1.value.position }
        guard applying.count == 0, let (namespace, mark) = furthest, mark.position > 0 else { return done() }
        let position = StoredPosition(created: created, sequence: mark.position, complete: applying.complete)
        local.store.put(position.setting.value, setting: StoredPosition.name, of: namespace) { _ in done() }
    }

    /// Calls back when the local journals have stored all passed entries. Then no more are passed until a snapshot has begun, or for a limited
    /// time.
    func whenQuiesced(_ done: @escaping @Sendable () -> Void) {
        queue.async { [self] in
            applying.isHeld = true
            quiesceWaiters.append(done)
            notifyIfQuiesced()
            scheduler.after(ms: settings.quiesceMs, on: queue) { [weak self] in self?.resumeLocalStores() }
        }
    }

    private func notifyIfQuiesced() {
        if applying.isHeld, applying.underWay == 0 { notifyQuiesceWaiters() }
    }

    private func notifyQuiesceWaiters() {
        let ready = quiesceWaiters
        quiesceWaiters = []
        for done in ready { done() }
    }

    /// Resumes passing entries to the local journals. On the queue.
    func resumeLocalStores() {
        guard applying.isHeld else { return }
        applying.isHeld = false
        storeLocally()
        // They took too long: call back anyway, because no later event would.
        notifyQuiesceWaiters()
    }

    private func storeAgain() { if applying.resume() { storeLocally() } }

    /// Lets the tail continue if the local journals keep up.
    func release() {
        notifyIfCaughtUp()
        guard applying.count < settings.recordsApplied else { return }
        follower.releaseSlots()
    }

    // MARK: Catching up

    /// Calls back when the local journals have everything that the log contained at some moment after this call; not before the log can be followed.
    func whenCaughtUp(_ done: @escaping @Sendable () -> Void) {
        queue.async { [self] in
            follower.whenCaughtUp { _ in done() }
        }
    }

    func notifyIfCaughtUp() { follower.reached(applied) }

    /// All messages up to this one are applied. The log may end with parts of a record that no hub completes.
    var applied: UInt64 { applying.count == 0 ? newest.sequence : applying.complete.sequence }
}
