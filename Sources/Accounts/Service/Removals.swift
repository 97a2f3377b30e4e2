import GRDB
import Limits
import Logging
import Scheduling
import Synchronization

/// Deleted accounts whose data may still exist: a trigger of the schema records each one in the transaction that deletes it.
extension AccountTransaction {
    /// Oldest first.
    func removals() throws -> [String] {
        try Row.fetchAll(db, cached: "SELECT uid FROM removal ORDER BY created_at, uid", []).map { $0[0] }
    }

    func hasPendingRemoval(of uid: String) throws -> Bool {
        try Row.fetchOne(db, cached: "SELECT 1 FROM removal WHERE uid = ?", [uid]) != nil
    }

    func removalDone(_ uid: String) throws { try execute("DELETE FROM removal WHERE uid = ?", [uid]) }
}

extension AccountService {
    /// Deleted accounts whose data must still be removed.
    public func pendingRemovals() -> [String] {
        do { return try store.read { try $0.removals() } } catch AccountStoreFault.closed { return [] } catch {
            logger.error("deleted accounts cannot be read", metadata: ["reason": "\(error)"])
            return []
        }
    }

    /// Whether the data of a deleted account must still be removed, as another hub of the cluster may have removed it. True if unknown.
    public func hasPendingRemoval(of uid: String) -> Bool {
        do { return try store.read { try $0.hasPendingRemoval(of: uid) } } catch AccountStoreFault.closed { return false } catch { return true }
    }

    /// Records that the data of a deleted account is removed. If recording fails, the next start removes it again.
    public func removalDone(_ uid: String) {
        do { try store.transaction { try $0.removalDone(uid) } } catch AccountStoreFault.closed {
            // The next start removes it again.
        } catch {
            faults.log("the removal of a deleted account's data cannot be noted", ["reason": "\(error)"])
        }
        removals.end(uid, true)
    }
}

// MARK: Responses after removals

extension AccountService {
    /// The response to a stored deletion, once the data of the accounts is removed.
    /// - Parameter answer: the response after the removal. If that takes longer than `AccountSettings.removalWaitMs`, the response is neither a
    ///   success nor an error from which an SDK draws conclusions.
    func answer(_ answer: AccountAnswer, behindRemovalOf uids: [String]) async -> AccountAnswer {
        guard removesData else { return answer }
        let end = clock.steady() + settings.removalWaitMs
        for uid in uids where !(await isRemoved(uid, by: end)) { return .removalPending }
        return answer
    }

    /// Whether a listener removes the data of deleted accounts.
    nonisolated var removesData: Bool { listener.withLock { $0?.removesData == true } }

    private func isRemoved(_ uid: String, by end: Int64) async -> Bool {
        await withCheckedContinuation { continuation in
            // Checked here, as other work of the service may run before this closure, and may finish the removal.
            guard hasPendingRemoval(of: uid) else { return continuation.resume(returning: true) }
            let waiting = removals.add(uid) { continuation.resume(returning: $0) }
            scheduler.after(ms: max(0, end - clock.steady()), on: queue) { [weak self] in
                self?.assumeIsolated { $0.removals.end(uid, waiting, false) }
            }
        }
    }

    /// Ends waits for removals by another hub of the cluster. O(accounts waited for)
    func endRemovedWaits() {
        for uid in removals.uids where !hasPendingRemoval(of: uid) { removals.end(uid, true) }
    }
}

/// Requests waiting for the removal of deleted accounts' data. Confined to the service's queue.
struct PendingRemovals {
    private var waiting: [String: [Int: (Bool) -> Void]] = [:]
    private var count = 0

    var uids: [String] { Array(waiting.keys) }

    /// - Parameter done: called once; true if the data is removed.
    /// - Returns: the number of the waiting request.
    mutating func add(_ uid: String, _ done: @escaping (Bool) -> Void) -> Int {
        count += 1
        waiting[uid, default: [:]][count] = done
        return count
    }

    /// Ends the waits of all requests for an account.
    mutating func end(_ uid: String, _ isGone: Bool) {
        for done in (waiting.removeValue(forKey: uid) ?? [:]).values { done(isGone) }
    }

    /// Ends the wait of one request, if it is still waiting.
    mutating func end(_ uid: String, _ number: Int, _ isGone: Bool) {
        guard let done = waiting[uid]?.removeValue(forKey: number) else { return }
        if waiting[uid]?.isEmpty == true { waiting[uid] = nil }
        done(isGone)
    }

    mutating func endAll() { for uid in uids { end(uid, false) } }
}
