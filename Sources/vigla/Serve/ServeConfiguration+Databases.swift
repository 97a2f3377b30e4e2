import Accounts
import HubServer
import JSONTree
import Mail
import SecurityRules

/// The databases of the hub: `--namespace`, and the section `databases` of the file of `--config` (docs/databases.md).
///
///     { "databases": { "watchme": { "rules": "watchme.json" }, "planner": { "rules": "planner.json", "rate": 20 } } }
extension ServeConfiguration.Resolver {
    /// Those of `--namespace` come first, then those of the section, in its order.
    mutating func resolveDatabaseNames() {
        var names = value(.namespace, "names of 1–64 letters, digits, - and _, separated by commas", Self.names) ?? []
        if let (section, source) = layers.section(.databases) {
            var seen: Swift.Set<String> = []
            for member in section.members ?? [] {
                if !seen.insert(member.name).inserted { faults.append("\(source): \"\(member.name)\" is given more than once") }
                if !Namespace.isValid(member.name) {
                    faults.append("\(source): \"\(member.name)\" is not a name of 1–64 letters, digits, - and _")
                } else if !names.contains(member.name) {
                    names.append(member.name)
                }
            }
        }
        for name in Swift.Set(names) where names.count(where: { $0 == name }) > 1 {
            faults.append("\(layers.find(.namespace)?.source ?? "--namespace"): \(name) is named more than once")
        }
        if !names.isEmpty { made.settings.databases = names.map { DatabaseSettings($0) } }
    }

    /// Gives each database its accounts: its own, except in a cluster. Behind `resolveAccounts`.
    mutating func resolveAccountsOfDatabases() {
        if hasCluster { for index in made.settings.databases.indices { made.settings.databases[index].accounts = .shared } }
        for (index, given, source) in accountsOfDatabases {
            if index == 0 {
                faults.append("\(source): the default database has the accounts of the hub (--accounts)")
            } else if given == "shared" {
                made.settings.databases[index].accounts = .shared
            } else if hasCluster {
                faults.append("\(source): the databases of a cluster share the hubs' accounts: write \"shared\"")
            } else if made.settings.accounts == nil {
                faults.append("\(source): there are no accounts (--accounts off)")
            } else if given != "own" {
                var accounts = accountsBeforeFile
                var (mail, network) = (AccountsFile.Mail(), AccountsFile.Network())
                var file = AccountsFile(given, source: source)
                file.read(into: &accounts, &mail, &network)
                faults += file.faults
                for member in AccountsFile.membersOfHub(mail, network) {
                    faults.append("\(source): \(given): \(member) concerns the whole hub: it belongs in the file of --accounts")
                }
                accounts.publicURL = made.settings.accounts?.publicURL
                accounts.mail.smtp = made.settings.accounts?.mail.smtp
                made.settings.databases[index].accounts = .own(accounts)
            }
        }
        guard let project = made.settings.accounts?.project else { return }
        for database in made.settings.databases.dropFirst() where database.name == project && database.accounts.isOwn {
            faults.append(
                "\(layers.find(.project)?.source ?? "--project"): \(project) is also the name of a database with accounts of its own, "
                    + "which would get requests for the hub's accounts")
        }
    }

    private static func names(_ text: String) -> [String]? {
        let names = text.split(separator: ",", omittingEmptySubsequences: false).map { String($0.drop { $0 == " " }) }
        return names.allSatisfy(Namespace.isValid) ? names : nil
    }

    /// Gives each database its rules and limits: those of its section, else those of the options.
    mutating func resolveDatabases() {
        var rules = RulesFiles()
        let common = layers.find(.rules)
        if let common, !rules.read(common.text, common.source) { faulty.insert(.rules) }
        for index in made.settings.databases.indices {
            made.settings.databases[index].rules = made.settings.isDev ? .allowAll : .denyAll
            if let common { rules.apply(common.text, to: &made.settings.databases[index]) }
        }
        if let (value, source) = layers.section(.databases) {
            let noted = JSONSection.Faults()
            var sections = JSONSection(value, place: source, faults: noted)
            for index in made.settings.databases.indices {
                let name = made.settings.databases[index].name
                guard value.members?.count(where: { $0.name == name }) == 1, var section = sections.section(name) else { continue }
                if let file = section.text("rules", "the file of its rules") {
                    if !rules.read(file, "\(section.place): \"rules\"") { faulty.insert(.rules) }
                    rules.apply(file, to: &made.settings.databases[index])
                }
                if let rate = section.number("rate", WriteRate.settable) {
                    made.settings.databases[index].writeRate = WriteRate(
                        perSecond: rate, burst: section.number("rate-burst", WriteRate.settable))
                }
                if let given = section.text("accounts", "\"own\", \"shared\" or an accounts file") {
                    accountsOfDatabases.append((index, given, "\(section.place): \"accounts\""))
                }
                section.end()
            }
            faults += noted.lines
        }
        faults += rules.faults
    }

    /// The rules files that the configuration names, each read once.
    private struct RulesFiles {
        private var read: [String: RuleSet?] = [:]
        private(set) var faults: [String] = []

        /// - Returns: false if the file is faulty.
        mutating func read(_ path: String, _ source: String) -> Bool {
            if let known = read[path] { return known != nil }
            switch RulesSource.read(path) {
            case .success(let rules):
                read[path] = .some(rules)
                return true
            case .failure(let fault):
                read[path] = .some(nil)
                faults += fault.lines.map { "\(source): \($0)" }
                return false
            }
        }

        func apply(_ path: String, to database: inout DatabaseSettings) {
            database.rulesFile = path
            if let rules = read[path] ?? nil { database.rules = rules }
        }
    }
}

extension WriteRate {
    /// The numbers that a configuration may give as rate or burst.
    static let settable = 1...1_000_000

    /// - Parameter burst: nil for the writes of 5 s.
    init?(perSecond rate: Int, burst: Int?) {
        self.init(perSecond: Double(rate), burst: burst ?? min(5 * rate, Self.settable.upperBound))
    }
}

extension ServerSettings {
    /// The rules files of its databases, each once.
    var rulesFiles: [(file: String, rules: RuleSet)] {
        var files: [(file: String, rules: RuleSet)] = []
        for database in databases {
            guard let file = database.rulesFile, !files.contains(where: { $0.file == file }) else { continue }
            files.append((file, database.rules))
        }
        return files
    }
}
