import DispatchNet
import HubServer
import Journal
import Logging
import Scheduling
import SecurityRules
import SQLiteJournal

/// The checked settings of `serve`. All faults are found before anything starts.
struct ServeConfiguration {
    var settings = ServerSettings()
    var logLevel = Logger.Level.info
    var logFormat = LogLines.Format.text
    private var durability = Durability.full
    /// Whether to start with the sound part of the log when acknowledged commits in it cannot be read.
    private var acceptsLoss = false
    /// The hub's cluster.
    private var cluster: ClusterOptions?
    /// Environment variables that look like options, but are neither options nor misspelt ones.
    private(set) var unknownVariables: [String] = []

    struct Faults: Error { let faults: [String] }

    static func resolve(_ arguments: [ServeOption: String], environment: [String: String]) -> Result<ServeConfiguration, Faults> {
        let examined = examine(arguments, environment: environment)
        return examined.faults.isEmpty ? .success(examined.configuration) : .failure(Faults(faults: examined.faults))
    }

    /// The settings that result from the options, and the faults. A faulty option has its default or no value.
    struct Examined {
        let configuration: ServeConfiguration
        let faults: [String]
        let faulty: Swift.Set<ServeOption>
    }

    static func examine(_ arguments: [ServeOption: String], environment: [String: String]) -> Examined {
        var resolver = Resolver(layers: OptionLayers(arguments, environment: environment))
        resolver.resolve(mayLeaveMachine: environment["VIGLA_DEV_ANY_HOST"] == "1")
        // A misspelt variable would leave the hub without a requested feature, such as TLS. An empty variable counts as not set.
        for variable in ServeOption.unknown(environment.filter { !$0.value.isEmpty }.keys) {
            if let meant = ServeOption.meant(by: variable) {
                resolver.faults.append("\(variable): there is no such option. Did you mean \(meant)?")
            } else {
                resolver.made.unknownVariables.append(variable)
            }
        }
        return Examined(
            configuration: resolver.made, faults: resolver.layers.faults + resolver.faults,
            faulty: resolver.faulty.union(resolver.layers.faulty))
    }

    /// Opens the hub's storage: the folder, or memory.
    func openStorage(_ scheduler: Scheduler, _ logger: Logger) throws(JournalError) -> any JournalStorage {
        guard let folder = settings.dataFolder else { return MemoryStorage() }
        if durability == .normal { logger.notice("durability normal: a power cut may take the last moments of acknowledged writes") }
        let settings = JournalStore.Settings(durability: durability, acceptsLoss: acceptsLoss)
        let store = try JournalStore.open(folder: folder, settings: settings, scheduler: scheduler)
        guard let cluster else { return store }
        return try cluster.join(with: store, scheduler, logger)
    }

    /// `vigla ready on http://127.0.0.1:9000 (namespace default, data ./data, rules FILE)`: scripts wait for this line.
    /// With a certificate `https://…`, and with plain and TLS on two ports `http://… and https://…`.
    func readyLine(_ server: Server) -> String {
        let host = settings.host.utf8.contains(UInt8(ascii: ":")) ? "[\(settings.host)]" : settings.host
        let isPlain = settings.tls == nil || server.securePort != nil
        let places = "\(isPlain ? "http" : "https")://\(host):\(server.port)" + (
            server.securePort.map { " and https://\(host):\($0)" } ?? "")
        let (folder, databases) = (settings.dataFolder ?? "memory", server.databaseNames)
        guard databases.count > 1 else {
            let rules = rulesText(server, settings.namespace)
            return "vigla ready on \(places) (namespace \(settings.namespace), data \(folder), rules \(rules))"
        }
        let rules = databases.map { "\($0) \(rulesText(server, $0))" }.joined(separator: "; ")
        return "vigla ready on \(places) (namespaces \(databases.joined(separator: ", ")), data \(folder), rules: \(rules))"
    }

    private func rulesText(_ server: Server, _ name: String) -> String {
        let file = settings.databases.first { $0.name == name }?.rulesFile
        if server.hasDeployedRules(name) { return "deployed" + (file.map { " after \($0)" } ?? "") }
        return file ?? (settings.isDev ? "none (dev: everything open)" : "none (everything denied)")
    }

    /// Warnings for the operator who starts this hub.
    /// - Parameter held: the namespaces in the data folder before the start.
    func warnings(_ server: Server, held: [String]) -> [String] {
        var warnings: [String] = []
        if !unknownVariables.isEmpty {
            warnings.append("vigla: there is no option for \(unknownVariables.joined(separator: ", ")) in the environment")
        }
        let unopened = held.filter { !server.databaseNames.contains($0) }.sorted()
        if !held.isEmpty, !held.contains(settings.namespace), !unopened.isEmpty {
            warnings.append(
                "vigla: namespace \(settings.namespace) is new and empty; the folder also holds: "
                    + "\(unopened.joined(separator: ", ")) (--namespace)")
        }
        let withoutRules = settings.databases.filter { $0.rulesFile == nil && !server.hasDeployedRules($0.name) }.map(\.name)
        if settings.isDev {
            let open = withoutRules.isEmpty
                ? "" : " There are no rules: every program that reaches this port may read and write everything."
            warnings.append(
                "\n*** WARNING: --dev is on. Unsigned tokens and the token \"owner\" are trusted.\(open)\n*** Never run a hub that others "
                    + "can reach this way.\n")
        } else if !withoutRules.isEmpty {
            let place = settings.databases.count == 1 ? "" : " in \(withoutRules.joined(separator: ", "))"
            warnings.append(
                "vigla: no rules\(place), so every read and write is denied. Name a rules file with --rules FILE, deploy one with 'vigla "
                    + "rules deploy', or try things out with --dev.")
        }
        if !settings.accountData.isEmpty {
            warnings.append(
                "vigla: --on-account-deletion will go: say \".account\": true in the rules, at the places that go with an account.")
        }
        for (file, rules) in settings.rulesFiles { warnings += RulesSource.warnings(of: rules, in: file) }
        return warnings
    }

    /// Resolves the options one by one and records the faults of each.
    struct Resolver {
        var layers: OptionLayers
        var made = ServeConfiguration()
        var faults: [String] = []
        /// The options that `faults` mention, among those whose values are checked further.
        var faulty: Swift.Set<ServeOption> = []
        /// The members `accounts` of the section `databases`: the index of the database, the text and its place.
        var accountsOfDatabases: [(index: Int, given: String, source: String)] = []
        var hasCluster: Bool { mutating get { layers.find(.cluster) != nil } }

        mutating func resolve(mayLeaveMachine: Bool) {
            if let file = layers.find(.config) { layers.addFile(file.text, source: file.source) }
            resolveDatabaseNames()
            if let port = value(.port, "a port (0…65535)", UInt16.init) { made.settings.port = port }
            if let loops = value(.loops, "a number of loops (1…256)", { Int($0).flatMap { (1...256).contains($0) ? $0 : nil } }) {
                made.settings.loops = loops
            }
            if layers.find(.durability)?.text != "memory", let durability = value(
                .durability, "full, normal or memory", Durability.init(rawValue:)
            ) {
                made.durability = durability
            }
            if let level = value(
                .logLevel, "one of " + Logger.Level.allCases.map(\.rawValue).joined(separator: ", "), Logger.Level.init(rawValue:)
            ) {
                made.logLevel = level
            }
            if let format = value(.logFormat, "text or json", LogLines.Format.init(rawValue:)) { made.logFormat = format }
            if let metrics = value(.metrics, "loopback, all or off", MetricsAccess.init(rawValue:)) { made.settings.metrics = metrics }
            made.settings.countsUserBytes = value(.bytesByUser, "true or false", Checks.flag) ?? false
            if let lines = value(
                .logRefusals, "a number of lines a second (0…1000)", { Int($0).flatMap { (0...1000).contains($0) ? $0 : nil } }
            ) {
                made.settings.limits.loggedRefusals = lines
            }
            if let mebibytes = value(
                .memoryBudget, "a number of MiB (16…1048576)", { Int($0).flatMap { (16...1_048_576).contains($0) ? $0 : nil } }
            ) {
                made.settings.limits.memoryBytes = mebibytes << 20
            }
            if let seconds = value(
                .presenceDeadline, "a number of seconds (5…3600)", { Int($0).flatMap { (5...3600).contains($0) ? $0 : nil } }
            ) {
                made.settings.limits.presenceSeconds = seconds
            }
            resolveRate()
            made.settings.version = Vigla.version
            made.settings.logsRequests = value(.logRequests, "true or false", Checks.flag) ?? false
            made.settings.allowedOrigins = value(
                .allowOrigin, "origins such as https://app.example, separated by commas, or *", Checks.origins)
            made.acceptsLoss = value(.acceptLoss, "true or false", Checks.flag) ?? false
            made.settings.isDev = value(.dev, "true or false", Checks.flag) ?? false
            resolveHost(mayLeaveMachine: mayLeaveMachine)
            resolveTLS()
            resolveData()
            resolveCluster()
            resolveDatabases()
            resolveWeb()
            resolveAccounts()
            resolveAccountsOfDatabases()
            resolveOutbound()
        }

        mutating func value<Value>(_ option: ServeOption, _ expected: String, _ parse: (String) -> Value?) -> Value? {
            guard let found = layers.find(option) else { return nil }
            if let value = parse(found.text) { return value }
            let shown = option == .cluster ? ClusterOptions.withoutSecrets(found.text) : found.text
            faults.append("\(found.source): \"\(shown)\" is not \(expected)")
            faulty.insert(option)
            return nil
        }

        private mutating func resolveRate() {
            let numbers = WriteRate.settable
            func number(_ text: String) -> Int? { Int(text).flatMap { numbers.contains($0) ? $0 : nil } }
            let rate = value(.rate, "a number of writes a second (1…1000000)", number)
            let burst = value(.rateBurst, "a number of writes (1…1000000)", number)
            if layers.find(.rate) == nil, let found = layers.find(.rateBurst) {
                faults.append("\(found.source): there is no --rate")
                faulty.insert(.rateBurst)
            }
            guard let rate else { return }
            made.settings.limits.writeRate = WriteRate(perSecond: rate, burst: burst)
        }

        private mutating func resolveHost(mayLeaveMachine: Bool) {
            let found = layers.find(.host)
            if let found { made.settings.host = found.text }
            guard made.settings.isDev, !Checks.isLoopback(made.settings.host), !mayLeaveMachine else { return }
            faults.append(
                "\(found?.source ?? "--host"): --dev trusts everybody, so it listens on this machine only, not on \(made.settings.host); "
                    + "leave out --dev, or set VIGLA_DEV_ANY_HOST=1 if every machine that can reach this port may do everything")
        }

        /// Reads the files, so that their faults show before a port opens.
        private mutating func resolveTLS() {
            let certificate = layers.find(.tlsCert)
            let key = layers.find(.tlsKey)
            let port = value(.tlsPort, "a port (0…65535)", UInt16.init)
            switch (certificate, key) {
            case (let certificate?, let key?):
                do throws(TLSFaults) {
                    made.settings.tls = try ServerTLS(certificate: certificate.text, key: key.text, port: port)
                } catch {
                    faults += error.errors.map { "\($0.file == key.text ? key.source : certificate.source): \($0)" }
                    faulty.insert(.tlsCert)
                }
                if let port, port != 0, port == made.settings.port {
                    faults.append("\(layers.find(.tlsPort)?.source ?? "--tls-port"): \(port) is already the plain port; leave it out to "
                        + "speak TLS only")
                }
            case (let certificate?, nil):
                faults.append("\(certificate.source): TLS needs the private key too (--tls-key)")
                faulty.insert(.tlsCert)
            case (nil, let key?):
                faults.append("\(key.source): TLS needs the certificate too (--tls-cert)")
                faulty.insert(.tlsCert)
            case (nil, nil):
                if let found = layers.find(.tlsPort) {
                    faulty.insert(.tlsCert)
                    faults.append("\(found.source): TLS needs a certificate and its key (--tls-cert, --tls-key)")
                }
            }
        }

        /// `--data` and `--memory` exclude each other within one layer; between layers the stronger one decides.
        private mutating func resolveData() {
            let memory = layers.find(.memory) ?? layers.find(.durability).flatMap { $0.text == "memory" ? $0 : nil }
            let data = layers.find(.data)
            var inMemory = false
            if let memory {
                if let flag = memory.text == "memory" ? true : Checks.flag(memory.text) { inMemory = flag } else {
                    faults.append("\(memory.source): \"\(memory.text)\" is not true or false")
                }
            }
            if inMemory, let memory, let data {
                if memory.layer == data.layer {
                    faults.append("\(memory.source) and \(data.source) contradict each other: data is kept in memory or in a folder")
                }
                if data.layer < memory.layer { inMemory = false }
            }
            guard !inMemory else { return }
            let folder = data?.text ?? "./data"
            made.settings.dataFolder = folder
            if let fault = Checks.unusableFolder(folder) {
                faults.append("\(data?.source ?? "--data"): \(fault)")
                faulty.insert(.data)
            }
        }

        private mutating func resolveCluster() {
            let name = value(.clusterName, "1–32 letters, digits, - and _", { ClusterOptions.isName($0) ? $0 : nil })
            let address = value(.clusterAddress, "http://host:port", { ClusterOptions.isAddress($0) ? $0 : nil })
            let form = "addresses nats://host:port or tls://host:port, all alike, separated by commas"
            let servers = value(.cluster, form, ClusterOptions.servers)
            guard let found = layers.find(.cluster) else {
                for option in [ServeOption.clusterName, .clusterAddress, .clusterCA, .clusterCert, .clusterKey] {
                    if let found = layers.find(option) { faults.append("\(found.source): there is no --cluster") }
                }
                return
            }
            if !ClusterOptions.isThere { faults.append("\(found.source): \(ClusterOptions.absent)") }
            if made.settings.dataFolder == nil {
                faults.append("\(found.source): a hub of a cluster keeps its data in a folder, not in memory")
            }
            let (certificate, key) = (layers.find(.clusterCert), layers.find(.clusterKey))
            if let alone = certificate ?? key, certificate == nil || key == nil {
                faults.append("\(alone.source): a certificate and its key belong together (--cluster-cert, --cluster-key)")
            }
            let tls = [layers.find(.clusterCA), certificate, key].compactMap { $0 }
            if let one = tls.first, let servers, !servers[0].hasPrefix("tls://") {
                faults.append("\(one.source): the servers are named by nats://, not by tls://")
            }
            if let servers {
                made.cluster = ClusterOptions(
                    servers: servers, name: name ?? ClusterOptions.defaultName, address: address,
                    tls: (layers.find(.clusterCA)?.text, certificate?.text, key?.text))
            }
        }

        private mutating func resolveWeb() {
            guard let found = layers.find(.web) else {
                made.settings.webFolder = Checks.defaultWebFolder()
                return
            }
            if Checks.isFile(found.text + "/index.html") {
                made.settings.webFolder = found.text
            } else {
                faults.append("\(found.source): there is no index.html in \(found.text)")
            }
        }
    }
}
