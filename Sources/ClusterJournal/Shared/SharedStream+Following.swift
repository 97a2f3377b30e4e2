import Dispatch
import Journal
import Logging
import Scheduling
import Synchronization

/// Whether the log can be followed and appended to, as for a shard. After an append without an answer it is also closed for appends until a check.
///
/// ```
/// opening ── the log has all received messages ──► following ── the connection was lost ──► opening
///    └─ it does not (three checks) ─► refusing ── it does again ──► following
/// ```
extension SharedStream {
    /// Starts to follow. On the queue.
    func open() {
        guard followState != .closed, works.isEmpty else { return }
        log.connection.whenChanged { [weak self] change in self?.hop { $0.connection(change) } }
        works = [
            scheduler.every(ms: settings.checkIntervalMs, on: queue) { [weak self] in self?.look(isRegular: true) },
            scheduler.every(ms: settings.sweepMs, on: queue) { [weak self] in self?.sweepWaiters() },
        ]
        look()
    }

    private func connection(_ change: NatsConnection.Change) {
        switch change {
        case .connected: look()
        case .disconnected, .closed:
            failWaiters()
            guard followState == .following else { return }
            shut(.unavailable(reason: "not connected to the cluster"))
            followState = .opening
            stopTail()
        }
    }

    /// Stops appends until the log was checked. From any thread.
    func doubt(_ fault: JournalError) {
        shut(fault)
        hop { $0.look() }
    }

    private func shut(_ fault: JournalError) { gate.withLock { $0.fault = fault } }

    /// Compares the log with the received messages; repeats soon while the result is uncertain.
    func look(isRegular: Bool = false) {
        guard followState != .closed, !works.isEmpty, !isLooking else { return }
        isLooking = true
        looks += 1
        let (newest, number) = (self.newest, looks)
        // Only a hub that has followed no log may create one.
        log.look(mayCreate: created == 0, at: newest.sequence) { [weak self] found in
            self?.hop { $0.looked(found, at: newest, number, isRegular: isRegular) }
        }
    }

    private func looked(_ found: Result<ShardLog.State, ShardLog.StateFault>, at newest: LogPlace, _ number: Int, isRegular: Bool) {
        isLooking = false
        guard followState != .closed else { return }
        switch inspection.receive(found, created: created, newest: newest, nowMs: scheduler.steadyMs) {
        case .isOpen:
            failWaiters(upTo: number)
            if gate.withLock({ $0.fault }) != nil || followState != .following {
                scheduler.after(ms: settings.retryMs, on: queue) { [weak self] in self?.look() }
            }
        case .isShortened(let first):
            refuse("it begins with message \(first), and what came before is gone")
            failWaiters(upTo: number)
        case .isAnother(let reason):
            refuse(reason)
            failWaiters(upTo: number)
        case .isSound:
            guard case .success(let state) = found else { return }
            if created == 0 { created = state.created }
            if followState != .following { follow() }
            gate.withLock { $0 = Gate(fault: nil, created: created) }
            for i in waiters.indices where waiters[i].target == nil && waiters[i].look <= number { waiters[i].target = state.last }
            notifyWaiters()
            guard isRegular else { break }
            // Nothing has arrived since the last regular check although the log has more: the consumer is stuck.
            if state.last > newest.sequence, newest == lookedAt, newest == self.newest { tail?.restart() }
            lookedAt = newest
        }
        if waiters.contains(where: { $0.target == nil }) { look() }
    }

    private func follow() {
        if case .refusing = followState { logger.notice("the cluster's log holds what this hub has applied, so it is followed again") }
        followState = .following
        logger.debug("following the cluster's log", metadata: ["from": "\(newest.sequence)"])
        stopTail()
        tail = log.tail(from: newest.sequence + 1) { [weak self] tail, sequence, bytes in
            let message = LogMessage(decoding: bytes)
            self?.hop { stream in
                // From an earlier tail: the current one delivers it as well.
                guard tail === stream.tail else { return tail.done() }
                stream.receive(message, at: sequence, by: tail)
            }
        } missing: { [weak self] first in
            self?.hop { $0.refuse("it begins with message \(first), and what came before is gone") }
        }
    }

    private func stopTail() {
        tail?.stop()
        tail = nil
    }

    /// Refuses a log that is not the followed one, or is behind it: nothing is appended, and nothing is rolled back here.
    func refuse(_ reason: String) {
        let error = JournalError.regressed(log: log.name, reason: reason)
        if followState == .refusing(error) { return }
        followState = .refusing(error)
        shut(error)
        stopTail()
        failWaiters()
        logger.critical("\(error)")
    }

    // MARK: Waiting

    func notifyWaiters() {
        guard !waiters.isEmpty else { return }
        let ready = waiters.filter { $0.target.map { $0 <= newest.sequence } ?? false }
        waiters.removeAll { $0.target.map { $0 <= newest.sequence } ?? false }
        for waiter in ready { waiter.done(true) }
    }

    private func failWaiters(upTo look: Int = .max) {
        let failed = waiters.filter { $0.look <= look && $0.target == nil }
        waiters.removeAll { $0.look <= look && $0.target == nil }
        for waiter in failed { waiter.done(false) }
    }

    private func sweepWaiters() {
        let now = scheduler.steadyMs
        let late = waiters.filter { $0.untilMs < now }
        waiters.removeAll { $0.untilMs < now }
        for waiter in late { waiter.done(false) }
    }

    func end() {
        followState = .closed
        shut(.closed)
        for work in works { work.cancel() }
        stopTail()
        let waiting = waiters
        waiters = []
        for waiter in waiting { waiter.done(false) }
    }
}
