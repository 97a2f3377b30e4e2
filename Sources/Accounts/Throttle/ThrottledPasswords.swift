import DispatchNet
import Limits
import Logging
import Scheduling
import Tokens

extension AccountError {
    /// - Parameter detail: advice for the user.
    static func tooManyAttempts(_ detail: String) -> AccountError { AccountError("TOO_MANY_ATTEMPTS_TRY_LATER", detail) }

    /// - Parameter wait: ms until another attempt is accepted.
    static func tooManyAttempts(wait: Int64) -> AccountError {
        let seconds = (wait + 999) / 1000
        let span = seconds < 120 ? "\(seconds) s" : "\((seconds + 59) / 60) min"
        return tooManyAttempts("Try again in \(span)")
    }
}

/// All counting of attempts: endpoints use only these methods.
extension AccountService {
    /// Checks a password with throttling: counted before the check, reset if correct.
    /// - Parameters:
    ///   - who: the account's id if it exists, otherwise the typed name: so an account has one count under all its names.
    ///   - stored: the account's hash; nil costs the same and yields `.wrong`.
    ///   - peer: the client's network address.
    /// - Throws: TOO_MANY_ATTEMPTS_TRY_LATER.
    func checkPassword(_ password: String, of who: String, stored: String?, peer: String) async throws(AccountError) -> PasswordVerdict {
        if let wait = throttle.admitPassword(of: who, from: peer, now: clock.steady()) { throw .tooManyAttempts(wait: wait) }
        defer { scheduleThrottleWrite() }
        let verdict: PasswordVerdict
        do throws(AccountError) {
            try enter(peer)
            defer { throttle.leave(from: peer) }
            verdict = try await passwords.verify(password, stored)
        } catch {
            throttle.passwordWithdrawn(of: who, from: peer, now: clock.steady())
            throw error
        }
        if verdict != .wrong { throttle.passwordPassed(of: who, from: peer) }
        return verdict
    }

    /// Hashes a new password; counted, as it costs as much as a check.
    /// - Throws: TOO_MANY_ATTEMPTS_TRY_LATER.
    func hashPassword(_ password: String, peer: String) async throws(AccountError) -> String {
        try admit(throttle.admitNewPassword(from: peer, now: clock.steady()))
        try enter(peer)
        defer { throttle.leave(from: peer) }
        return try await passwords.hash(password)
    }

    /// Limits one network's share of the password queue, so that others get through.
    private func enter(_ peer: String) throws(AccountError) {
        guard throttle.enter(from: peer) else {
            throw .tooManyAttempts("Many people of your network are signing in. Try again in a few seconds.")
        }
    }

    /// The owner of the address has reset the password: sign-ins to the account are allowed at once.
    func liftThrottle(of uid: String) {
        throttle.lift(uid)
        scheduleThrottleWrite()
    }

    /// Counts a new account, including guests.
    func admitSignUp(from peer: String) throws(AccountError) {
        try admit(throttle.admitSignUp(from: peer, now: clock.steady()))
    }

    /// Counts a mail to an address; call it before looking up the account.
    func admitMail(to mailAddress: String, from peer: String) throws(AccountError) {
        try admit(throttle.admitMail(to: mailAddress, from: peer, now: clock.steady()))
    }

    /// Counts an attempt with a mailed code.
    func admitCode(from peer: String) throws(AccountError) {
        try admit(throttle.admitCode(from: peer, now: clock.steady()))
    }

    private func admit(_ wait: Int64?) throws(AccountError) {
        scheduleThrottleWrite()
        if let wait { throw .tooManyAttempts(wait: wait) }
    }

    /// Writes the counts, at most once a second: a crash loses the last second.
    private func scheduleThrottleWrite() {
        guard throttle.hasChanges, !throttleWriteIsScheduled else { return }
        throttleWriteIsScheduled = true
        scheduler.after(ms: 1_000, on: queue) { [weak self] in
            self?.assumeIsolated { $0.keepThrottle() }
        }
    }

    func keepThrottle() {
        throttleWriteIsScheduled = false
        if isClosed { return }
        let rows = throttle.drainChanges(now: clock.steady(), wall: now())
        guard !rows.isEmpty else { return }
        do {
            try store.transaction(.withSystem) { try $0.save(rows) }
        } catch AccountStoreFault.unavailable(let reason) {
            // Retried with the next count, once the cluster is reachable. Until then they count only here.
            throttle.keepChanges(rows)
            faults.log("attempts cannot be told to the other hubs", ["reason": "\(reason)"])
        } catch {
            logger.error("attempts could not be written down", metadata: ["why": "\(error)"])
        }
    }
}

/// Limits of attempts (accounts contract §13), named after the counted attempts; times are in ms.
public struct ThrottleSettings: Sendable, Equatable {
    /// A number of attempts per period, in a burst or spread out.
    public struct Rate: Sendable, Equatable {
        public var count: Int64
        public var periodMs: Int64

        public init(_ count: Int64, perMs periodMs: Int64) {
            self.count = max(1, count)
            self.periodMs = max(1, periodMs)
        }

        /// The time per attempt with an empty bucket.
        var intervalMs: Int64 { max(1, periodMs / count) }

        var bucket: TokenBucket.Rate { TokenBucket.Rate(burst: count, interval: intervalMs) }
    }

    /// False disables all limits, for development.
    package var isOn = true

    /// Failed passwords of one account that cause no wait.
    public var freeFailures: Int64 = 5
    /// The wait after the last free failure; it doubles with each further one.
    package var firstDelayMs: Int64 = 1_000
    /// The longest wait.
    public var longestDelayMs: Int64 = 15 * 60_000
    /// Failed passwords are forgotten this long after the last one and its wait.
    package var windowMs: Int64 = 15 * 60_000
    /// Consecutive failed passwords, with or without pauses, after which the account's passwords are refused unchecked for `lockMs`. A password
    /// reset ends the lock.
    public var mostFailures: Int64 = 100
    public var lockMs: Int64 = 24 * 3_600_000

    /// Failed passwords of one account from one network address.
    public var failuresOfPair = Rate(20, perMs: 15 * 60_000)
    /// Failed passwords of all accounts from one network address, which many people may share.
    public var failuresOfAddress = Rate(100, perMs: 15 * 60_000)
    /// Passwords hashed for one network address, whether correct, wrong or new: each takes a tenth of a second of CPU time.
    public var passwordsOfAddress = Rate(600, perMs: 15 * 60_000)
    /// Passwords of one network address that are being hashed or waiting at the same time: an eighth of all that may wait.
    public var passwordsAtOnce = 32
    /// New accounts, including guests, from one network address.
    public var signUps = Rate(100, perMs: 3_600_000)
    /// Mails to one mail address.
    public var mailsTo = Rate(5, perMs: 3_600_000)
    /// Mails requested from one network address.
    public var mailsFrom = Rate(20, perMs: 3_600_000)
    /// Attempts with mailed codes from one network address.
    public var codes = Rate(10, perMs: 60_000)

    /// Most subjects of each kind; beyond it those that expire first are dropped.
    package var mostSubjects = 50_000

    public init() {}
}
