import ArgumentParser
import HubServer

/// `vigla doctor`
struct Doctor: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check this machine and the options of a hub, and say what to type.",
        discussion: """
            Takes the options of 'vigla serve', and reads the same environment and --config file. Without any option, and with the \
            package installed, it checks the service's settings: \(ServiceSettings.file). Starts no hub and changes nothing; it may run \
            while the hub runs. It names a wrong option and still checks the rest. With sudo it opens files as the hub's user does \
            (the owner of the data folder), and reports what that user cannot read or write.

              vigla doctor --data ./data --rules rules.json

            Exits with 1 when something is wrong, with 0 when there are warnings only.
            """)

    @OptionGroup var options: ServeOptions
    @Option(help: .hidden) var serviceSettings = ServiceSettings.file

    func run() throws {
        switch ServiceSettings.find(options.given, ServeOptions.environment, file: serviceSettings) {
        case .none: try report(findings(ServeOptions.environment, isService: false))
        case .environment(let found):
            try report([.good("options", "those of the service, in \(serviceSettings)")] + findings(found, isService: true))
        case .closed(let finding): try report([finding])
        }
    }

    private func findings(_ environment: [String: String], isService: Bool) -> [Finding] {
        // Ports and limits are checked as root when root runs the doctor: the unit grants the hub the rights for them.
        var examined = ServeConfiguration.examine(options.given, environment: environment)
        var ports: [Finding] = []
        if examined.faulty.isDisjoint(with: [.port, .tlsPort]) {
            ports = PortCheck(examined.configuration.settings, isTLSKnown: !examined.faulty.contains(.tlsCert)).findings
        }
        let machine = MachineCheck.findings()
        var findings: [Finding] = []
        if let user = HubUser.find(examined.configuration.settings.dataFolder, isService: isService) {
            if let fault = user.become() {
                findings.append(.warning("user", "files are checked as root opens them, not as the hub's user \(user.name): \(fault)"))
            } else {
                findings.append(.good("user", "files are checked as the hub's user \(user.name) opens them"))
                examined = ServeConfiguration.examine(options.given, environment: environment)
            }
        }
        let (settings, faulty) = (examined.configuration.settings, examined.faulty)
        findings += examined.faults.map { .wrong("options", $0) }
        findings += examined.configuration.unknownVariables.map { .warning("options", "there is no option for \($0) in the environment") }
        findings += ports
        findings += TLSCheck.findings(settings)
        findings += RulesCheck.findings(settings, isFileFaulty: faulty.contains(.rules))
        if let folder = settings.dataFolder, !faulty.contains(.data) { findings += FolderCheck.findings(folder) }
        return findings + machine
    }

    private func report(_ findings: [Finding]) throws {
        for finding in findings { for line in finding.lines { StandardStream.output.line(line) } }
        let wrong = findings.count { $0.mark == .wrong }
        let warnings = findings.count { $0.mark == .warning }
        let verdict = wrong == 0 && warnings == 0 ? "all is well" : "\(wrong) wrong, \(warnings) to look at"
        StandardStream.output.line("doctor: \(verdict)")
        if wrong > 0 { throw ExitCode(1) }
    }
}

/// One line of the doctor: the subject, the result, and what to type.
struct Finding {
    enum Mark: String { case good = "ok", warning = "warn", wrong = "WRONG" }

    let mark: Mark
    let about: String
    let text: String
    var advice: String?

    static func good(_ about: String, _ text: String) -> Finding { Finding(mark: .good, about: about, text: text) }
    static func warning(_ about: String, _ text: String, _ advice: String? = nil) -> Finding {
        Finding(mark: .warning, about: about, text: text, advice: advice)
    }
    static func wrong(_ about: String, _ text: String, _ advice: String? = nil) -> Finding {
        Finding(mark: .wrong, about: about, text: text, advice: advice)
    }

    /// `WRONG  port     127.0.0.1:9000: …`, and the advice below it.
    var lines: [String] {
        let head = mark.rawValue.padded(7) + about.padded(9)
        return ["\(head)\(text)"] + (advice.map { [String(repeating: " ", count: 16) + "→ \($0)"] } ?? [])
    }
}

extension String {
    fileprivate func padded(_ width: Int) -> String { self + String(repeating: " ", count: max(1, width - count)) }
}
