public import Mail
public import Tokens

/// Settings of accounts. Every field is an option of `vigla serve` or a member of its accounts file.
public struct AccountSettings: Sendable {
    /// `aud` of ID tokens and part of their `iss`: the apps' `projectId`.
    public var project = "default"
    /// The database whose own accounts these are; nil for the accounts of the hub.
    public var database: String?
    /// The project number in some responses; without meaning here (accounts contract §6.10).
    package var projectNumber = "1"
    /// The public URL of the hub, without a trailing slash; mailed links begin with it. Nil: the address that the hub listens on.
    public var publicURL: String?
    /// Development conveniences: unsigned tokens, `owner`, `/emulator/…`, no throttling.
    public var isDev = false

    /// Whether users may sign themselves up.
    public var allowsSignUp = true
    /// Whether passwords are enabled.
    public var allowsPasswords = true
    /// Whether guests may sign in.
    public var allowsAnonymous = true
    /// Whether OAuth 2's password grant is enabled: only for first-party tools, as users give them their password (contract §12).
    public var allowsPasswordGrant = false
    /// Whether users may sign in by mailed links.
    public var allowsEmailLink = true
    /// Whether responses hide if the address or the password was wrong (contract §9).
    public var hidesAccounts = true
    /// Seconds since sign-in within which address, password and account may be changed; 0 disables the check (contract §6.4).
    public var recentLoginSeconds = 300
    /// Hosts that links may redirect to (contract §6.6); a development hub also allows this machine's own.
    public var continueHosts: [String] = []

    /// The lifetime of an ID token in seconds; must exceed 300, or the SDKs refresh constantly (contract §5.3).
    package var tokenSeconds = 3600
    /// Seconds after expiry for which the account endpoints still accept an ID token.
    package var tokenLeewaySeconds = 300
    /// The signature algorithm of ID tokens; other verifiers expect RS256. A change creates a new key at the next start.
    public var signingAlgorithm = SignatureAlgorithm.rs256
    /// Most verified ID tokens in the cache: about 2 KiB each.
    package var rememberedTokens = 10_000
    /// Other issuers whose tokens are accepted by the database.
    public var externalIssuers: [ExternalIssuer] = []
    /// Services that users may sign in with; ids are unique.
    public var identityProviders: [IdentityProvider] = []
    /// Servers of the app that may sign in any user.
    public var customTokenIssuers: [CustomTokenIssuer] = []
    /// Settings for fetching and caching issuers' keys.
    package var keyFetching = KeyFetchSettings()
    /// Most used nonce tokens of other services to remember; each until it expires.
    package var rememberedNonces = 10_000
    /// At which endpoints refresh tokens are replaced at each use.
    public var refreshRotation = RefreshTokenRotation.oauth
    /// Days after which an unused session ends; 0 for never.
    public var idleDays = 180
    /// Days for which an ended session, or one of a deleted account, is reported as such; later its token is unknown.
    package var endedSessionDays = 180
    /// Most concurrent sessions of an account; a further one ends the least recently used session.
    public var sessionsOfAccount = 100
    /// Days after which an unused guest account is deleted; 0 for never.
    public var guestDays = 0
    /// Days for which audit events are kept; 0 for ever.
    public var auditDays = 400
    /// Lifetimes of the codes of each kind, in seconds.
    package var resetCodeSeconds = 3600
    package var signInCodeSeconds = 3600
    package var verifyCodeSeconds = 3 * 86_400
    package var recoverCodeSeconds = 14 * 86_400

    /// Settings of password hashing and of password rules.
    public var passwords = PasswordSettings()
    /// Limits of attempts.
    public var throttle = ThrottleSettings()
    /// Settings of mail.
    public var mail = MailSettings()

    /// Most bytes of a client's request body.
    package var bodyBytes = 64 << 10
    /// Most bytes of an administrator's request body, such as an import.
    package var administratorBodyBytes = 8 << 20
    /// Most accounts that an administrator looks up in one request.
    package var lookupsAtOnce = 100
    /// Most accounts on a page of an administrator's list.
    package var listedAtOnce = 1000
    /// Most accounts that an administrator imports or deletes in one request.
    package var changedAtOnce = 1000
    /// Milliseconds that the response to a deletion waits for the removal of the account's data; the admin SDKs wait 25 s.
    package var removalWaitMs: Int64 = 20_000
    /// Most characters of custom claims.
    package var claimsLength = 1000

    public init() {}

    /// The URL of one of the hub's pages or endpoints, which selects these accounts.
    /// - Parameter query: the other parameters.
    func link(_ path: String, _ query: String = "") -> String {
        let items = [database.map { "ns=\($0)" }, query.isEmpty ? nil : query].compactMap { $0 }
        return (publicURL ?? "http://localhost") + path + (items.isEmpty ? "" : "?" + items.joined(separator: "&"))
    }

    /// Hosts that links may redirect to.
    var linkHosts: [String] { isDev ? ["localhost", "127.0.0.1"] + continueHosts : continueHosts }
}
