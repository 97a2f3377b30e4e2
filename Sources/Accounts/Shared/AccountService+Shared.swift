import Dispatch
import Journal
import Limits
import Logging
import Scheduling
import Synchronization
import Tokens

/// The service on a hub that is one of a cluster: what other hubs change takes effect here, and what this hub does not know yet it asks for
/// before it says no.
extension AccountService {
    /// Whether other hubs change the same accounts.
    nonisolated var isShared: Bool { arrivals != nil }

    /// From here on the changes of other hubs take effect on the service's queue. At the end of its start.
    nonisolated func followOthers() {
        arrivals?.begin { [weak self] in
            guard let self else { return }
            queue.async { [weak self] in self?.assumeIsolated { $0.applyArrived() } }
        }
    }

    private func applyArrived() {
        guard !isClosed else { return }
        if store.shared?.heard == nil { store.shared?.heard = { [weak self] record in self?.assumeIsolated { $0.hear(record) } } }
        do { try store.applyArrived() } catch AccountStoreFault.closed {
            // The next start.
        } catch {
            faults.log("what other hubs have changed cannot be stored", ["reason": "\(error)"])
            scheduler.after(ms: Self.againMs, on: queue) { [weak self] in self?.assumeIsolated { $0.applyArrived() } }
        }
    }

    private static let againMs: Int64 = 1_000

    /// What another hub's record says beside the rows, directly behind its transaction.
    private func hear(_ record: AccountRecord) {
        for change in record.changes { announce(change) }
        answerRemoved()
        throttle.merge(record.counts, now: clock.steady(), wall: now())
        guard record.changesKeys else { return }
        do {
            try tokens.keys.replace(by: store.read { try $0.signingKeys() }.map { try SigningKey($0) })
            tokens.forgetAll()
        } catch {
            logger.error("the keys of ID tokens cannot be taken over", metadata: ["reason": "\(error)"])
        }
    }

    // MARK: Asking before a no

    /// What an account or a token that another hub has just made would be refused with.
    private static let mayBeBehind: Set<String> = [
        "USER_NOT_FOUND", "USER_DISABLED", "TOKEN_EXPIRED", "INVALID_ID_TOKEN", "INVALID_REFRESH_TOKEN", "INVALID_OOB_CODE",
        "EMAIL_NOT_FOUND",
    ]

    /// Carries out what may be refused since this hub does not know yet what another one has answered; then it asks the log, and tries once
    /// more if there was something.
    /// - Throws: `AccountStoreFault.unavailable` instead of a refusal that is not certain: it would sign the user out.
    func upToDate<Result: Sendable>(_ work: () async throws -> Result) async throws -> Result {
        guard isShared, let before = store.shared?.newest else { return try await work() }
        do { return try await work() } catch let error as AccountError where Self.mayBeBehind.contains(error.code) {
            try await askLog()
            guard store.shared?.newest != before else { throw error }
            return try await work()
        }
    }

    /// Returns when the store has all that the log held after the call; at once on a hub of its own.
    /// - Throws: `AccountStoreFault.unavailable` when that is not found out in time.
    func askLog() async throws {
        guard let shared = store.shared else { return }
        let log = shared.log
        let isReached = await withCheckedContinuation { continuation in log.sync { continuation.resume(returning: $0) } }
        guard isReached else { throw AccountStoreFault.unavailable("the log of the cluster does not say what else there is") }
        try store.applyArrived()
    }

    // MARK: Uses of sessions

    /// Notes a use for the others.
    func note(_ session: String, _ use: SessionUse) {
        uses.note(session, use)
        guard !keepsUsesSoon else { return }
        keepsUsesSoon = true
        scheduler.after(ms: Self.usesMs, on: queue) { [weak self] in self?.assumeIsolated { $0.keepUses() } }
    }

    static let usesMs: Int64 = 60_000

    func keepUses() {
        keepsUsesSoon = false
        while !isClosed, !uses.isEmpty {
            let part = uses.drain()
            do {
                try store.transaction(.withSystem) { transaction in for (id, use) in part { try transaction.use(id, of: use.uid, use) } }
            } catch {
                faults.log("uses of sessions cannot be told to the other hubs", ["reason": "\(error)"])
                for (id, use) in part where uses[id] == nil { note(id, use) }
                return
            }
        }
    }
}

/// Calls back when something has arrived: nobody before the service is there.
final class AccountArrivals: Sendable {
    private let hear = Mutex<Listener?>(nil)

    private struct Listener { let call: @Sendable () -> Void }

    func begin(_ hear: @escaping @Sendable () -> Void) {
        self.hear.withLock { $0 = Listener(call: hear) }
        hear()
    }

    func tell() { hear.withLock { $0 }?.call() }
}
