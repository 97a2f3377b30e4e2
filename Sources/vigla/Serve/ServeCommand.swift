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
            is logged and changes nothing. 'vigla serve --check' finds such a fault before. \
            All faults are reported together before the port is opened, and the exit code is then 78.

            Without --rules everything is denied, unless --dev is given. --dev is for your own machine only: unsigned tokens and \
            the token "owner" are trusted, and without --rules every client may read and write everything. 'vigla rules deploy' \
            changes the rules of a running hub. They stay in force until the file of --rules changes.
            """)

    @OptionGroup var options: ServeOptions
    @Flag(help: "Print every option's value and where it comes from, and end.") var printConfig = false
    @Flag(help: "Check the options and the files that they name, and end: with 0, or with 78 and the faults.") var check = false

    func run() throws {
        if printConfig {
            for line in ConfigurationTable.lines(options.given, ServeOptions.environment) { StandardStream.output.line(line) }
        }
        let faults: [String]
        switch ServeConfiguration.resolve(options.given, environment: ServeOptions.environment) {
        case .success(let configuration):
            if printConfig || check { return }
            start(configuration)
        case .failure(let found): faults = found.faults
        }
        if (options.given[.logFormat] ?? Environment["VIGLA_LOG_FORMAT"]) == LogLines.Format.json.rawValue {
            for fault in faults { Notices(.json).fault("the configuration has a fault: \(fault)") }
            throw ExitCode(78)
        }
        let count = faults.count == 1 ? "a fault" : "\(faults.count) faults"
        StandardStream.error.line("vigla: the configuration has \(count):\n" + faults.map { "  " + $0 }.joined(separator: "\n"))
        throw ExitCode(78)
    }

    private func start(_ configuration: ServeConfiguration) -> Never {
        FreedMemory.configure()
        signal(SIGPIPE, SIG_IGN)
        // A file that may not grow is handled like a full disk, and must not end the process.
        signal(SIGXFSZ, SIG_IGN)
        let (level, format) = (configuration.logLevel, configuration.logFormat)
        // The last lines are also kept for administrators.
        let recent = RecentLog { SystemTime.wallMs }
        LoggingSystem.bootstrap { label in
            MultiplexLogHandler([LogLines(label: label, format: format, level: level), recent.handler(level)])
        }
        let signals = ProcessSignals()
        let scheduler = Scheduler.system()
        let manager = ServiceManager()
        manager?.starting()
        let notices = Notices(format)
        let server: Server
        var held: [String] = []
        do throws(ServerError) {
            let logger = Logger(label: "vigla")
            var settings = configuration.settings
            settings.recentLog = recent
            // A script that has seen the hub answer may read the secret's file and use it.
            server = try Server(settings, scheduler: scheduler, logger: logger, beforeServing: { makeSecret($0, configuration, notices) }) {
                () throws(JournalError) in
                let storage = try configuration.openStorage(scheduler, logger)
                held = (storage as? JournalStore)?.namespaces() ?? []
                return storage
            }
        } catch {
            if format == .json { notices.fault("\(error)") } else { fail("\(error)") }
            end(1)
        }
        FreedMemory.watch(server, scheduler)
        for warning in configuration.warnings(server, held: held) { notices.warn(warning) }
        notices.ready(configuration.readyLine(server))
        manager?.ready()
        manager?.watch(server, scheduler)
        let rulesFiles = configuration.settings.rulesFiles.map(\.file)
        // Confirm Ctrl-C at a terminal; a service manager writes its own messages.
        let isAttended = isatty(STDERR_FILENO) == 1
        signals.begin(stop: {
            manager?.stopping()
            if isAttended { notices.inform(Self.stopping(server.connections)) }
            server.stop {
                if isAttended { notices.inform("Stopped.") }
                end()
            }
        }, reload: {
            server.reloadCertificate()
            for file in rulesFiles {
                switch RulesSource.read(file) {
                case .success(let rules):
                    for line in RulesSource.warnings(of: rules, in: file) { notices.warn(line) }
                    server.reload(rules, of: file)
                case .failure(let fault): server.logFaultyRules(fault.lines)
                }
            }
        }, toggle: { server.toggleRequestLog() })
        dispatchMain()
    }

    /// Begins with a line break, behind the terminal's `^C`.
    private static func stopping(_ connections: Int) -> String {
        let what = connections == 0 ? "" : ": closing \(connections) \(connections == 1 ? "connection" : "connections")"
        return "\nStopping\(what)… (Ctrl-C again ends at once)"
    }

    private func makeSecret(_ server: Server, _ configuration: ServeConfiguration, _ notices: Notices) {
        guard let folder = configuration.settings.dataFolder, !configuration.settings.isDev else { return }
        switch FirstSecret.make(server.secrets, in: folder) {
        case .success(nil): break
        case .success(let path?):
            notices.inform("vigla: made the first administrator's secret: \(path) (for --auth-file and VIGLA_AUTH_FILE; printed once)")
        case .failure(let fault): notices.warn("vigla: there is no administrator's secret, and the hub could not create one: \(fault.text)")
        }
    }
}
