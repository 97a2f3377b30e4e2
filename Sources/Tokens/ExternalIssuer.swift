package import JSONTree

/// An external identity provider whose tokens the database accepts. It has no accounts here: rules see `auth.uid` = `sub`, and the claims in
/// `auth.token`.
///
/// Such an issuer may assert any uid, including that of an account of this hub.
public struct ExternalIssuer: Sendable, Hashable {
    /// `iss`, compared exactly.
    public var issuer: String
    /// Accepted values of `aud`.
    public var audiences: [String]
    public var keys: KeyLocation
    /// The accepted signature algorithms.
    public var algorithms: Set<SignatureAlgorithm>

    /// - Parameter keys: nil uses the issuer's discovery document.
    public init(issuer: String, audiences: [String], keys: KeyLocation? = nil, algorithms: Set<SignatureAlgorithm> = [.rs256, .es256]) {
        self.issuer = issuer
        self.audiences = audiences
        self.keys = keys ?? .discovery(issuer: issuer)
        self.algorithms = algorithms
    }
}

/// Verifies tokens of one configured issuer.
package struct IssuerVerifier: Sendable {
    private let algorithms: Set<SignatureAlgorithm>
    private let expectations: TokenExpectations
    private let keys: RemoteKeys
    /// ms since the epoch.
    private let now: @Sendable () -> Int64

    package init(
        expectations: TokenExpectations, algorithms: Set<SignatureAlgorithm>, keys: RemoteKeys, now: @escaping @Sendable () -> Int64
    ) {
        self.expectations = expectations
        self.algorithms = algorithms
        self.keys = keys
        self.now = now
    }

    /// The id of the key in the token's header.
    package func keyID(of token: String) throws(TokenFault) -> String {
        let header = try token.readCompact { token throws(TokenFault) in try token.header() }
        guard let algorithm = SignatureAlgorithm(rawValue: header.algorithm), algorithms.contains(algorithm) else { throw .algorithm }
        guard let id = header.keyID else { throw .unknownKey }
        return id
    }

    /// The cached key with this id.
    package func heldKey(_ id: String) -> VerifyingKey? { keys.held(id) }

    /// When the keys expire, in ms of a monotonic clock; in the past if a refresh has failed.
    package var keysAreFreshUntil: Int64 { keys.freshUntil }

    /// The key with this id; may wait for a fetch.
    package func key(_ id: String) async throws(TokenFault) -> VerifyingKey { try await keys.key(id) }

    /// The payload of a valid token, as bytes and as claims.
    package func verify(_ token: String, by key: VerifyingKey, leeway: Int) throws(TokenFault) -> (payload: [UInt8], claims: Node) {
        let payload = try token.readCompact { token throws(TokenFault) in
            // The algorithm of the header, that of the key, and the issuer's list must agree.
            _ = try token.header().key(in: CollectionOfOne(key))
            guard algorithms.contains(key.algorithm) else { throw .algorithm }
            return try token.payload(by: key)
        }
        let claims = try Node(claims: payload)
        try expectations.check(claims, now: now() / 1000, leeway: leeway)
        return (payload, claims)
    }
}

/// Verifies tokens of one configured external issuer.
package struct ExternalTokens: Sendable {
    package let issuer: String
    private let verifier: IssuerVerifier

    package init(_ issuer: ExternalIssuer, _ keys: RemoteKeys, now: @escaping @Sendable () -> Int64) {
        self.issuer = issuer.issuer
        let expectations = TokenExpectations(issuers: [issuer.issuer], audiences: issuer.audiences)
        verifier = IssuerVerifier(expectations: expectations, algorithms: issuer.algorithms, keys: keys, now: now)
    }

    /// - Returns: nil if its key must be fetched first.
    package func verify(_ token: String, leeway: Int) -> Result<VerifiedToken, TokenFault>? {
        do throws(TokenFault) {
            guard let key = verifier.heldKey(try verifier.keyID(of: token)) else { return nil }
            return .success(try verify(token, by: key, leeway))
        } catch { return .failure(error) }
    }

    /// Verifies a token; may wait for a fetch.
    package func verify(_ token: String, leeway: Int) async -> Result<VerifiedToken, TokenFault> {
        do throws(TokenFault) {
            return .success(try verify(token, by: try await verifier.key(try verifier.keyID(of: token)), leeway))
        } catch { return .failure(error) }
    }

    private func verify(_ token: String, by key: VerifyingKey, _ leeway: Int) throws(TokenFault) -> VerifiedToken {
        // Read before the check: a key set fetched meanwhile may no longer contain the key.
        let until = verifier.keysAreFreshUntil
        return try VerifiedToken(try verifier.verify(token, by: key, leeway: leeway).claims, isOwn: false, checkedUntil: until)
    }
}
