import Tokens

/// A user's account (accounts contract §4).
public struct Account: Sendable, Equatable {
    /// `localId`: 28 letters and digits, or what an administrator or a custom token chose; at most 128 bytes.
    public let id: String
    /// In lower case; unique.
    public var email: String?
    public var isEmailVerified = false
    public var displayName: String?
    public var photoURL: String?
    public var phoneNumber: String?
    /// A name to sign in with instead of the address; in lower case, unique. Not part of the SDKs' contract.
    public var alias: String?
    /// Self-describing hash; nil without a password. See `PasswordHasher`.
    public var passwordHash: String?
    /// ms since the epoch.
    public var passwordUpdatedAt: Int64?
    /// Identities of other services, one of each; in order of their linking.
    public var providers: [LinkedProvider] = []
    /// ms since the epoch.
    public var createdAt: Int64
    /// The last interactive sign-in, ms since the epoch.
    public var lastLoginAt: Int64?
    /// When an ID token was last minted, ms since the epoch.
    public var lastRefreshAt: Int64?
    /// Tokens issued before are revoked; seconds since the epoch.
    public var validSince: Int64
    public var isDisabled = false
    /// A JSON object of claims that become the tokens' (at most 1,000 characters); nil for none.
    public var customClaims: String?
    /// Has signed in with a custom token.
    public var hasCustomAuth = false
    /// Has signed in by a mailed link.
    public var hasEmailLink = false
    /// The address before the first change, for administrators to see. It is no way back: see `changeAddress`.
    public var initialEmail: String?

    public init(id: String, createdAt: Int64) {
        self.id = id
        self.createdAt = createdAt
        validSince = createdAt / 1000
    }

    /// Whether the address can be used to sign in: then there is a provider entry `password`.
    public var hasPasswordProvider: Bool { email != nil && (passwordHash != nil || hasEmailLink) }
}

/// What another service says of a user (accounts contract §4).
public struct LinkedProvider: Sendable, Equatable {
    /// `google.com`, `apple.com`, `oidc.x`
    public var id: String
    /// The service's `sub`.
    public var rawID: String
    public var email: String?
    public var displayName: String?
    public var photoURL: String?
    public var screenName: String?

    public init(id: String, rawID: String) {
        self.id = id
        self.rawID = rawID
    }
}

/// One sign-in on one device, from sign-in to sign-out (accounts contract §5.4).
public struct AccountSession: Sendable, Equatable {
    /// Names it in lists and in the claim `sid` of its tokens; no secret.
    public let id: String
    public let uid: String
    /// `password`, `anonymous`, `google.com`, `custom`, …
    public var provider: String
    /// A JSON object of claims that a custom token brought; nil for none.
    public var claims: String?
    /// When the user proved who they are, seconds since the epoch; refreshes do not move it.
    public var authTime: Int64
    /// ms since the epoch.
    public var createdAt: Int64
    public var lastUsedAt: Int64
    /// What the device calls itself, cut to 200 bytes.
    public var userAgent: String?
    /// The address of the last use.
    public var peer: String?

    public init(
        id: String, uid: String, provider: String, claims: String?, authTime: Int64, now: Int64, userAgent: String?, peer: String?
    ) {
        self.id = id
        self.uid = uid
        self.provider = provider
        self.claims = claims
        self.authTime = authTime
        createdAt = now
        lastUsedAt = now
        self.userAgent = userAgent
        self.peer = peer
    }
}

extension IdentityClaims {
    /// The claims of an account's session.
    /// - Parameters:
    ///   - now: seconds since the epoch.
    ///   - lifetime: seconds.
    init(_ account: Account, _ session: AccountSession, now: Int64, lifetime: Int) {
        self.init(
            uid: account.id, provider: session.provider, sessionID: session.id, authTime: session.authTime, issuedAt: now,
            expires: now + Int64(lifetime))
        email = account.email
        isEmailVerified = account.isEmailVerified
        phoneNumber = account.phoneNumber
        name = account.displayName
        picture = account.photoURL
        identities = account.providers.map { ($0.id, $0.rawID) }
        accountClaims = CustomClaims(column: account.customClaims)
        sessionClaims = CustomClaims(column: session.claims)
    }
}

extension CustomClaims {
    /// Claims of a request.
    /// - Parameter length: see `AccountSettings.claimsLength`.
    /// - Throws: INVALID_CLAIMS, CLAIMS_TOO_LARGE, `FORBIDDEN_CLAIM : name`.
    init(json: String, length: Int) throws(AccountError) {
        do throws(Fault) { try self.init(checking: json, length: length) } catch {
            throw switch error {
            case .malformed: AccountError("INVALID_CLAIMS")
            case .tooLong: AccountError("CLAIMS_TOO_LARGE")
            case .forbidden(let name): AccountError("FORBIDDEN_CLAIM", name)
            }
        }
    }
}
