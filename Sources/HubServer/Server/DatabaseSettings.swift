public import Accounts
public import SecurityRules

/// A database that the configuration names.
public struct DatabaseSettings: Sendable {
    /// Clients name it as `ns`.
    public var name: String
    /// Its rules until others are deployed.
    public var rules = RuleSet.denyAll
    /// The file that `rules` were read from; nil when they come from no file.
    public var rulesFile: String?
    /// Whose accounts it has. Without effect for the default database, which has the hub's.
    public var accounts = DatabaseAccounts.own(nil)
    /// How often each user may write; nil for the limit of all databases, ``ServerLimits/writeRate``.
    public var writeRate: WriteRate?

    public init(_ name: String, rules: RuleSet = .denyAll, file: String? = nil) {
        self.name = name
        self.rules = rules
        rulesFile = file
    }
}

/// Whose accounts a database has.
public enum DatabaseAccounts: Sendable {
    /// The hub's, which are those of the default database.
    case shared
    /// Its own. Without settings it has those of the hub's accounts, except for whom these trust: see `settings(of:hub:)`.
    case own(AccountSettings?)

    /// Whether it has accounts of its own.
    public var isOwn: Bool { if case .own = self { true } else { false } }

    /// The settings of a database's own accounts; nil if it has none. The issuers, keys and identity providers that the hub's accounts
    /// trust are not inherited: a token for one product would open the databases of all.
    /// - Parameter hub: the settings of the hub's accounts; nil without accounts.
    func settings(of database: String, hub: AccountSettings?) -> AccountSettings? {
        guard case .own(let own) = self, let hub else { return nil }
        var settings = own ?? hub
        if own == nil { (settings.externalIssuers, settings.customTokenIssuers, settings.identityProviders) = ([], [], []) }
        settings.project = database
        return settings
    }
}
