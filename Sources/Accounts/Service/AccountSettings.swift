public import Mail
public import Tokens

/// Settings of accounts. Every field is an option of `vigla serve` or a member of its accounts file.
public struct AccountSettings: Sendable {
    /// `aud` of ID tokens and part of their `iss`: the apps' `projectId`.
    public var project = "default"
    /// The project number in some responses; without meaning here (accounts contract §6.10).
    public var projectNumber = "1"
    /// The public URL of the hub, without a trailing slash: mailed links begin with it. Nil: the address it listens on.
    public var publicURL: String?
    /// Development conveniences: unsigned tokens, `owner`, `/emulator/…`, no throttling.
    public var isDev = false

    /// Whether users may sign themselves up.
    public var allowsSignUp = true
    /// Whether there are passwords at all.
    public var allowsPasswords = true
    /// Whether guests may sign in.
    public var allowsAnonymous = true
    /// Whether the password grant of OAuth 2 is answered: for first-party tools alone, as it hands them the password (contract §12).
    public var allowsPasswordGrant = false
    /// Whether mailed links sign in.
    public var allowsEmailLink = true
    /// Whether wrong addresses and wrong passwords look the same (contract §9).
    public var hidesAccounts = true
    /// Seconds since sign-in within which address, password and account may be changed; 0 does not ask (contract §6.4).
    public var recentLoginSeconds = 300
    /// Hosts that links may redirect to (contract §6.6); a development hub also allows this machine's own.
    public var continueHosts: [String] = []

    /// Seconds that an ID token lives; more than 300, or the SDKs refresh all the time (contract §5.3).
    public var tokenSeconds = 3600
    /// Seconds that an ID token is still accepted by the account endpoints after its end.
    public var tokenLeewaySeconds = 300
    /// Signature algorithm of ID tokens; other verifiers expect RS256. A change makes a new key at the next start.
    public var signingAlgorithm = SignatureAlgorithm.rs256
    /// Verified ID tokens in the cache: about 2 KiB each.
    public var rememberedTokens = 10_000
    /// Other issuers whose tokens sign in at the database.
    public var externalIssuers: [ExternalIssuer] = []
    /// Services that users may sign in with; one of each id.
    public var identityProviders: [IdentityProvider] = []
    /// Servers of the app that may sign any user in.
    public var customTokenIssuers: [CustomTokenIssuer] = []
    /// Settings of fetching and caching issuers' keys.
    public var keyFetching = KeyFetchSettings()
    /// Used tokens with a nonce, of other services, that are remembered until they expire.
    public var rememberedNonces = 10_000
    /// Where refresh tokens are replaced at each use.
    public var refreshRotation = RefreshTokenRotation.oauth
    /// Days after which an unused session ends; 0 for never.
    public var idleDays = 180
    /// Days for which an ended session, or one of a deleted account, is reported as such; then its token is unknown.
    public var endedSessionDays = 180
    /// Devices that one account may be signed in on; a further one ends the least recently used session.
    public var sessionsOfAccount = 100
    /// Days after which an unused guest account is deleted; 0 for never.
    public var guestDays = 0
    /// Days for which audit events are kept; 0 for ever.
    public var auditDays = 400
    /// Seconds that codes of each kind live.
    public var resetCodeSeconds = 3600
    public var signInCodeSeconds = 3600
    public var verifyCodeSeconds = 3 * 86_400
    public var recoverCodeSeconds = 14 * 86_400

    /// Settings of password hashing and of password rules.
    public var passwords = PasswordSettings()
    /// Limits of attempts.
    public var throttle = ThrottleSettings()
    /// Settings of mail.
    public var mail = MailSettings()

    /// Bytes of a client's request body.
    public var bodyBytes = 64 << 10
    /// Bytes of an administrator's request body, such as an import.
    public var administratorBodyBytes = 8 << 20
    /// Accounts that an administrator looks up in one request.
    public var lookupsAtOnce = 100
    /// Accounts of a page of an administrator's list.
    public var listedAtOnce = 1000
    /// Accounts that an administrator imports or deletes in one request.
    public var changedAtOnce = 1000
    /// Milliseconds that the answer to a deletion waits for the account's data to be gone; the SDKs of administrators wait 25 s.
    public var removalWaitMs: Int64 = 20_000
    /// Characters of custom claims.
    public var claimsLength = 1000

    public init() {}

    /// The beginning of mailed links.
    var linkRoot: String { publicURL ?? "http://localhost" }

    /// Hosts that links may redirect to.
    var linkHosts: [String] { isDev ? ["localhost", "127.0.0.1"] + continueHosts : continueHosts }
}
