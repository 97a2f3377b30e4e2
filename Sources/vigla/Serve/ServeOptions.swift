import ArgumentParser
import Glibc

/// The options of `vigla serve` on the command line. `vigla doctor` takes the same.
struct ServeOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Address to listen on. Default: 127.0.0.1, this machine only.", valueName: "address")) var host: String?
    @Option(help: ArgumentHelp("Port to listen on; 0 lets the system choose. Default: 9000.", valueName: "number")) var port: String?
    @Option(help: ArgumentHelp(
        "Certificate (PEM, with those that lead to its authority): the port then speaks TLS (https, wss).", valueName: "file"))
    var tlsCert: String?
    @Option(help: ArgumentHelp("Private key of the certificate (PEM, without passphrase).", valueName: "file")) var tlsKey: String?
    @Option(
        help: ArgumentHelp("Port for TLS, beside a --port that stays plain; 0 lets the system choose.", valueName: "number")
    ) var tlsPort: String?
    @Option(
        help: ArgumentHelp("Folder that keeps the data; it is made if missing. Default: ./data.", valueName: "folder")) var data: String?
    @Flag(help: "Keep nothing on disk: all data is gone when the hub stops.") var memory = false
    @Option(help: ArgumentHelp("Security rules (see 'vigla rules check').", valueName: "file")) var rules: String?
    @Option(help: ArgumentHelp(
        "A database of this hub, which clients name as ns. Give it once for each database; the first is that of clients that name none. "
            + "Default: default.", valueName: "name"))
    var namespace: [String] = []
    @Option(
        help: ArgumentHelp("Folder of the console page. Default: ./web, else ../share/vigla/web beside the program.", valueName: "folder"))
    var web: String?
    @Option(help: ArgumentHelp("JSON file of options, and of databases with rules of their own (docs/databases.md).", valueName: "file"))
    var config: String?
    @Option(help: ArgumentHelp(
        "When a write is acknowledged: full (on disk), normal (with the system) or memory (nothing is kept). Default: full.",
        valueName: "full|normal|memory"))
    var durability: String?
    @Flag(
        help: "Continue with the sound part when acknowledged writes cannot be read from the log. Keeps a copy of the damaged log.")
    var acceptLoss = false
    @Option(help: ArgumentHelp(
        "Network loops, all used alike. Default: one per core, each used when those before it have much to do.",
        valueName: "number")) var loops: String?
    @Option(
        help: ArgumentHelp("trace, debug, info, notice, warning, error or critical. Default: info.", valueName: "level")
    ) var logLevel: String?
    @Option(
        help: ArgumentHelp("Form of the log on standard error: text, or json for one object a line. Default: text.", valueName: "text|json")
    )
    var logFormat: String?
    @Option(help: ArgumentHelp(
        "Web pages that may connect, as origins separated by commas; * for all. Default: all, with --dev those of this machine.",
        valueName: "origins"))
    var allowOrigin: String?
    @Option(help: ArgumentHelp(
        "Who may read /.metrics: loopback (programs on this machine, and administrators with their secret), all or off. Default: loopback.",
        valueName: "loopback|all|off"))
    var metrics: String?
    @Flag(help: "Count the bytes sent to each user, for administrators: at /.metrics?by=user and on the page's tab Health.")
    var bytesByUser = false
    @Option(
        help: ArgumentHelp("Log why the rules refused something: at most so many lines a second. Default: 0, none.", valueName: "number"))
    var logRefusals: String?
    @Flag(help: "Log each HTTP request with its answer, without queries and header fields. SIGUSR2 turns that on and off.")
    var logRequests = false
    @Option(help: ArgumentHelp("MiB of memory for requests and answers under way of all clients together, beside the data; more is refused,"
        + " one address may have half. Half as much may wait for slow readers. Default: a quarter of what the process may use, 256 to "
        + "1024.", valueName: "MiB"))
    var memoryBudget: String?
    @Option(help: ArgumentHelp(
        "Seconds of silence after which a client counts as lost, and its onDisconnect writes are made (5 to 3600). Default: 60.",
        valueName: "seconds"))
    var presenceDeadline: String?
    @Option(help: ArgumentHelp(
        "Writes a second that each user may make, those without an account by address; more are refused. Default: no limit.",
        valueName: "number"))
    var rate: String?
    @Option(help: ArgumentHelp("Writes that --rate lets through at once after a quiet time. Default: those of 5 s.", valueName: "number"))
    var rateBurst: String?
    @Option(help: ArgumentHelp(
        "NATS servers with JetStream that keep the log of several hubs, separated by commas (docs/cluster.md).",
        valueName: "nats://host:port,…|tls://host:port,…"))
    var cluster: String?
    @Option(help: ArgumentHelp("Which of the servers' clusters of hubs this one belongs to. Default: vigla.", valueName: "name"))
    var clusterName: String?
    @Option(help: ArgumentHelp(
        "Where the other hubs of the cluster and administrators find this one. Default: its own address and port.",
        valueName: "http://host:port"))
    var clusterAddress: String?
    @Option(help: ArgumentHelp("tls:// servers: certificates (PEM) to trust besides the system's.", valueName: "file"))
    var clusterCa: String?
    @Option(help: ArgumentHelp("tls:// servers that ask for it: this hub's certificate (PEM).", valueName: "file"))
    var clusterCert: String?
    @Option(help: ArgumentHelp("The certificate's key (PEM).", valueName: "file")) var clusterKey: String?
    @OptionGroup(title: "Accounts") var accountOptions: AccountOptions
    @Flag(help: "Development: trust unsigned tokens and \"owner\"; without --rules everything is open.") var dev = false

    /// The options given on the command line.
    var given: [ServeOption: String] {
        let namespaces = namespace.isEmpty ? nil : namespace.joined(separator: ",")
        var given: [ServeOption: String] = [
            .host: host, .port: port, .tlsCert: tlsCert, .tlsKey: tlsKey, .tlsPort: tlsPort, .data: data, .rules: rules,
            .namespace: namespaces, .web: web, .config: config, .durability: durability, .loops: loops, .logLevel: logLevel,
            .logFormat: logFormat, .allowOrigin: allowOrigin, .metrics: metrics, .logRefusals: logRefusals,
            .memoryBudget: memoryBudget, .presenceDeadline: presenceDeadline, .rate: rate, .rateBurst: rateBurst,
            .cluster: cluster, .clusterName: clusterName, .clusterAddress: clusterAddress,
            .clusterCA: clusterCa, .clusterCert: clusterCert, .clusterKey: clusterKey,
        ].merging(accountOptions.given) { $1 }.compactMapValues { $0 }
        if memory { given[.memory] = "true" }
        if logRequests { given[.logRequests] = "true" }
        if bytesByUser { given[.bytesByUser] = "true" }
        if dev { given[.dev] = "true" }
        if acceptLoss { given[.acceptLoss] = "true" }
        return given
    }

    /// The environment variables that begin with `VIGLA_`.
    static var environment: [String: String] {
        var found: [String: String] = [:]
        var next = environ
        while let entry = next.pointee {
            let text = String(cString: entry)
            if text.hasPrefix("VIGLA_"), let equals = text.firstIndex(of: "=") {
                found[String(text[..<equals])] = String(text[text.index(after: equals)...])
            }
            next += 1
        }
        return found
    }
}
