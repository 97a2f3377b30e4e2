import DequeModule
import Dispatch
import Journal
import Logging
import Scheduling

/// What a shard does when its log is followed, refused or ended.
extension Shard: LogFollowerOwner {
    func open() { queue.async { [self] in follower.start(self) } }

    func followerDid(_ report: FollowMachine.Report) {
        switch report {
        case .disconnected(wasFollowing: true):
            logger.warning("the connection to the cluster is lost: writes wait, reads go on")
            publish()
        case .disconnected(wasFollowing: false): break
        case .follows:
            logger.info("following the cluster's log", metadata: ["from": "\(newest.sequence)"])
            notifyOpeners()
            proceed()
        case .isMissing(let first):
            logger.notice("what comes next is no longer in the cluster's log", metadata: ["logBegins": "\(first)"])
        case .refuses(let error, let reason):
            notifyOpeners()
            fail(.unknown(reason: reason))
            failWaiting(error)
        case .checked(_, .isShortened(let first)): importSnapshot(upTo: first - 1)
        case .checked(_, .isSound):
            isBehindPurge = false
            notifyIfCaughtUp()
            publish()
        case .checked(_, .isUncertain), .checked(_, .isRefused): break
        }
    }

    func delivered(_ message: LogMessage?, at sequence: UInt64, by tail: LogTail) {
        receive(message, at: sequence)
        follower.holdSlot(of: tail)
        release()
        proceed()
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
    func sweep() {
        publish()
        follower.restartIfSilent()
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
        follower.close()
        snapshots.stop()
        notifyOpeners()
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
