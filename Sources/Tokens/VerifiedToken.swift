public import JSONTree

/// A verified token: its user, and the claims that rules see.
public final class VerifiedToken: Sendable {
    /// `sub`, 1 to 128 characters.
    public let uid: String
    /// `sid`: the session that the token belongs to; nil for tokens of other issuers.
    public let sessionID: String?
    public let issuer: String
    /// See `provider(of:)`.
    public let provider: String
    /// Seconds since the epoch; 0 without the claim.
    public let authTime: Int64
    public let issuedAt: Int64
    public let expires: Int64
    /// The token generation of the account when the token was issued (`firebase.generation`; 0 without the claim). A count and not a time: it is
    /// exact within a second, and changing a clock cannot make an old token valid again.
    package let generation: Int64
    /// The rules' variable `auth`: an object with `uid`, `provider` and `token`, which holds all claims (contract §8.1).
    public let auth: Node
    /// Whether this service signed it, so that it has an account and a session.
    public let isOwn: Bool
    /// How long the verifying key is known to be valid, in ms of a monotonic clock.
    package let checkedUntil: Int64

    /// - Parameter claims: verified claims.
    package init(_ claims: Node, isOwn: Bool, checkedUntil: Int64 = .max) throws(TokenFault) {
        self.checkedUntil = checkedUntil
        uid = try TokenExpectations.subject(claims)
        issuer = claims.text("iss") ?? ""
        sessionID = isOwn ? claims.text("sid") : nil
        provider = Self.provider(of: claims)
        authTime = claims.seconds("auth_time") ?? 0
        issuedAt = claims.seconds("iat") ?? 0
        generation = claims.child("firebase").seconds("generation") ?? 0
        guard let expires = claims.seconds("exp") else { throw .expired }
        self.expires = expires
        auth = ["uid": .string(uid), "provider": .string(provider), "token": claims]
        self.isOwn = isOwn
    }

    /// The rules' `auth.provider`: `firebase.sign_in_provider`, or `custom`. Never `hub`, which identifies the hub's own writes and which rules
    /// trust: an issuer can choose its claims freely.
    public static func provider(of claims: Node) -> String {
        let claimed = claims.child("firebase").text("sign_in_provider") ?? "custom"
        return claimed == "hub" ? "custom" : claimed
    }

    /// All claims.
    public var claims: Node { auth.child("token") }
}

/// A cache of verified tokens, so that a repeated token costs no signature check.
///
/// Two generations bound it without bookkeeping per use. New and used tokens are in the young one. When that reaches half of the limit it
/// becomes the old one, and tokens unused since then are dropped.
package struct VerifiedTokenCache {
    fileprivate struct Generation {
        var tokens: [Tail: Entry] = [:]
        /// The keys of a user's tokens; may include dropped ones.
        var byUser: [String: [Tail]] = [:]
    }

    fileprivate struct Entry {
        let text: Text
        let token: VerifiedToken
    }

    /// The last 32 letters of a token: 192 bits of its signature, which clients cannot choose. The whole text is compared as well.
    fileprivate struct Tail: Hashable {
        private let words: (UInt64, UInt64, UInt64, UInt64)

        init?(_ text: String) {
            var text = text
            let words: (UInt64, UInt64, UInt64, UInt64)? = text.withUTF8 { bytes in
                guard bytes.count >= 32, let base = bytes.baseAddress else { return nil }
                let end = UnsafeRawPointer(base) + bytes.count
                return (
                    (end - 32).loadUnaligned(as: UInt64.self), (end - 24).loadUnaligned(as: UInt64.self),
                    (end - 16).loadUnaligned(as: UInt64.self), (end - 8).loadUnaligned(as: UInt64.self)
                )
            }
            guard let words else { return nil }
            self.words = words
        }

        static func == (a: Tail, b: Tail) -> Bool { a.words == b.words }

        func hash(into hasher: inout Hasher) {
            hasher.combine(words.0)
            hasher.combine(words.3)
        }
    }

    /// The dropped generation, to be freed outside the lock.
    package struct Dropped {
        fileprivate let generation: Generation
    }

    /// Most tokens of a generation; 0 caches none.
    private let half: Int
    private var young = Generation()
    private var old = Generation()

    /// - Parameter limit: the most tokens, an even number; 0 caches none.
    package init(limit: Int) { half = (limit + 1) / 2 }

    /// Number of cached tokens.
    package var count: Int { young.tokens.count + old.tokens.count }

    /// The cached token with exactly this text. O(length)
    package mutating func token(_ text: String) -> (VerifiedToken, Dropped?)? {
        guard let tail = Tail(text) else { return nil }
        if let entry = young.tokens[tail] { return entry.text == Text(text) ? (entry.token, nil) : nil }
        guard let entry = old.tokens[tail], entry.text == Text(text) else { return nil }
        old.tokens[tail] = nil
        return (entry.token, add(tail, entry))
    }

    package mutating func insert(_ text: String, _ token: VerifiedToken) -> Dropped? {
        guard half > 0, let tail = Tail(text) else { return nil }
        old.tokens[tail] = nil
        return add(tail, Entry(text: Text(text), token: token))
    }

    private mutating func add(_ tail: Tail, _ entry: Entry) -> Dropped? {
        var dropped: Dropped?
        if young.tokens.count >= half, young.tokens[tail] == nil {
            dropped = Dropped(generation: old)
            (old, young) = (young, Generation())
        }
        if young.tokens.updateValue(entry, forKey: tail) == nil { young.byUser[entry.token.uid, default: []].append(tail) }
        return dropped
    }

    /// Drops the tokens of a user. O(number of tokens)
    package mutating func forget(uid: String) {
        for tail in young.byUser.removeValue(forKey: uid) ?? [] { young.tokens[tail] = nil }
        for tail in old.byUser.removeValue(forKey: uid) ?? [] { old.tokens[tail] = nil }
    }

    package mutating func forget(_ text: String) {
        guard let tail = Tail(text) else { return }
        young.tokens[tail] = nil
        old.tokens[tail] = nil
    }

    package mutating func removeAll() -> [Dropped] {
        defer { (young, old) = (Generation(), Generation()) }
        return [Dropped(generation: young), Dropped(generation: old)]
    }
}
