import Accounts

/// The accounts of one or several databases, and what verifies their tokens: what Firebase calls a project.
///
///     the hub's project      the default database, and those with shared accounts
///     a project of its own   one database: no other one knows its accounts, and none accepts its tokens
final class Project: Sendable {
    /// The database whose own accounts these are; nil for the hub's.
    let database: String?
    /// Nil when accounts are not configured.
    let accounts: AccountService?
    /// Counts pending account requests.
    let accountRequests: AccountRequests
    /// Verifies signed tokens. Nil without a verifier: then they count as anonymous.
    let tokenChecks: TokenChecks?
    /// Whether a credential is that of an administrator of these accounts.
    let isAdministrator: @Sendable (String) -> Bool

    init(
        of database: String?, _ accounts: AccountService?, _ requests: AccountRequests, _ tokenChecks: TokenChecks?,
        isAdministrator: @escaping @Sendable (String) -> Bool
    ) {
        self.database = database
        self.accounts = accounts
        accountRequests = requests
        self.tokenChecks = tokenChecks
        self.isAdministrator = isAdministrator
    }
}
