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
    /// Its own, with the settings of the hub's accounts if it has none.
    case own(AccountSettings?)

    /// The settings of a database's own accounts; nil if it has none.
    /// - Parameter hub: the settings of the hub's accounts; nil without accounts.
    func settings(of database: String, hub: AccountSettings?) -> AccountSettings? {
        guard case .own(let own) = self, var settings = own ?? hub, hub != nil else { return nil }
        settings.project = database
        return settings
    }

    /// Its name in the configuration and in the list of databases.
    var name: String { if case .shared = self { "shared" } else { "own" } }
}
