import Dispatch
import Logging
import Tokens

extension AccountError {
    /// - Parameter detail: what to do next.
    static func tooManyAttempts(_ detail: String) -> AccountError { AccountError("TOO_MANY_ATTEMPTS_TRY_LATER", detail) }

    /// - Parameter wait: ms until another attempt is looked at.
    static func tooManyAttempts(wait: Int64) -> AccountError {
        let seconds = (wait + 999) / 1000
        let span = seconds < 120 ? "\(seconds) s" : "\((seconds + 59) / 60) min"
        return tooManyAttempts("Try again in \(span)")
    }
}

/// Every place where attempts are counted: endpoints ask here and nowhere else.
extension AccountService {
    /// Checks a password, throttled: counted before, forgotten if it was right.
    /// - Parameters:
    ///   - who: the account's id if there is one, else what was typed: so an account has one count, by whatever name it is called.
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

    /// The hash of a new password; it costs as much as a guess, and is counted.
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

    /// An account is about to be made, a guest's too.
    func admitSignUp(from peer: String) throws(AccountError) {
        try admit(throttle.admitSignUp(from: peer, now: clock.steady()))
    }

    /// A mail to an address is asked for; ask before looking whether there is such an account.
    func admitMail(to mailAddress: String, from peer: String) throws(AccountError) {
        try admit(throttle.admitMail(to: mailAddress, from: peer, now: clock.steady()))
    }

    /// A mailed code is about to be looked up.
    func admitCode(from peer: String) throws(AccountError) {
        try admit(throttle.admitCode(from: peer, now: clock.steady()))
    }

    private func admit(_ wait: Int64?) throws(AccountError) {
        keepThrottleSoon()
        if let wait { throw .tooManyAttempts(wait: wait) }
    }

    /// Counts are written once a second at most, many together: a crash forgets that one second.
    private func keepThrottleSoon() {
        guard throttle.hasChanges, !keepsThrottleSoon else { return }
        keepsThrottleSoon = true
        DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(1)) { [weak self] in
            Task { await self?.keepThrottle() }
        }
    }

    func keepThrottle() {
        keepsThrottleSoon = false
        if isClosed { return }
        let rows = throttle.drainChanges(now: clock.steady(), wall: now())
        guard !rows.isEmpty else { return }
        do {
            try store.transaction { try $0.save(rows) }
        } catch {
            logger.error("attempts could not be written down", metadata: ["why": "\(error)"])
        }
    }
}
