import ArgumentParser
import JSONTree
import ViglaClient

/// `vigla rules explain URL`
struct RulesExplain: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Ask a running hub how its rules decide a read or a write of a place, and why.",
        discussion: """
            Nothing is changed. Shows the rules that were asked, with what their parts came to; the last one decided.

              vigla rules explain http://127.0.0.1:9000/users/ada --as eve --auth-file secret.txt
              vigla rules explain http://127.0.0.1:9000/users/ada/name --as eve --write '"Eve"' --auth-file secret.txt
            """)

    @Argument(help: "The place, such as http://127.0.0.1:9000/users/ada.", transform: HubURL.init(argument:)) var url: HubURL
    @Option(help: ArgumentHelp("Who asks: the rules' auth.uid. Default: somebody who is signed out.", valueName: "uid")) var `as`: String?
    @Option(help: ArgumentHelp("Claims, which the rules see in auth.token.", valueName: "json")) var claims: String?
    @Option(help: ArgumentHelp("A value to be written; null removes. Default: a read.", valueName: "json")) var write: String?
    @Option(help: ArgumentHelp("Paths below the place, and values to be written there together.", valueName: "json")) var update: String?
    @Flag(help: "Print the hub's answer as JSON (docs/rules.md).") var json = false
    @OptionGroup var credential: AdminCredential
    @OptionGroup var trust: Trust

    func validate() throws {
        if write != nil, update != nil { throw ValidationError("--write and --update exclude each other.") }
        if claims != nil, `as` == nil { throw ValidationError("--claims are of somebody: name the user with --as.") }
        for (name, text) in [("--write", write), ("--update", update), ("--claims", claims)] {
            guard let text, (try? JSONValue(Array(text.utf8))) == nil else { continue }
            throw ValidationError("\(name): this is not JSON; a text needs its quotes: '\"hello\"'.")
        }
    }

    func run() {
        let namespace = url.address.namespace.map { "?ns=\(UserText.escaped($0))" } ?? ""
        let (status, body) = AdminCall.ask(
            "POST", "/.settings/explain\(namespace)", at: url.address, tls: trust.client(for: url.address), credential: credential.read(),
            body: inquiry)
        guard status == 200, let answer = try? JSONValue(body) else {
            AdminCall.refused(status, body, by: url.address, credential, advice: "Is this a hub?")
        }
        if json { return StandardStream.output.write(body) }
        show(answer)
    }

    /// A case of `vigla rules test` without expectation.
    private var inquiry: [UInt8] {
        var writer = JSONWriter()
        writer.raw("{\"as\":")
        if let user = `as` {
            writer.raw("{\"uid\":")
            writer.string(user)
            writer.raw(",\"token\":")
            writer.raw((claims ?? "{}").utf8)
            writer.raw("}")
        } else {
            writer.raw("null")
        }
        writer.raw(write != nil ? ",\"write\":" : update != nil ? ",\"update\":" : ",\"read\":")
        writer.path(url.path.keys)
        if let value = write ?? update {
            writer.raw(write != nil ? ",\"value\":" : ",\"values\":")
            writer.raw(value.utf8)
        }
        writer.raw("}")
        return writer.bytes
    }

    private func show(_ answer: JSONValue) {
        let out = StandardStream.output
        let paths = (answer["paths"]?.elements ?? []).compactMap(\.string).joined(separator: ", ")
        let decision = answer["allowed"]?.bool == true ? "allowed" : "denied"
        let (operation, reason) = (answer["operation"]?.string ?? "", answer["reason"]?.string ?? "")
        out.line(UserText.plain("\(decision): \(operation) \(paths) as \(`as` ?? "nobody"): \(reason)"))
        for rule in answer["rules"]?.elements ?? [] {
            let outcome = rule["result"]?.bool.map { $0 ? "true" : "false" } ?? "failed: \(rule["error"]?.string ?? "")"
            let place = "\(rule["line"]?.int ?? 0):\(rule["column"]?.int ?? 0)"
            out.line(UserText.plain("  \(place) \(rule["rule"]?.string ?? "") at \(rule["path"]?.string ?? "") => \(outcome)"))
            for part in rule["parts"]?.elements ?? [] {
                let indent = String(repeating: "  ", count: Int(part["depth"]?.int ?? 0) + 2)
                let value = part["value"]?.json ?? part["type"]?.string ?? ""
                out.line(UserText.plain("\(indent)\(part["text"]?.string ?? "") = \(value)"))
            }
        }
        if answer["truncated"]?.bool == true { out.line("  … (cut)") }
    }
}
