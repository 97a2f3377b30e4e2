import ArgumentParser
import HubServer
import JSONTree
import Scheduling
import SecurityRules
import ViglaClient

/// `vigla rules deploy URL FILE`
struct RulesDeploy: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "deploy",
        abstract: "Deploy a rules file to a running hub.",
        discussion: """
            The hub checks the file; a faulty one changes nothing, and every fault is shown with its place. Correct rules decide at \
            once, and clients that may no longer watch a place are notified. The hub keeps them across restarts; if it was \
            started with --rules FILE, until that file is changed.

              export VIGLA_AUTH_FILE=secret.txt
              vigla rules deploy http://127.0.0.1:9000 rules.json --dry-run

            A file that grants nothing to anybody is deployed over rules that do only when it is confirmed: at the terminal, or by \
            --deny-all.

            The hub then computes counters, copies and expiry in the background. The command waits until they are complete, and says \
            how long that took. With --no-wait it does not.

            Exits with 1 if the rules are not in force.
            """)

    @Argument(help: "The hub, such as http://127.0.0.1:9000.", transform: HubURL.init(argument:)) var url: HubURL
    @Argument(help: "The rules file.") var file: String
    @Option(
        help: ArgumentHelp("Namespace to deploy to. Default: that of the URL (?ns=NAME), else the hub's default.", valueName: "name")
    ) var namespace: String?
    @Flag(help: "Only check, and say what would change.") var dryRun = false
    @Flag(help: "List all rules that change, not only the first ten of those added, changed and removed.") var verbose = false
    @Flag(help: "Deploy rules that grant nothing without a question.") var denyAll = false
    @Flag(help: "Do not wait until the counters, copies and expiry of the rules are complete.") var noWait = false
    @OptionGroup var credential: AdminCredential
    @OptionGroup var tlsOptions: TLSOptions

    func validate() throws {
        try refuseSwapped(file, "vigla rules deploy URL FILE")
        try url.refusePath("Rules belong to a whole namespace")
        if let namespace, !Namespace.isValid(namespace) { throw ValidationError("--namespace is 1–64 letters, digits, - and _.") }
    }

    func run() {
        let source: [UInt8]
        switch WholeFile.read(file) {
        case .success(let bytes): source = bytes
        case .failure(let fault): fail("\(file): \(fault)")
        }
        var target = "/.settings/rules.json?details=true"
        if let namespace = namespace ?? url.address.namespace { target += "&ns=\(namespace)" }
        let report = DeployReport(
            file: file, lines: String(decoding: source, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false),
            isDryRun: dryRun, listedMost: verbose ? .max : 10,
            place: "\(url.address)" + ((namespace ?? url.address.namespace).map { ", namespace \($0)" } ?? ""), credential: credential)
        let secret = credential.read()
        let put = { (target: String) in
            HubRequest.send("PUT", target, to: url.address, tls: tlsOptions, credential: secret, body: source)
        }
        if !dryRun, !denyAll, let rules = try? RuleSet(parsing: source), rules.grantsNothing {
            let (status, body) = put(target + "&dryRun=true")
            if status == 200, let changes = DeployReport.answer(body)?.child("changes"), changes.child("same") != true {
                confirm(report.summary(changes))
            }
        }
        let (status, body) = put(dryRun ? target + "&dryRun=true" : target)
        report.show(status, body)
        if let answer = DeployReport.answer(body), !noWait { wait(for: answer, secret) }
        end()
    }

    /// Waits until the hub has computed the derived data that the rules need.
    private func wait(for answer: Node, _ secret: String?) {
        var pending = DeployReport.pending(answer)
        if pending.isEmpty { return }
        let what = pending.joined(separator: ", ")
        let target = "/.settings/derived.json?wait=500" + ((namespace ?? url.address.namespace).map { "&ns=\($0)" } ?? "")
        let began = SystemTime.steadyNs
        var (progress, ms) = (ProgressLine("waiting for \(what)"), 0)
        while !pending.isEmpty {
            progress.show(Int((SystemTime.steadyNs - began) / 1_000_000_000), unit: "s")
            let (status, body) = HubRequest.send("GET", target, to: url.address, tls: tlsOptions, credential: secret)
            guard status == 200, let answer = DeployReport.answer(body) else { break }
            pending = DeployReport.pending(answer)
            if case .int(let taken) = answer.child("ms") { ms = Int(taken) }
        }
        progress.end()
        if pending.isEmpty { StandardStream.output.line("\(what): complete after \(ms) ms") }
    }

    /// Asks for confirmation of rules that deny everything; ends the program without it.
    private func confirm(_ changes: String) {
        StandardStream.error.line("vigla: \(file) grants nothing: only administrators could still read or write (\(changes)).")
        guard let answer = Prompt.line("Deploy it? Type yes: ") else {
            fail("not deployed: the rules in force stay. If this is meant, say so with --deny-all.")
        }
        guard answer == "yes" else { fail("not deployed: the rules in force stay.") }
    }
}

extension RuleSet {
    /// Whether the rules clearly refuse every request except administrators'.
    fileprivate var grantsNothing: Bool {
        rules.allSatisfy { rule in
            let isGrant = rule.name.hasSuffix(".read") || rule.name.hasSuffix(".write")
            return !isGrant || rule.source.text.split(separator: " ").joined() == "false"
        }
    }
}

/// A hub's answer to a deploy, for a person.
private struct DeployReport {
    let file: String
    let lines: [Substring]
    let isDryRun: Bool
    /// How many rules are listed for each kind of change.
    let listedMost: Int
    let place: String
    let credential: AdminCredential

    static func answer(_ body: [UInt8]) -> Node? {
        body.withUnsafeBytes { bytes in
            var reader = JSONReader(bytes)
            return try? reader.claims()
        }
    }

    /// The derived data that is not complete yet, in words.
    static func pending(_ answer: Node) -> [String] {
        answer.child("pending").children.compactMap { _, kind in
            switch kind {
            case "counters": "counters"
            case "copies": "copies"
            case "watches": "watches"
            case "expiry": "expiry"
            default: nil
            }
        }
    }

    /// Prints the report of accepted rules; ends the program if they were refused.
    func show(_ status: Int, _ body: [UInt8]) {
        let answer = Self.answer(body) ?? .null
        switch status {
        case 200: accepted(answer)
        case 400 where answer.child("error").exists: refused(answer)
        case 401, 403:
            fail("the hub did not take the rules (\(status)). \(credential.refused)")
        case 404: fail(text(answer.child("error")) ?? "there are no rules to deploy at \(place) (404): is this a hub?")
        default: fail("the hub did not take the rules (\(status))" + (text(answer.child("error")).map { ": \($0)" } ?? ""))
        }
    }

    private func refused(_ answer: Node) -> Never {
        let faults = children(answer.child("faults"))
        if faults.isEmpty {
            // The answer of some other server.
            for line in (text(answer.child("error")) ?? "").split(separator: "\n") { StandardStream.error.line("\(file):\(line)") }
        }
        for fault in faults { show(fault, "") }
        StandardStream.error.line("vigla: not deployed: the rules in force at \(place) stay.")
        end(1)
    }

    private func accepted(_ answer: Node) {
        for warning in children(answer.child("warnings")) { show(warning, "warning: ") }
        let changes = answer.child("changes")
        let done = isDryRun ? "could be deployed to \(place)" : "deployed to \(place)"
        StandardStream.output.line("\(file): \(done): \(summary(changes))")
        for (list, mark) in [("added", "+"), ("changed", "~"), ("removed", "-")] {
            let names = children(changes.child(Key(list))).prefix(listedMost)
            for name in names { StandardStream.output.line("  \(mark) \(text(name) ?? "")") }
            let more = count(changes, list) - names.count
            if more > 0 { StandardStream.output.line("  \(mark) … \(more) more\(listedMost == .max ? "" : " (--verbose)")") }
        }
        switch text(answer.child("kept")) {
        case "untilStop": StandardStream.output.line("They stay in force until the hub stops: it stores nothing on disk.")
        case "untilFileChanges":
            StandardStream.output.line(
                "They stay in force across restarts, until the hub's rules file changes (--rules \(text(answer.child("file")) ?? "FILE"))."
            )
        default: break
        }
    }

    func summary(_ changes: Node) -> String {
        if changes.child("same") == true { return "the same text as in force" }
        let parts = ["added", "changed", "removed"].compactMap { list in
            let count = count(changes, list)
            return count > 0 ? "\(count) \(list)" : nil
        }
        return parts.isEmpty ? "no rule changes" : "rules: " + parts.joined(separator: ", ")
    }

    private func count(_ changes: Node, _ list: String) -> Int {
        guard case .int(let count) = changes.child(Key(list + "Count")) else { return 0 }
        return Int(count)
    }

    /// Prints one fault with its line, and a mark under its position.
    private func show(_ fault: Node, _ kind: String) {
        guard case .int(let line) = fault.child("line"), case .int(let column) = fault.child("column") else { return }
        let hint = text(fault.child("hint")).map { " (\($0))" } ?? ""
        StandardStream.error.line("\(file):\(line):\(column): \(kind)\(text(fault.child("message")) ?? "")\(hint)")
        guard let source = Int(exactly: line).flatMap({ lines.indices.contains($0 - 1) ? lines[$0 - 1] : nil }) else { return }
        let units = Array(source.utf16)
        // Show only a part: minified files have one long line.
        let start = max(0, Int(column) - 1 - 60)
        let shown = String(decoding: units[min(start, units.count)..<min(units.count, start + 120)], as: UTF16.self)
        let before = String(decoding: units[min(start, units.count)..<min(units.count, max(start, Int(column) - 1))], as: UTF16.self)
        StandardStream.error.line("    " + shown.replacing("\r", with: ""))
        StandardStream.error.line("    " + String(before.map { $0 == "\t" ? "\t" : " " }) + "^")
    }

    private func text(_ node: Node) -> String? {
        if case .string(let text) = node { text.string } else { nil }
    }

    private func children(_ node: Node) -> [Node] { node.children.map(\.node) }
}
