import Cryptography
import Glibc
import JSONTree
import Tokens

/// A user's account (accounts contract §4).
public struct Account: Sendable, Equatable {
    /// `localId`: 28 letters and digits, or an id chosen by an administrator or a custom token; at most 128 bytes.
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
    /// Identities at other services, at most one per service; in the order they were linked.
    public var providers: [LinkedProvider] = []
    /// ms since the epoch.
    public var createdAt: Int64
    /// The last interactive sign-in, ms since the epoch.
    public var lastLoginAt: Int64?
    /// When an ID token was last minted, ms since the epoch.
    public var lastRefreshAt: Int64?
    /// Tokens issued earlier are revoked; seconds since the epoch.
    public var validSince: Int64
    public var isDisabled = false
    /// How often claims of the account were withdrawn, or it was disabled: tokens of an earlier generation are invalid.
    public var tokenGeneration: Int64 = 0
    /// A JSON object of claims that are added to the tokens (at most 1,000 characters); nil for none.
    public var customClaims: String?
    /// Whether the user has signed in with a custom token.
    public var hasCustomAuth = false
    /// Whether the user has signed in by a mailed link.
    public var hasEmailLink = false
    /// The address before the first change, shown to administrators. It does not allow recovery: see `changeAddress`.
    public var initialEmail: String?

    public init(id: String, createdAt: Int64) {
        self.id = id
        self.createdAt = createdAt
        validSince = createdAt / 1000
    }

    /// Whether the user can sign in by the address: then there is a provider entry `password`.
    public var hasPasswordProvider: Bool { email != nil && (passwordHash != nil || hasEmailLink) }
}

/// A user's profile at another service (accounts contract §4).
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
    /// Identifies the session in lists and in the claim `sid` of its tokens; not a secret.
    public let id: String
    public let uid: String
    /// `password`, `anonymous`, `google.com`, `custom`, …
    public var provider: String
    /// A JSON object of claims from a custom token; nil for none.
    public var claims: String?
    /// When the user last authenticated, in seconds since the epoch; refreshes do not change it.
    public var authTime: Int64
    /// ms since the epoch.
    public var createdAt: Int64
    public var lastUsedAt: Int64
    /// The user agent of the device, cut to 200 bytes.
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
        generation = account.tokenGeneration
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
    /// Parses the claims of a request.
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

extension Account {
    /// Whether a text can name a user, here or at another service. Control characters are refused: they are invisible, and the store ends a text
    /// at U+0000, which would make two names equal.
    static func isName(_ text: String) -> Bool { text.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control } }
}

extension Account {
    /// Replaces a password's hash, which is never shown: its presence means that a password is set (accounts contract §4).
    static let redactedHash = "UkVEQUNURUQ="

    /// `providerUserInfo`: the ways to sign in.
    var providerEntries: JSONValue {
        var entries: [JSONValue] = []
        if hasPasswordProvider, let email {
            var entry: [JSONValue.Member] = [
                .init("providerId", "password"), .init("rawId", .string(email)), .init("federatedId", .string(email)),
            ]
            entry.add("email", email)
            entry.add("displayName", displayName)
            entry.add("photoUrl", photoURL)
            entries.append(.object(entry))
        }
        for provider in providers {
            var entry: [JSONValue.Member] = [
                .init("providerId", .string(provider.id)), .init("rawId", .string(provider.rawID)),
                .init("federatedId", .string(provider.rawID)),
            ]
            entry.add("email", provider.email)
            entry.add("displayName", provider.displayName)
            entry.add("photoUrl", provider.photoURL)
            entry.add("screenName", provider.screenName)
            entries.append(.object(entry))
        }
        if let phoneNumber {
            let number = JSONValue.string(phoneNumber)
            entries.append(["providerId": "phone", "rawId": number, "federatedId": number, "phoneNumber": number])
        }
        return .array(entries)
    }

    /// The names of the ways to sign in: `password`, `google.com`, …
    var providerNames: [String] {
        (hasPasswordProvider ? ["password"] : []) + providers.map(\.id) + (phoneNumber == nil ? [] : ["phone"])
    }

    /// An entry of `users` (accounts contract §6.3). Times in ms and s are strings, the only form that Apple's SDK reads.
    /// - Parameter forAdministrator: whether to include claims.
    func entry(forAdministrator: Bool) -> JSONValue {
        var entry: [JSONValue.Member] = [.init("localId", .string(id))]
        entry.add("email", email)
        if email != nil { entry.add("emailVerified", .bool(isEmailVerified)) }
        entry.add("displayName", displayName)
        entry.add("photoUrl", photoURL)
        entry.add("screenName", providers.lazy.compactMap(\.screenName).first)
        entry.add("phoneNumber", phoneNumber)
        if passwordHash != nil { entry.add("passwordHash", Self.redactedHash) }
        entry.add("passwordUpdatedAt", passwordUpdatedAt.map(JSONValue.int))
        entry.add("providerUserInfo", providerEntries)
        entry.add("validSince", String(validSince))
        entry.add("disabled", .bool(isDisabled))
        entry.add("lastLoginAt", lastLoginAt.map(String.init))
        entry.add("createdAt", String(createdAt))
        entry.add("lastRefreshAt", lastRefreshAt.map(RFC3339.text))
        if hasCustomAuth { entry.add("customAuth", true) }
        if hasEmailLink { entry.add("emailLinkSignin", true) }
        entry.add("initialEmail", initialEmail)
        if forAdministrator { entry.add("customAttributes", customClaims) }
        return .object(entry)
    }
}

/// Formats times as RFC 3339 text in UTC: `2026-09-21T14:13:20.123Z`.
enum RFC3339 {
    /// - Parameter ms: ms since the epoch.
    static func text(_ ms: Int64) -> String {
        var (seconds, parts) = (time_t(ms / 1000), tm())
        gmtime_r(&seconds, &parts)
        let (year, month, day) = (Int(parts.tm_year) + 1900, Int(parts.tm_mon) + 1, Int(parts.tm_mday))
        let date = [digits(year, 4), digits(month, 2), digits(day, 2)].joined(separator: "-")
        let time = [parts.tm_hour, parts.tm_min, parts.tm_sec].map { digits(Int($0), 2) }.joined(separator: ":")
        return "\(date)T\(time).\(digits(Int(ms % 1000), 3))Z"
    }

    private static func digits(_ number: Int, _ count: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, count - text.utf8.count)) + text
    }
}

/// Random names and secrets that cannot be guessed.
enum RandomName {
    /// `localId` of a new account: 28 letters and digits (accounts contract §4).
    static func accountID() -> String { SecureRandom.text(28) }

    /// The id of a session; not a secret.
    static func sessionID() -> String { SecureRandom.text(20) }

    /// 256 bits, for refresh tokens and mailed codes.
    static func secret() -> String { SecureRandom.text(43) }
}
