import Accounts
import Glibc
import HubServer
import SecurityRules

/// `vigla serve --print-config`: each option, its value, and the source of the value.
enum ConfigurationTable {
    static func lines(_ arguments: [ServeOption: String], _ environment: [String: String]) -> [String] {
        var layers = OptionLayers(arguments, environment: environment)
        if let file = layers.find(.config) { layers.addFile(file.text, source: file.source) }
        let settings = ServeConfiguration.examine(arguments, environment: environment).configuration.settings
        var rows = [["OPTION", "VALUE", "FROM"]]
        for option in ServeOption.allCases {
            if let found = layers.find(option) {
                rows.append([option.rawValue, option == .cluster ? ClusterOptions.withoutSecrets(found.text) : found.text, found.source])
            } else {
                rows.append([option.rawValue, option.defaultText(settings), "default"])
            }
        }
        if let source = layers.section(.databases)?.source {
            rows.append(["databases", settings.databases.map(\.name).joined(separator: ", "), source])
        }
        if let source = layers.section(.outbound)?.source { rows.append(["outbound", settings.outbound.summary, source]) }
        return TextTable.lines(rows)
    }
}

extension ServeOption {
    /// The value without the option, with the rule that determines it where there is one.
    /// - Parameter made: the settings from the other options.
    fileprivate func defaultText(_ made: ServerSettings) -> String {
        let plain = ServerSettings()
        switch self {
        case .host: return plain.host
        case .port: return "\(plain.port)"
        case .tlsCert, .tlsKey, .tlsPort: return "none (no TLS)"
        case .data: return made.dataFolder ?? "none (in memory)"
        case .rules: return made.isDev ? "none (dev: everything open)" : "none (everything denied)"
        case .namespace: return plain.namespace
        case .web:
            let rule = "./web, else ../share/vigla/web beside the program"
            return made.webFolder.map { "\($0) (\(rule))" } ?? "none (there is no \(rule))"
        case .config: return "none"
        case .durability: return made.dataFolder == nil ? "memory" : "full"
        case .loops: return "\(max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))) (one per core)"
        case .memory: return made.dataFolder == nil ? "true (--durability memory)" : "false"
        case .dev, .acceptLoss, .logRequests, .bytesByUser: return "false"
        case .logLevel: return "info"
        case .logFormat: return "text"
        case .allowOrigin: return made.isDev ? "this machine's (dev)" : "all"
        case .metrics: return plain.metrics.rawValue
        case .logRefusals: return "\(plain.limits.loggedRefusals)"
        case .memoryBudget: return "\(plain.limits.memoryBytes >> 20) (a quarter of what the process may use, 256 to 1024 MiB)"
        case .presenceDeadline: return "\(plain.limits.presenceSeconds)"
        case .rate: return "none (no limit)"
        case .rateBurst: return made.limits.writeRate.map { "\($0.burst) (those of 5 s)" } ?? "none (no --rate)"
        case .cluster: return "none (this hub alone)"
        case .clusterName: return ClusterOptions.defaultName
        case .clusterCA: return "the system's"
        case .clusterCert, .clusterKey: return "none"
        case .clusterAddress: return "the hub's own address and port"
        case .accounts: return "as docs/accounts.md describes them"
        case .project: return made.accounts.map { "\($0.project) (the namespace)" } ?? "none (no accounts)"
        case .publicURL: return made.port == 0 ? "the address it listens on" : "\(made.origin(port: made.port)) (the address it listens on)"
        case .onAccountDeletion: return "none (the rules' .account)"
        case .smtpURL, .smtpUser, .smtpPasswordFile, .mailFrom: return made.isDev ? "none (dev: mails are printed)" : "none (no mail)"
        }
    }
}
