import Dispatch
import Journal
import Limits
import Logging
import Scheduling
import Synchronization
import Tokens

/// The service on a hub of a cluster: applies the changes of other hubs, and catches up with the log before it refuses a request.
extension AccountService {
    /// Whether other hubs change the same accounts.
    nonisolated var isShared: Bool { arrivals != nil }

    /// Starts applying the changes of other hubs on the service's queue. Called at the end of the start.
    nonisolated func followOtherHubs() {
        arrivals?.begin { [weak self] in
            guard let self else { return }
            queue.async { [weak self] in self?.assumeIsolated { $0.applyArrived() } }
        }
    }

    private func applyArrived() {
        guard !isClosed else { return }
        if store.shared?.onRecord == nil { store.shared?.onRecord = { [weak self] record in self?.assumeIsolated { $0.apply(record) } } }
        do { try store.applyArrived() } catch AccountStoreFault.closed {
            // Retried at the next start.
        } catch {
            faults.log("what other hubs have changed cannot be stored", ["reason": "\(error)"])
            scheduler.after(ms: Self.againMs, on: queue) { [weak self] in self?.assumeIsolated { $0.applyArrived() } }
        }
    }

    private static let againMs: Int64 = 1_000

    /// Applies the effects of another hub's record beyond its rows, directly after its transaction.
    private func apply(_ record: AccountRecord) {
        for change in record.changes { announce(change) }
        endRemovedWaits()
        throttle.merge(record.counts, now: clock.steady(), wall: now())
        guard record.changesKeys else { return }
        do {
            try tokens.keys.replace(by: store.read { try $0.signingKeys() }.map { try SigningKey($0) })
            tokens.forgetAll()
        } catch {
            logger.error("the keys of ID tokens cannot be taken over", metadata: ["reason": "\(error)"])
        }
    }

    // MARK: Catching up before a refusal

    /// Errors for an account or a token that another hub may have just created.
    private static let uncertainRefusals: Set<String> = [
        "USER_NOT_FOUND", "USER_DISABLED", "TOKEN_EXPIRED", "INVALID_ID_TOKEN", "INVALID_REFRESH_TOKEN", "INVALID_OOB_CODE",
        "EMAIL_NOT_FOUND",
    ]

    /// Runs work that may be refused because this hub has not yet seen another hub's change. After such a refusal it catches up with the log, and
    /// runs the work once more if there was news.
    /// - Throws: `AccountStoreFault.unavailable` instead of an uncertain refusal, which would sign the user out.
    func upToDate<Result: Sendable>(_ work: () async throws -> Result) async throws -> Result {
        guard isShared, let before = store.shared?.newest else { return try await work() }
        do { return try await work() } catch let error as AccountError where Self.uncertainRefusals.contains(error.code) {
            try await catchUpWithLog()
            guard store.shared?.newest != before else { throw error }
            return try await work()
        }
    }

    /// Returns once the store has everything that the log contained at the call; immediately on a single hub.
    /// - Throws: `AccountStoreFault.unavailable` on timeout.
    func catchUpWithLog() async throws {
        guard let shared = store.shared else { return }
        let log = shared.log
        let isReached = await withCheckedContinuation { continuation in log.sync { continuation.resume(returning: $0) } }
        guard isReached else { throw AccountStoreFault.unavailable("the log of the cluster does not say what else there is") }
        try store.applyArrived()
    }

    // MARK: Uses of sessions

    /// Records a use, to be sent to the other hubs.
    func record(_ session: String, _ use: SessionUse) {
        uses.record(session, use)
        guard !usesWriteIsScheduled else { return }
        usesWriteIsScheduled = true
        scheduler.after(ms: Self.usesMs, on: queue) { [weak self] in self?.assumeIsolated { $0.keepUses() } }
    }

    static let usesMs: Int64 = 60_000

    func keepUses() {
        usesWriteIsScheduled = false
        while !isClosed, !uses.isEmpty {
            let part = uses.drain()
            do {
                try store.transaction(.withSystem) { transaction in for (id, use) in part { try transaction.use(id, of: use.uid, use) } }
            } catch {
                faults.log("uses of sessions cannot be told to the other hubs", ["reason": "\(error)"])
                for (id, use) in part where uses[id] == nil { record(id, use) }
                return
            }
        }
    }
}

/// Notifies the service about new records; drops notifications from before the service exists.
final class AccountArrivals: Sendable {
    private let listener = Mutex<Listener?>(nil)

    private struct Listener { let call: @Sendable () -> Void }

    func begin(_ listen: @escaping @Sendable () -> Void) {
        listener.withLock { $0 = Listener(call: listen) }
        listen()
    }

    func notify() { listener.withLock { $0 }?.call() }
}
