import Dispatch
import Journal
import Logging
import Scheduling

/// Keeps a shard's log short, and fills a hub whose next messages were removed.
///
/// ```
/// the writer: the log has grown ─► snapshot ─► messages in it and on all hubs, minus a reserve ─► purged
/// a hub that needs purged messages: snapshot ─► data folder ─► the rest from the log          (before its databases are opened)
/// ```
extension Shard {
    // MARK: Shortening

    /// Shortens the log if due. Called on the shard's writer.
    /// - Parameter others: the message up to which all other hubs have the log.
    func shorten(others: UInt64) {
        queue.async { [self] in
            guard followState == .following, let state = follower.sound else { return }
            let appliedByAll = min(others, applying.complete.sequence)
            switch retention.nextStep(state, appliedByAll: appliedByAll, nowMs: scheduler.steadyMs) {
            case .writeSnapshot(let known): writeSnapshot(behind: known)
            case .purge(let last):
                logger.info("the cluster's log is shortened", metadata: ["from": "\(state.first)", "upTo": "\(last)"])
                log.purge(before: last + 1) { [weak self] _ in self?.hop { $0.follower.check() } }
            case nil: break
            }
        }
    }

    /// Writes a snapshot, unless another hub has done so.
    private func writeSnapshot(behind known: UInt64) {
        snapshots.queue.async { [self] in
            let result = Result { () throws -> (place: SnapshotPlace, bytes: UInt64)? in
                if let newest = try snapshots.newest(), newest.place.complete.sequence > known { return newest }
                _ = try snapshots.write()
                return try snapshots.newest()
            }
            hop { $0.wrote(result) }
        }
    }

    private func wrote(_ result: Result<(place: SnapshotPlace, bytes: UInt64)?, any Error>) {
        switch result {
        // Ignore a snapshot of another log: it allows no purge.
        case .success((let place, let bytes)?) where place.created == created:
            retention.wrote(place, bytes: bytes)
            logger.info("a snapshot of the shard is on the servers", metadata: ["upTo": "\(place.complete.sequence)", "bytes": "\(bytes)"])
        case .success: retention.failed(nowMs: scheduler.steadyMs)
        case .failure(let error):
            retention.failed(nowMs: scheduler.steadyMs)
            if case SnapshotStream.Fault.stopped = error { return }
            logger.warning("no snapshot of the shard was written", metadata: ["reason": "\(error)"])
        }
    }

    // MARK: Importing a snapshot

    /// Handles a log that no longer has this hub's next message: imports a snapshot, if no database has read the folder yet.
    func importSnapshot(upTo needed: UInt64) {
        guard !isImporting, followState != .closed else { return }
        isBehindPurge = true
        publish()
        if isOpen {
            guard !hasRequestedRestart else { return }
            hasRequestedRestart = true
            logger.critical(
                "this hub was away for longer than the cluster's log is kept: start it again, and it takes a snapshot over",
                metadata: ["has": "\(newest.sequence)", "logBegins": "\(needed + 1)"])
            return
        }
        guard applying.count == 0, flight == nil else { return }
        isImporting = true
        logger.notice("taking a snapshot of the shard over", metadata: ["upTo": "\(needed)"])
        let created = self.created
        snapshots.queue.async { [self] in
            let result = Result { () throws -> LocalJournals.Start in
                _ = try snapshots.read(upTo: needed, created: created)
                return try local.readStart(ofShard: number)
            }
            hop { $0.snapshotImported(result, needed) }
        }
    }

    private func snapshotImported(_ result: Result<LocalJournals.Start, any Error>, _ needed: UInt64) {
        isImporting = false
        guard followState != .closed else { return notifyOpeners() }
        switch result {
        case .success(let start):
            ledger = start.ledger
            applying = LocalApplyQueue(complete: start.complete)
            (emptyImportAttempts, isBehindPurge) = (0, false)
            follower.restart(created: start.created, at: start.complete)
            logger.notice("a snapshot of the shard was taken over", metadata: ["upTo": "\(newest.sequence)"])
            follower.check()
        case .failure(SnapshotStream.Fault.absent):
            emptyImportAttempts += 1
            // A snapshot may have been replaced while it was read.
            if emptyImportAttempts >= LogVerifier.looks {
                follower.refuse("it begins with message \(needed + 1), this hub needs those from \(newest.sequence + 1) on, and no snapshot has them")
                notifyOpeners()
            }
        case .failure(let error):
            logger.warning("no snapshot was taken over; it is tried again", metadata: ["reason": "\(error)"])
        }
        publish()
    }

    // MARK: Opening

    /// Calls back when the shard's namespaces can be read from the folder: when the log is followed, or cannot be, or has not been
    /// heard of for a while. From then on no snapshot is imported.
    func whenOpenable(_ done: @escaping @Sendable () -> Void) {
        queue.async { [self] in
            openers.append(done)
            if isOpen || followState != .opening { return notifyOpeners() }
            scheduler.after(ms: settings.openTimeoutMs, on: queue) { [weak self] in
                guard let self, !isImporting, !isBehindPurge else { return }
                notifyOpeners()
            }
        }
    }

    func notifyOpeners() {
        guard !openers.isEmpty else { return }
        isOpen = true
        let waiting = openers
        openers = []
        for done in waiting { done() }
    }
}
