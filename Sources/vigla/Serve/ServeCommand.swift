import ArgumentParser
import Dispatch
import Glibc
import HubServer
import Journal
import Logging
import Scheduling
import SQLiteJournal

/// `vigla serve`: the hub itself.
struct Serve: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run a hub.",
        discussion: """
            Prints one line when it is ready, and stops on SIGTERM or Ctrl-C. Everything is on one port: the page at /.console/, \
            the stock SDKs' socket at /.ws and their accounts, REST at /<path>.json, the observe protocol at /.observe, /.health.

            Every option can also be set in the environment (--log-level as VIGLA_LOG_LEVEL, and so on) and in a JSON file \
            ({"log-level":"debug"}) named by --config. The command line wins over the environment, the environment over the file. \
            Sent SIGHUP, the hub reads the files of --tls-cert and --rules again, without touching open connections; a faulty file \
            is logged and changes nothing. \
            All faults are reported together before the port is opened, and the exit code is then 78.

            Without --rules everything is denied, unless --dev is given. --dev is for your own machine only: unsigned tokens and \
            the token "owner" are trusted, and without --rules everybody may read and write everything. 'vigla rules deploy' \
            changes the rules of a running hub; they are kept, and hold until --rules names a file that was changed since.
            """)

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
    @Option(help: ArgumentHelp("Namespace of clients that name none. Default: default.", valueName: "name")) var namespace: String?
    @Option(
        help: ArgumentHelp("Folder of the console page. Default: ./web, else ../share/vigla/web beside the program.", valueName: "folder"))
    var web: String?
    @Option(help: ArgumentHelp("JSON file of options.", valueName: "file")) var config: String?
    @Option(help: ArgumentHelp(
        "When a write is acknowledged: full (on disk), normal (with the system) or memory (nothing is kept). Default: full.",
        valueName: "full|normal|memory"))
    var durability: String?
    @Flag(
        help: "Go on with what is sound when acknowledged writes cannot be read from the log. A copy of the damaged log is kept beside it.")
    var acceptLoss = false
    @Option(help: ArgumentHelp("Network loops. Default: one per core.", valueName: "number")) var loops: String?
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
        "Who may read /.metrics: loopback (programs on this machine), all or off. Default: loopback.", valueName: "loopback|all|off"))
    var metrics: String?
    @Option(
        help: ArgumentHelp("Log why the rules refused something: at most so many lines a second. Default: 0, none.", valueName: "number"))
    var logRefusals: String?
    @Option(help: ArgumentHelp("MiB of memory for requests and answers under way of all clients together, beside the data; more is refused,"
        + " one address may have half. Half as much may wait for slow readers. Default: a quarter of what the process may use, 256 to "
        + "1024.", valueName: "MiB"))
    var memoryBudget: String?
    @OptionGroup(title: "Accounts") var accountOptions: AccountOptions
    @Flag(help: "Development: trust unsigned tokens and \"owner\"; without --rules everything is open.") var dev = false

    func run() throws {
        let faults: [String]
        switch ServeConfiguration.resolve(given, environment: Self.environment) {
        case .success(let configuration): start(configuration)
        case .failure(let found): faults = found.faults
        }
        if (given[.logFormat] ?? Environment["VIGLA_LOG_FORMAT"]) == LogLines.Format.json.rawValue {
            for fault in faults { Notices(.json).fault("the configuration has a fault: \(fault)") }
            throw ExitCode(78)
        }
        let count = faults.count == 1 ? "a fault" : "\(faults.count) faults"
        StandardStream.error.line("vigla: the configuration has \(count):\n" + faults.map { "  " + $0 }.joined(separator: "\n"))
        throw ExitCode(78)
    }

    /// What the command line says.
    private var given: [ServeOption: String] {
        var given: [ServeOption: String] = [
            .host: host, .port: port, .tlsCert: tlsCert, .tlsKey: tlsKey, .tlsPort: tlsPort, .data: data, .rules: rules,
            .namespace: namespace, .web: web, .config: config, .durability: durability, .loops: loops, .logLevel: logLevel,
            .logFormat: logFormat, .allowOrigin: allowOrigin, .metrics: metrics, .logRefusals: logRefusals,
            .memoryBudget: memoryBudget,
        ].merging(accountOptions.given) { $1 }.compactMapValues { $0 }
        if memory { given[.memory] = "true" }
        if dev { given[.dev] = "true" }
        if acceptLoss { given[.acceptLoss] = "true" }
        return given
    }

    private static var environment: [String: String] {
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

    private func start(_ configuration: ServeConfiguration) -> Never {
        FreedMemory.configure()
        signal(SIGPIPE, SIG_IGN)
        // A file that may not grow is a full disk, and no reason to end.
        signal(SIGXFSZ, SIG_IGN)
        let (level, format) = (configuration.logLevel, configuration.logFormat)
        LoggingSystem.bootstrap { label in LogLines(label: label, format: format, level: level) }
        let signals = ProcessSignals()
        let scheduler = Scheduler.system()
        let server: Server
        var held: [String] = []
        do throws(ServerError) {
            let logger = Logger(label: "vigla")
            server = try Server(configuration.settings, scheduler: scheduler, logger: logger) { () throws(JournalError) in
                let storage = try configuration.openStorage(scheduler, logger)
                held = (storage as? JournalStore)?.namespaces() ?? []
                return storage
            }
        } catch {
            if format == .json { Notices(format).fault("\(error)") } else { fail("\(error)") }
            end(1)
        }
        FreedMemory.watch(server, scheduler)
        let notices = Notices(format)
        for warning in configuration.warnings(server, held: held) { notices.warn(warning) }
        if let folder = configuration.settings.dataFolder, !configuration.settings.isDev {
            switch FirstSecret.make(server.secrets, in: folder) {
            case .success(nil): break
            case .success(let path?):
                notices.tell("vigla: made the first administrator's secret: \(path) (for --auth-file and VIGLA_AUTH_FILE; told this once)")
            case .failure(let fault): notices.warn("vigla: there is no administrator's secret yet, and none could be made: \(fault.text)")
            }
        }
        notices.ready(configuration.readyLine(server))
        let rulesFile = configuration.settings.rulesFile
        signals.begin(stop: { server.stop { end() } }, reload: {
            server.reloadCertificate()
            guard let rulesFile else { return }
            switch RulesSource.read(rulesFile) {
            case .success(let rules):
                for line in RulesSource.warnings(of: rules, in: rulesFile) { notices.warn(line) }
                server.reload(rules)
            case .failure(let fault): server.logFaultyRules(fault.lines)
            }
        })
        dispatchMain()
    }
}
