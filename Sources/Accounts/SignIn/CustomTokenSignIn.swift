import Cryptography
import JSONTree
import Tokens

extension AccountService {
    /// `accounts:signInWithCustomToken`: with a token signed by one of the app's own servers (accounts contract §5.6).
    func signInWithCustomToken(_ call: AccountCall) async throws -> AccountAnswer {
        let verifier = CustomTokens(
            issuers: settings.customTokenIssuers, project: settings.project, isDev: settings.isDev, claimsLength: settings.claimsLength)
        let token = try verifier.verify(try call.text("token") ?? "", now: nowSeconds)
        guard Account.isName(token.uid) else {
            throw AccountError("INVALID_CUSTOM_TOKEN", "The custom token is refused: its uid has control characters.")
        }
        let claims = token.claims.isEmpty ? nil : token.claims.json
        let isKnown = try store.read { try $0.account(.id(token.uid)) != nil }
        let (opened, isNew) = try commit(call, isKnown ? .withSystem : .onDisk) { write -> (OpenedSession, Bool) in
            guard var account = try write.transaction.account(.id(token.uid)) else {
                var account = Account(id: token.uid, createdAt: now())
                account.hasCustomAuth = true
                return (try write.begin(account, provider: "custom", claims: claims), true)
            }
            guard !account.isDisabled else { throw AccountError("USER_DISABLED") }
            account.hasCustomAuth = true
            try write.audit(.signIn, account.id, "custom")
            return (try write.open(account, provider: "custom", claims: claims), false)
        }
        let tokens = try await issue(opened)
        return AccountAnswer(
            kind: "VerifyCustomTokenResponse",
            [.init("localId", .string(opened.account.id)), .init("isNewUser", .bool(isNew))] + tokens.members)
    }
}

/// A server of the app that may sign in any user, with tokens that it signs (accounts contract §5.6).
public struct CustomTokenIssuer: Sendable {
    /// `iss` and `sub` of its tokens: the address of a service account.
    public let name: String
    let keys: [VerifyingKey]

    /// - Parameters:
    ///   - name: such as `server@my-app.iam.gserviceaccount.com`.
    ///   - publicKeys: RSA keys of 2,048 to 8,192 bits in PEM (`BEGIN PUBLIC KEY`).
    /// - Throws: the fault of an invalid key.
    public init(name: String, publicKeys: [String]) throws {
        self.name = name
        keys = try publicKeys.map { pem in
            let key = try PublicKey(pem: pem)
            guard key.kind == .rsa else { throw CryptographyError.unsupportedKey }
            return VerifyingKey(key)
        }
    }
}

/// The user that a custom token signs in, and the claims for that session.
public struct CustomToken: Sendable, Equatable {
    /// Of 1 to 128 characters.
    public let uid: String
    let claims: CustomClaims
}

/// Verifies custom tokens. A pure value; the time is a parameter.
struct CustomTokens {
    let issuers: [CustomTokenIssuer]
    let project: String
    /// Also accepts unsigned tokens and bare JSON, which the stock admin SDKs create in emulator mode.
    let isDev: Bool
    /// See `AccountSettings.claimsLength`.
    let claimsLength: Int

    static let audience = "https://identitytoolkit.googleapis.com/google.identity.identitytoolkit.v1.IdentityToolkit"
    /// The longest lifetime of a token in seconds.
    static let lifetime: Int64 = 3600

    /// - Parameter now: seconds since the epoch.
    /// - Throws: MISSING_CUSTOM_TOKEN, `INVALID_CUSTOM_TOKEN : …`, CREDENTIAL_MISMATCH, MISSING_IDENTIFIER, INVALID_CLAIMS,
    ///   `FORBIDDEN_CLAIM : …`, CLAIMS_TOO_LARGE.
    func verify(_ token: String, now: Int64) throws(AccountError) -> CustomToken {
        guard !token.isEmpty else { throw AccountError("MISSING_CUSTOM_TOKEN") }
        if isDev, let payload = UnsignedToken.payload(token) {
            guard let body = try? Self.body(payload) else { throw Self.refused(TokenFault.malformed.text) }
            if !token.utf8.contains(UInt8(ascii: "{")) { try checkTimes(body, now) }
            return try content(body)
        }
        let body = try signedBody(token)
        try checkTimes(body, now)
        return try content(body)
    }

    private static func refused(_ why: String) -> AccountError {
        AccountError("INVALID_CUSTOM_TOKEN", "The custom token is refused: \(why).")
    }

    private static func body(_ payload: [UInt8]) throws(TokenFault) -> JSONValue {
        guard let body = try? JSONValue(payload), body.members != nil else { throw .malformed }
        return body
    }

    /// The content of a token signed by one of the issuers.
    private func signedBody(_ token: String) throws(AccountError) -> JSONValue {
        do throws(TokenFault) {
            let name = try Self.issuer(of: token)
            if let issuer = issuers.first(where: { $0.name == name }) { return try Self.body(try Self.payload(of: token, by: issuer)) }
            // The name of a service account contains its project.
            guard let other = Self.project(of: name), other != project else { throw .issuer }
        } catch { throw Self.refused(error.text) }
        throw AccountError("CREDENTIAL_MISMATCH")
    }

    /// The issuer that the token names.
    private static func issuer(of token: String) throws(TokenFault) -> String {
        try token.readCompact { token throws(TokenFault) in
            guard try token.header().algorithm == SignatureAlgorithm.rs256.rawValue else { throw .algorithm }
            let claims = try Node(claims: try token.unverifiedPayload())
            guard let name = claims.text("iss"), claims.text("sub") == name else { throw .issuer }
            return name
        }
    }

    /// SDKs name no key; an issuer has one key, or two during a rotation.
    private static func payload(of token: String, by issuer: CustomTokenIssuer) throws(TokenFault) -> [UInt8] {
        try token.readCompact { token throws(TokenFault) in
            for key in issuer.keys {
                if let payload = try? token.payload(by: key) { return payload }
            }
            throw .signature
        }
    }

    private static func project(of account: String) -> String? {
        guard account.hasSuffix(".iam.gserviceaccount.com"), let at = account.lastIndex(of: "@") else { return nil }
        return String(account[account.index(after: at)...].dropLast(".iam.gserviceaccount.com".count))
    }

    private func checkTimes(_ body: JSONValue, _ now: Int64) throws(AccountError) {
        guard body["aud"]?.string == Self.audience else { throw Self.refused(TokenFault.audience.text) }
        guard case .int(let expires)? = body["exp"], now < expires else { throw Self.refused(TokenFault.expired.text) }
        guard case .int(let issued)? = body["iat"], issued <= now + TokenExpectations.skewSeconds else {
            throw Self.refused(TokenFault.notYetValid.text)
        }
        guard expires - max(issued, 0) <= Self.lifetime else { throw Self.refused("it lives longer than an hour") }
    }

    private func content(_ body: JSONValue) throws(AccountError) -> CustomToken {
        guard let name = body["uid"] ?? body["user_id"] else { throw AccountError("MISSING_IDENTIFIER") }
        guard let uid = name.string, !uid.isEmpty else { throw AccountError("MISSING_IDENTIFIER") }
        guard TokenExpectations.isSubject(uid) else { throw Self.refused("its uid is longer than 128 characters") }
        if let tenant = body["tenant_id"], !tenant.isNull { throw Self.refused("there are no tenants here") }
        guard let claims = body["claims"], !claims.isNull else { return CustomToken(uid: uid, claims: .none) }
        return CustomToken(uid: uid, claims: try CustomClaims(json: claims.json, length: claimsLength))
    }
}
