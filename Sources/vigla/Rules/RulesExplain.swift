import ArgumentParser
import JSONTree
import ViglaClient

/// `vigla rules explain URL`, and with `--list` the whole file in sentences.
struct RulesExplain: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Ask a running hub how its rules decide a read or a write of a place, and why; or read a rules file in sentences.",
        discussion: """
            Changes nothing. Shows the evaluated rules with the values of their parts; the last one decided.

              export VIGLA_AUTH_FILE=secret.txt
              hub=http://127.0.0.1:9000
              vigla rules explain $hub/users/ada --as eve
              vigla rules explain $hub/users/ada --as eve --write '"Eve"'
              vigla rules explain $hub/cafes --count --near 37.9,23.7,1000
              vigla rules explain $hub/posts --as eve --order-by at --last 50
              vigla rules explain $hub/cafes --where 'open == true'

            With --list it says in sentences what the rules mean: for each place who reads and writes it, which values are valid, and \
            what follows. Of a file, or of a running hub; with a place in the address only that and what is below.

              vigla rules explain --list rules.json
              vigla rules explain --list $hub/posts

            --as is the id of a user. The address of one ('ana@example.org') is looked up in the hub's accounts. The options of a query \
            are those of 'vigla get'.

            Exits with 0 when the hub has answered, allowed or denied: the first word says which. Exits with 1 when there is no answer.
            """)

    @Argument(
        help: ArgumentHelp("The place, such as http://127.0.0.1:9000/users/ada. With --list also a rules file.", valueName: "url"),
        transform: ExplainedRules.init(argument:))
    var rules: ExplainedRules
    @Flag(help: "Say in sentences what the rules mean, place by place.") var list = false
    @Option(help: ArgumentHelp(
        "The user: auth.uid in the rules, or the address of an account of the hub. Default: signed out.", valueName: "uid"))
    var `as`: String?
    @Flag(help: "Take --as as it stands, also with an @ in it: for ids of an identity provider of your own.") var literal = false
    @Option(help: ArgumentHelp("Claims, which the rules see in auth.token.", valueName: "json")) var claims: String?
    @Option(help: ArgumentHelp("A value to be written; null removes. Default: a read.", valueName: "json")) var write: String?
    @Option(help: ArgumentHelp("Paths below the place, and values to be written there together.", valueName: "json")) var update: String?
    @Flag(help: "Whether the children may be counted (.count).") var count = false
    @OptionGroup(title: "Query") var query: QueryOptions
    @Flag(help: "Print the hub's answer as JSON (docs/rules.md).") var json = false
    @OptionGroup var credential: AdminCredential
    @OptionGroup var tlsOptions: TLSOptions

    func validate() throws {
        if list {
            let isOfUser = `as` != nil || literal || claims != nil
            if isOfUser || write != nil || update != nil || count || !query.isEmpty || query.shallow {
                throw ValidationError("--list is about all users and operations: leave out the other options.")
            }
            if rules.isHub { _ = try rules.url() }
            return
        }
        if !rules.isHub, Checks.isFile(rules.text) {
            throw ValidationError(
                "\(rules.text) is a file: 'vigla rules explain --list \(rules.text)' says what it means. To ask a hub about one operation, "
                    + "give the address of the place, such as http://127.0.0.1:9000/users/ada.")
        }
        _ = try rules.url()
        if [write != nil, update != nil, count].count(where: { $0 }) > 1 {
            throw ValidationError("--write, --update and --count exclude each other.")
        }
        if !query.isEmpty, write != nil || update != nil { throw ValidationError("A query is a read: leave out --write and --update.") }
        if query.hasStoredRegion {
            throw ValidationError(
                "--within takes the region itself here, such as 37.9,23.6,38.1,23.9: the rules decide by the kind and the size of a stored one, "
                    + "which only the hub knows.")
        }
        if query.shallow { throw ValidationError("--shallow is for 'vigla get': to the rules it is a read like any other.") }
        if `as`?.isEmpty == true { throw ValidationError("--as is the id of a user; leave it out for a signed-out caller.") }
        if claims != nil, `as` == nil { throw ValidationError("--claims need a user: name it with --as.") }
        for (name, text) in [("--write", write), ("--update", update), ("--claims", claims)] {
            guard let text, (try? JSONValue(Array(text.utf8))) == nil else { continue }
            throw ValidationError("\(name): \(WrittenValue.notJSON(text))")
        }
    }

    func run() throws {
        if list { return try printList() }
        let url = try rules.url()
        for hint in query.hints { StandardStream.error.line("vigla: \(hint)") }
        let user = user(at: url)
        let namespace = url.address.namespace.map { "?ns=\(UserText.escaped($0))" } ?? ""
        let (status, body) = HubRequest.send(
            "POST", "/.settings/explain\(namespace)", to: url.address, tls: tlsOptions, credential: credential.read(),
            body: inquiry(as: user, at: url))
        guard status == 200, let answer = try? JSONValue(body) else {
            HubRequest.refused(status, body, by: url.address, credential, advice: "Is this a hub?")
        }
        if json { return StandardStream.output.write(body) }
        show(answer, user)
    }

    /// The id that `--as` means; nil for a signed-out client. Ends the program for an address without an account: rules compare ids, so that an
    /// address would be denied for the wrong reason.
    private func user(at url: HubURL) -> String? {
        guard let given = `as`, given.contains("@"), !literal else { return `as` }
        let literally = "If \(UserText.plain(given)) is the id itself, as an identity provider of your own may give it, type: "
            + "--as '\(UserText.plain(given))' --literal"
        guard let id = AccountCalls(url: url, credential: credential, tlsOptions: tlsOptions, otherwise: literally).id(of: given) else {
            fail("--as takes a user's id, and no account of this hub has the address \(UserText.plain(given)).\n"
                + "'vigla user list \(url.address)' shows ids. \(literally)")
        }
        return id
    }

    /// A case of `vigla rules test` without expectation.
    private func inquiry(as user: String?, at url: HubURL) -> [UInt8] {
        var writer = JSONWriter()
        writer.raw("{\"as\":")
        if let user {
            writer.raw("{\"uid\":")
            writer.string(user)
            writer.raw(",\"token\":")
            writer.raw((claims ?? "{}").utf8)
            writer.raw("}")
        } else {
            writer.raw("null")
        }
        let members = query.caseMembers
        let operation = write != nil ? "write" : update != nil ? "update" : count ? "count" : members.isEmpty ? "read" : "query"
        writer.raw(",\"\(operation)\":".utf8)
        writer.path(url.path.keys)
        for (name, json) in members {
            writer.raw(",\"\(name)\":".utf8)
            writer.raw(json.utf8)
        }
        if let value = write ?? update {
            writer.raw(write != nil ? ",\"value\":" : ",\"values\":")
            writer.raw(value.utf8)
        }
        writer.raw("}")
        return writer.bytes
    }

    private func show(_ answer: JSONValue, _ user: String?) {
        let out = StandardStream.output
        let paths = (answer["paths"]?.elements ?? []).compactMap(\.string).joined(separator: ", ")
        let decision = answer["allowed"]?.bool == true ? "allowed" : "denied"
        let (operation, reason) = (answer["operation"]?.string ?? "", answer["reason"]?.string ?? "")
        // For an allowed operation the reason adds nothing.
        let why = answer["allowed"]?.bool == true ? "" : ": \(reason)"
        let who = user.map { $0 == `as` ? $0 : "\($0) (\(`as` ?? ""))" } ?? "a signed-out caller"
        out.line(UserText.plain("\(decision): \(operation) \(paths) as \(who)\(why)"))
        if let position = answer["position"]?.string { out.line(UserText.plain("  position: \(position)")) }
        for rule in answer["rules"]?.elements ?? [] {
            let outcome = rule["result"]?.bool.map { $0 ? "true" : "false" } ?? "failed: \(rule["error"]?.string ?? "")"
            let place = "\(rule["line"]?.int ?? 0):\(rule["column"]?.int ?? 0)"
            out.line(UserText.plain("  \(place) \(rule["rule"]?.string ?? "") at \(rule["path"]?.string ?? "") => \(outcome)"))
            for part in rule["parts"]?.elements ?? [] {
                let indent = String(repeating: "  ", count: Int(part["depth"]?.int ?? 0) + 2)
                out.line(UserText.plain("\(indent)\(part["text"]?.string ?? "") = \(Self.value(part))"))
            }
        }
        for rate in answer["rates"]?.elements ?? [] {
            let (rule, path, writes) = (rate["rule"]?.string ?? "", rate["path"]?.string ?? "", rate["writes"]?.int ?? 0)
            let allowed = "\(rate["perSecond"]?.json ?? "") writes a second, \(rate["burst"]?.json ?? "") at once"
            out.line(UserText.plain("  counts as \(writes) at \(path) by \(rule): \(allowed)"))
        }
        for write in answer["then"]?.elements ?? [] {
            let (path, rule) = (write["path"]?.string ?? "", write["rule"]?.string ?? "")
            let isRemoved = write["value"]?.json == "null"
            out.line(UserText.plain("  then \(path) \(isRemoved ? "is removed" : "= \(write["value"]?.json ?? "")") by \(rule)"))
        }
        for rows in answer["thenContinued"]?.elements ?? [] {
            let (path, rule) = (rows["path"]?.string ?? "", rows["rule"]?.string ?? "")
            out.line(UserText.plain("  then rows \(path) = \(rows["value"]?.json ?? ""), in commits of their own, by \(rule)"))
        }
        for node in answer["expires"]?.elements ?? [] {
            let (path, rule) = (node["path"]?.string ?? "", node["rule"]?.string ?? "")
            out.line(UserText.plain("  then \(path) expires at \(node["at"]?.int ?? 0) by \(rule)"))
        }
        if answer["truncated"]?.bool == true { out.line("  … (cut)") }
    }

    /// The value of a part. Objects and faults have no value in the answer, and are not null.
    private static func value(_ part: JSONValue) -> String {
        switch part["type"]?.string {
        case "object": "an object"
        case "error": "failed: \(part["error"]?.string ?? "")"
        default: part["value"]?.json ?? ""
        }
    }
}
