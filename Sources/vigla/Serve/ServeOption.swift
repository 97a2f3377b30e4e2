/// The options of `vigla serve`: one name, three forms.
///
///     --log-level debug     VIGLA_LOG_LEVEL=debug     { "log-level": "debug" }
enum ServeOption: String, CaseIterable {
    case host, port, data, memory, rules, namespace, web, durability, loops, dev, config
    case tlsCert = "tls-cert"
    case tlsKey = "tls-key"
    case tlsPort = "tls-port"
    case logLevel = "log-level"
    case logFormat = "log-format"
    case acceptLoss = "accept-loss"
    case allowOrigin = "allow-origin"
    case metrics
    case bytesByUser = "bytes-by-user"
    case logRefusals = "log-refusals"
    case logRequests = "log-requests"
    case memoryBudget = "memory-budget"
    case presenceDeadline = "presence-deadline"
    case rate
    case rateBurst = "rate-burst"
    case cluster
    case clusterName = "cluster-name"
    case clusterAddress = "cluster-address"
    case clusterCA = "cluster-ca"
    case clusterCert = "cluster-cert"
    case clusterKey = "cluster-key"
    case accounts, project
    case publicURL = "public-url"
    case onAccountDeletion = "on-account-deletion"
    case smtpURL = "smtp-url"
    case smtpUser = "smtp-user"
    case smtpPasswordFile = "smtp-password-file"
    case mailFrom = "mail-from"

    enum Kind { case text, number, flag }

    var kind: Kind {
        switch self {
        case .port, .tlsPort, .loops, .logRefusals, .memoryBudget, .presenceDeadline, .rate, .rateBurst: .number
        case .memory, .dev, .acceptLoss, .logRequests, .bytesByUser: .flag
        default: .text
        }
    }

    /// The form on the command line.
    var flag: String { "--\(rawValue)" }
    /// The form in the environment.
    var variable: String { "VIGLA_" + rawValue.uppercased().replacing("-", with: "_") }

    /// Variables of other commands: `serve` ignores them, so that one environment serves all.
    private static let othersVariables: Swift.Set<String> = [
        "VIGLA_AUTH", "VIGLA_AUTH_FILE", "VIGLA_TLS_CA", "VIGLA_TLS_NAME", "VIGLA_DEV_ANY_HOST",
    ]

    /// The option variable that was probably meant by an unknown one; nil if it resembles none.
    static func meant(by variable: String) -> String? {
        let names = allCases.map { String($0.variable.dropFirst("VIGLA_".count)) }
        return Suggestion.slip(String(variable.dropFirst("VIGLA_".count)), of: names).map { "VIGLA_" + $0 }
    }

    /// The variables that no option reads, sorted by name.
    static func unknown(_ variables: some Sequence<String>) -> [String] {
        let known = othersVariables.union(allCases.map(\.variable))
        return variables.filter { $0.hasPrefix("VIGLA_") && !known.contains($0) }.sorted()
    }
}
