import HubEngine
import JSONTree

/// One connection's sign-in to an account. Used on the loop of its lane only.
///
///     begun ── token is verified ──► settled ── a session holds it ──► ended
///       └────────── the account changes ─────────────────┴──► revoked: the session ends, or the verification fails
///                                                        └──► changed by its own session: the sign-in runs out after the leeway
///
/// It begins before its token is verified, so that a change of the account during the verification is not missed.
final class SignIn: @unchecked Sendable {
    // Sendable: made and used on one loop; a verifier's thread only carries it.

    /// The user that the token names; unverified while the sign-in is not settled.
    let uid: String
    /// See `Project.database`.
    fileprivate let database: String?
    /// The account session (`sid`) that the token belongs to; nil for a token without one.
    let session: String?
    /// The connection's session that is signed in; nil while the token is verified.
    weak var holder: Session?
    /// The account changed after this sign-in began.
    fileprivate(set) var isRevoked = false
    /// Its own account session changed the account while the token was verified. The identity then runs out, like the session's other sign-ins.
    fileprivate(set) var isExpiring = false
    /// Its index in `SignIns.byUser[uid]`.
    fileprivate var index = 0

    fileprivate init(uid: String, of database: String?, session: String?) {
        self.uid = uid
        self.database = database
        self.session = session
    }
}

/// The sign-ins of one lane, indexed by user: a change finds those of its account without a scan. Used on the lane's loop.
struct SignIns {
    private struct User: Hashable {
        let uid: String
        let database: String?
    }

    private var byUser: [User: [SignIn]] = [:]

    /// For tests and metrics.
    var count: Int { byUser.values.reduce(0) { $0 + $1.count } }

    /// Registers the sign-in of a credential before it is verified; nil when the credential names no user.
    /// - Parameter database: see `Project.database`. The same id names another user in each project.
    mutating func begin(_ credential: String, of database: String?) -> SignIn? {
        guard let claims = TokenParts.claims(of: credential), case .string(let uid) = TokenParts.subject(claims) else { return nil }
        let session: String? = if case .string(let text) = claims.child("sid") { text.string } else { nil }
        let signIn = SignIn(uid: uid.string, of: database, session: session)
        let user = User(uid: signIn.uid, database: database)
        signIn.index = byUser[user]?.count ?? 0
        byUser[user, default: []].append(signIn)
        return signIn
    }

    /// The result of a verification. A sign-in that was revoked meanwhile fails: the verifier may have read the account before its
    /// change.
    mutating func settle(_ signIn: SignIn?, _ result: Result<Identity, Failure>) -> Result<Identity, Failure> {
        guard let signIn else { return result }
        guard case .success = result, !signIn.isRevoked else {
            end(signIn)
            return signIn.isRevoked ? .failure(Credentials.expiredToken) : result
        }
        return result
    }

    /// Removes a sign-in. O(1)
    mutating func end(_ signIn: SignIn) {
        guard let user = byUser.index(forKey: User(uid: signIn.uid, database: signIn.database)) else { return }
        let (index, last) = (signIn.index, byUser.values[user].count - 1)
        guard index <= last, byUser.values[user][index] === signIn else { return }
        if last == 0 {
            byUser.remove(at: user)
            return
        }
        byUser.values[user].swapAt(index, last)
        byUser.values[user].removeLast()
        if index < last { byUser.values[user][index].index = index }
    }

    /// Revokes the sign-ins of an account. O(sign-ins of the account)
    /// - Parameters:
    ///   - database: see `Project.database`.
    ///   - session: the account session whose sign-ins are revoked; nil revokes all.
    ///   - author: the account session that made the change. Its sign-ins stay registered. One whose token is still being verified is not
    ///     refused now: its SDK would fall back to the credential that has just ended and sign its user out.
    /// - Returns: the connections' sessions to revoke, and those of the author, whose identity is to run out.
    mutating func revoke(
        uid: String, of database: String?, session: String?, author: String?
    ) -> (revoked: [Session], expireAfterLeeway: [Session]) {
        let affected = (byUser[User(uid: uid, database: database)] ?? []).filter { session == nil || $0.session == session }
        let isSpared = { (signIn: SignIn) in author != nil && signIn.session == author }
        let revoked = affected.filter { !isSpared($0) }
        for signIn in revoked {
            signIn.isRevoked = true
            // Sign-ins still being verified stay registered: `settle` fails and removes them.
            if signIn.holder != nil { end(signIn) }
        }
        let spared = affected.filter(isSpared)
        for signIn in spared where signIn.holder == nil { signIn.isExpiring = true }
        return (revoked.compactMap(\.holder), spared.compactMap(\.holder))
    }
}
