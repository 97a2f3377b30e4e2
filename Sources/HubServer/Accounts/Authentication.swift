import Accounts
import Journal
import Logging
import Scheduling

/// Who clients are: administrators by their secrets, users by accounts or signed tokens.
final class Authentication: Sendable {
    /// Database secrets, the credentials of administrators.
    let secrets: Secrets
    /// Nil when accounts are not configured.
    let accounts: AccountService?
    /// Counts pending account requests.
    let accountRequests: AccountRequests
    /// Verifies signed tokens. Nil without a verifier: then they count as anonymous.
    let tokenChecks: TokenChecks?
    /// Whether a credential is an administrator's.
    let isAdministrator: @Sendable (String) -> Bool

    /// - Parameter origin: the hub's origin, for links in mails.
    /// - Throws: `ServerError.cannotOpen`.
    init(
        _ settings: ServerSettings, _ storage: any JournalStorage, origin: String, _ scheduler: Scheduler, _ logger: Logger
    ) throws(ServerError) {
        // The SDKs' own tests send many requests at once from one address.
        accountRequests = AccountRequests(
            most: settings.limits.accountRequests, ofNetwork: settings.isDev ? .max : settings.limits.accountRequestsOfNetwork)
        do { secrets = try Secrets(storage.settingStore) } catch { throw .cannotOpen("\(error)") }
        isAdministrator = { [secrets, isDev = settings.isDev] credential in secrets.admit(credential) || isDev && credential == "owner" }
        do {
            accounts = try settings.accounts.map { [isAdministrator] given in
                var given = given
                given.publicURL = given.publicURL ?? origin
                return try AccountService(
                    given, folder: settings.dataFolder, isAdministrator: isAdministrator, logger: logger, scheduler: scheduler,
                    log: storage.accountLog)
            }
        } catch { throw .cannotOpen("\(error)") }
        let verifier = settings.tokens ?? accounts.map { AccountTokens(accounts: $0, leewaySeconds: settings.limits.tokenLeewaySeconds) }
        tokenChecks = verifier.map { TokenChecks($0, settings.limits, scheduler) }
    }
}

extension Server {
    /// Database secrets, the credentials of administrators.
    public var secrets: Secrets { authentication.secrets }
    /// Nil when accounts are not configured.
    var accounts: AccountService? { authentication.accounts }
}
