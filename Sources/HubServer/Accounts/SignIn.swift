import HubEngine
import JSONTree

/// That somebody is, or is about to be, an account's user on one connection. Used on the loop of its lane only.
///
///     begun ── the token is checked ──► settled ── held by a session ──► ended
///       └────────── the account changes ──────────┴──► the session is revoked
///                   meanwhile: refused
///
/// It is begun before its token is checked, so that a change which comes while that happens is not missed.
final class SignIn: @unchecked Sendable {
    // Sendable: made and used on one loop; a verifier's thread only carries it.

    /// As the token says; that it tells the truth is found out while the sign-in waits.
    let uid: String
    /// The account's session that the token is of.
    let session: String?
    /// Whoever acts as the user; nil while the token is checked.
    weak var holder: Session?
    /// The account has changed since.
    fileprivate(set) var isOver = false
    /// Where it is among those of its user.
    fileprivate var place = 0

    fileprivate init(uid: String, session: String?) {
        self.uid = uid
        self.session = session
    }
}

/// The sign-ins of one lane by user: those of one account are found without a look at anybody else's. Used on the lane's loop.
struct SignIns {
    private var byUser: [String: [SignIn]] = [:]

    /// For tests and metrics.
    var count: Int { byUser.values.reduce(0) { $0 + $1.count } }

    /// Notes whose credential is about to be checked; nil when it names no user.
    mutating func begin(_ credential: String) -> SignIn? {
        guard let claims = TokenParts.claims(of: credential), case .string(let uid) = TokenParts.subject(claims) else { return nil }
        let session: String? = if case .string(let text) = claims.child("sid") { text.string } else { nil }
        let signIn = SignIn(uid: uid.string, session: session)
        signIn.place = byUser[signIn.uid]?.count ?? 0
        byUser[signIn.uid, default: []].append(signIn)
        return signIn
    }

    /// What a check has led to: a failure also when the account has changed meanwhile, as nobody knows what the check had seen.
    mutating func settled(_ signIn: SignIn?, _ result: Result<Identity, Failure>) -> Result<Identity, Failure> {
        guard let signIn else { return result }
        guard case .success = result, !signIn.isOver else {
            end(signIn)
            return signIn.isOver ? .failure(Credentials.expiredToken) : result
        }
        return result
    }

    /// O(1).
    mutating func end(_ signIn: SignIn) {
        guard let index = byUser.index(forKey: signIn.uid) else { return }
        let (place, last) = (signIn.place, byUser.values[index].count - 1)
        guard place <= last, byUser.values[index][place] === signIn else { return }
        if last == 0 {
            byUser.remove(at: index)
            return
        }
        byUser.values[index].swapAt(place, last)
        byUser.values[index].removeLast()
        if place < last { byUser.values[index][place].place = place }
    }

    /// Takes what was said of an account from everybody who is it.
    /// - Parameter session: only those of this session of the account; nil for all.
    /// - Returns: whose sessions are to be revoked.
    mutating func takeOver(uid: String, session: String?) -> [Session] {
        let affected = (byUser[uid] ?? []).filter { session == nil || $0.session == session }
        for signIn in affected {
            signIn.isOver = true
            // Those that are checked find out when that is done.
            if signIn.holder != nil { end(signIn) }
        }
        return affected.compactMap(\.holder)
    }
}
