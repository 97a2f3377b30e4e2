import DispatchNet
import Limits
import Logging
import Scheduling
import Tokens

extension AccountError {
    /// - Parameter detail: what to do next.
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
    /// Checks a password, throttled: counted before the check, reset if it was right.
    /// - Parameters:
    ///   - who: the account's id if there is one, else the typed name: so an account has one count under all its names.
    ///   - stored: its hash; nil costs the same and is `.wrong`.
    ///   - peer: the client's network address.
    /// - Throws: TOO_MANY_ATTEMPTS_TRY_LATER.
    func checkPassword(_ password: String, of who: String, stored: String?, peer: String) async throws(AccountError) -> PasswordVerdict {
        if let wait = throttle.admitPassword(of: who, from: peer, now: clock.steady()) { throw .tooManyAttempts(wait: wait) }
        defer { keepThrottleSoon() }
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

    /// The hash of a new password; counted, as it costs as much as a check.
    /// - Throws: TOO_MANY_ATTEMPTS_TRY_LATER.
    func hashPassword(_ password: String, peer: String) async throws(AccountError) -> String {
        try admit(throttle.admitNewPassword(from: peer, now: clock.steady()))
        try enter(peer)
        defer { throttle.leave(from: peer) }
        return try await passwords.hash(password)
    }

    /// One network's share of the queue for passwords, so that the others find room in it.
    private func enter(_ peer: String) throws(AccountError) {
        guard throttle.enter(from: peer) else {
            throw .tooManyAttempts("Many people of your network are signing in. Try again in a few seconds.")
        }
    }

    /// The password was reset by the owner of the address: the account may be signed in to at once.
    func liftThrottle(of uid: String) {
        throttle.lift(uid)
        keepThrottleSoon()
    }

    /// Counts a new account, a guest's too.
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
        keepThrottleSoon()
        if let wait { throw .tooManyAttempts(wait: wait) }
    }

    /// Writes the counts, at most once a second: a crash loses that second.
    private func keepThrottleSoon() {
        guard throttle.hasChanges, !keepsThrottleSoon else { return }
        keepsThrottleSoon = true
        scheduler.after(ms: 1_000, on: queue) { [weak self] in
            self?.assumeIsolated { $0.keepThrottle() }
        }
    }

    func keepThrottle() {
        keepsThrottleSoon = false
        if isClosed { return }
        let rows = throttle.drainChanges(now: clock.steady(), wall: now())
        guard !rows.isEmpty else { return }
        do {
            try store.transaction(.withSystem) { try $0.save(rows) }
        } catch AccountStoreFault.unavailable(let reason) {
            // With the next count, when the cluster can be reached again. Meanwhile they count here.
            throttle.keepChanges(rows)
            faults.log("attempts cannot be told to the other hubs", ["reason": "\(reason)"])
        } catch {
            logger.error("attempts could not be written down", metadata: ["why": "\(error)"])
        }
    }
}

/// Limits of attempts (accounts contract §13), named after what they count; times are milliseconds.
public struct ThrottleSettings: Sendable, Equatable {
    /// A number of attempts per period, at once or spread.
    public struct Rate: Sendable, Equatable {
        public var count: Int64
        public var periodMs: Int64

        public init(_ count: Int64, perMs periodMs: Int64) {
            self.count = max(1, count)
            self.periodMs = max(1, periodMs)
        }

        /// Time per attempt of an empty bucket.
        var intervalMs: Int64 { max(1, periodMs / count) }

        var bucket: TokenBucket.Rate { TokenBucket.Rate(burst: count, interval: intervalMs) }
    }

    /// Without limits, for development.
    public var isOn = true

    /// Wrong passwords of one account that are free.
    public var freeFailures: Int64 = 5
    /// The wait after the last free one; it doubles with each further one.
    public var firstDelayMs: Int64 = 1_000
    /// The longest wait.
    public var longestDelayMs: Int64 = 15 * 60_000
    /// Wrong passwords are forgotten this long after the last of them, and after its wait.
    public var windowMs: Int64 = 15 * 60_000
    /// Consecutive wrong passwords, with or without pauses, after which the account's password is refused unchecked for
    /// `lockMs`; a password reset lifts that.
    public var mostFailures: Int64 = 100
    public var lockMs: Int64 = 24 * 3_600_000

    /// Wrong passwords of one account from one network address.
    public var failuresOfPair = Rate(20, perMs: 15 * 60_000)
    /// Wrong passwords of any account from one network address; many people may share it.
    public var failuresOfAddress = Rate(100, perMs: 15 * 60_000)
    /// Passwords that are stretched for one network address, right, wrong and newly set ones: each takes a tenth of a second of a core.
    public var passwordsOfAddress = Rate(600, perMs: 15 * 60_000)
    /// Passwords of one network address that are hashed, or wait for it, at the same time: an eighth of those that may wait in all.
    public var passwordsAtOnce = 32
    /// New accounts, guests too, from one network address.
    public var signUps = Rate(100, perMs: 3_600_000)
    /// Mails to one mail address.
    public var mailsTo = Rate(5, perMs: 3_600_000)
    /// Mails asked for from one network address.
    public var mailsFrom = Rate(20, perMs: 3_600_000)
    /// Mailed codes tried from one network address.
    public var codes = Rate(10, perMs: 60_000)

    /// Most subjects of each kind; above it those that expire first are dropped.
    public var mostSubjects = 50_000

    public init() {}
}
