import DequeModule
import Dispatch
import Journal
import Logging
import Scheduling

/// Whether the log can be followed and appended to.
///
/// ```
/// opening ── the log has all received messages ──► following ── the connection was lost ──► opening
///    └─ it does not (three checks) ─► refusing ── it does again ──► following
/// ```
extension Shard {
    func open() {
        queue.async { [self] in
            log.connection.whenChanged { [weak self] change in self?.hop { $0.connection(change) } }
            looks = [
                scheduler.every(ms: settings.checkIntervalMs, on: queue) { [weak self] in self?.look() },
                scheduler.every(ms: settings.sweepMs, on: queue) { [weak self] in self?.sweep() },
            ]
            look()
        }
    }

    private func connection(_ change: NatsConnection.Change) {
        switch change {
        case .connected: look()
        case .disconnected, .closed:
            guard followState == .following else { return }
            logger.warning("the connection to the cluster is lost: writes wait, reads go on")
            followState = .opening
            stopTail()
            publish()
        }
    }

    /// Compares the log with the received messages; repeats soon while the result is uncertain.
    func look() {
        guard followState != .closed, !isLooking else { return }
        isLooking = true
        // Only a hub that has followed no log may create one.
        let newest = self.newest
        log.look(mayCreate: created == 0, at: newest.sequence) { [weak self] found in
            self?.hop { $0.looked(found, at: newest) }
        }
    }

    private func looked(_ found: Result<ShardLog.State, ShardLog.StateFault>, at newest: LogPlace) {
        isLooking = false
        guard followState != .closed else { return }
        switch inspection.receive(found, created: created, newest: newest, nowMs: scheduler.steadyMs) {
        case .isOpen:
            guard followState != .following else { return }
            scheduler.after(ms: settings.retryMs, on: queue) { [weak self] in self?.look() }
        case .isAnother(let reason): refuse(reason)
        case .isShortened(let first):
            guard case .success(let state) = found, first > self.newest.sequence + 1 else { return }
            lastKnown = state.last
            // Delivered messages may not be received yet: then the next check finds them.
            if followState == .following, newest != lookedAt { return lookedAt = newest }
            if followState == .following {
                followState = .opening
                stopTail()
            }
            importSnapshot(upTo: first - 1)
        case .isSound:
            guard case .success(let state) = found else { return }
            (self.state, isBehindPurge) = (state, false)
            if created != state.created {
                if followState == .following { followState = .opening }
                created = state.created
            }
            lastKnown = state.last
            defer { publish() }
            for i in behind.indices where behind[i].target == nil { behind[i].target = state.last }
            notifyIfCaughtUp()
            if followState == .following {
                // Nothing has arrived since the last check although the log has more: the consumer is stuck.
                if state.last > newest.sequence, newest == lookedAt, newest == self.newest { tail?.restart() }
                lookedAt = newest
                return
            }
            follow()
        }
    }

    private func follow() {
        if case .refusing = followState { logger.notice("the cluster's log holds what this hub has applied, so it is followed again") }
        followState = .following
        logger.info("following the cluster's log", metadata: ["from": "\(newest.sequence)"])
        stopTail()
        tail = log.tail(from: newest.sequence + 1) { [weak self] tail, sequence, bytes in
            let message = LogMessage(decoding: bytes)
            self?.hop { $0.delivered(message, at: sequence, by: tail) }
        } missing: { [weak self] first in
            self?.hop { $0.isMissing(first) }
        }
        notifyOpeners()
        proceed()
    }

    private func delivered(_ message: LogMessage?, at sequence: UInt64, by tail: LogTail) {
        // From an earlier tail: the current one delivers it as well.
        guard tail === self.tail else { return tail.done() }
        receive(message, at: sequence)
        pendingSlots += 1
        release()
        proceed()
    }

    /// Handles a log that begins behind the next message: a check finds out why.
    private func isMissing(_ first: UInt64) {
        guard followState == .following else { return }
        logger.notice("what comes next is no longer in the cluster's log", metadata: ["logBegins": "\(first)"])
        followState = .opening
        stopTail()
        look()
    }

    private func stopTail() {
        tail?.stop()
        retries += tail?.refetches ?? 0
        (tail, pendingSlots) = (nil, 0)
    }

    /// Refuses a log that is not the followed one, or is behind it: nothing is appended, and nothing is rolled back here.
    func refuse(_ reason: String) {
        let error = JournalError.regressed(log: log.name, reason: reason)
        if followState == .refusing(error) { return }
        followState = .refusing(error)
        stopTail()
        logger.critical("\(error)")
        notifyOpeners()
        fail(.unknown(reason: reason))
        failWaiting(error)
    }

    /// Fails the waiting batches; local stores continue.
    private func failWaiting(_ error: JournalError, olderThan limit: Int64 = .max) {
        let items = waiting
        waiting = []
        for item in items {
            if case .append = item.work, item.sinceMs < limit {
                decide(item.namespace, item.number, .failure(error))
            } else {
                waiting.append(item)
            }
        }
        proceed()
    }

    /// Fails batches that have waited longer than an append may take, and resubscribes to a silent log.
    private func sweep() {
        publish()
        if followState == .following, let tail, tail.isSilent { tail.restart() }
        guard flight == nil, !waiting.isEmpty else { return }
        let limit = scheduler.steadyMs - log.settings.appendMs
        guard waiting.contains(where: { $0.sinceMs < limit }) else { return }
        failWaiting(.unavailable(reason: log.connection.isConnected ? "the log has no leader" : "no server is reached"), olderThan: limit)
    }

    // MARK: End

    /// Ends the shard, after everything appended before, or at once.
    func close(isLate: Bool, _ done: @escaping @Sendable () -> Void) {
        queue.async { [self] in
            if isLate { return end(done) }
            endWhenIdle(done)
        }
    }

    private func endWhenIdle(_ done: @escaping @Sendable () -> Void) {
        if followState == .closed { return done() }
        // Do not wait for a local journal that is closed or whose disk is full: the log has the missing batches.
        if flight == nil, waiting.isEmpty, applying.count == 0 || applying.isStalled { return end(done) }
        scheduler.after(ms: 1, on: queue) { [self] in endWhenIdle(done) }
    }

    private func end(_ done: @escaping @Sendable () -> Void) {
        guard followState != .closed else { return done() }
        followState = .closed
        for look in looks { look.cancel() }
        snapshots.stop()
        notifyOpeners()
        stopTail()
        if let flight {
            self.flight = nil
            decide(flight.items, .closed)
        }
        let items = Array(waiting)
        waiting = []
        decide(items, .closed)
        storePosition(done)
    }
}
