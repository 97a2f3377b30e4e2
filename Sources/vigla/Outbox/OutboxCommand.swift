import ArgumentParser
import JSONTree
import ViglaClient

/// `vigla outbox …`
struct OutboxCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "outbox",
        abstract: "See what could not be delivered, and try it again; test a device.",
        discussion: """
            Notifications and events that the rules send (.notify, .webhook) wait in the outbox until they are delivered. One that no \
            further attempt can help is a dead letter, with its reason:

              vigla outbox list http://127.0.0.1:9000 --auth-file ./data/admin-secret.txt
              vigla outbox test http://127.0.0.1:9000/devices/ana/phone --auth-file ./data/admin-secret.txt

            ?ns=NAME in the address selects a database of the hub.
            """,
        subcommands: [List.self, Retry.self, Discard.self, Test.self])

    /// A database whose outbox is administered.
    struct Hub: ParsableArguments {
        @Argument(help: "The hub, such as http://127.0.0.1:9000 (?ns=NAME: another database).", transform: HubURL.init(argument:))
        var url: HubURL
        @OptionGroup var credential: AdminCredential
        @OptionGroup var tlsOptions: TLSOptions

        func validate() throws { try url.refusePath("An outbox belongs to a whole database (?ns=NAME)") }

        func send(_ method: String, _ target: String) -> JSONValue {
            OutboxCommand.send(method, target, to: url.address, credential, tlsOptions)
        }
    }

    /// Sends a request; ends the program if the hub refuses.
    fileprivate static func send(
        _ method: String, _ target: String, _ body: JSONValue? = nil, to address: HubAddress, _ credential: AdminCredential,
        _ tls: TLSOptions
    ) -> JSONValue {
        let (status, bytes) = HubRequest.send(
            method, address.selecting("/.outbox\(target)"), to: address, tls: tls, credential: credential.read(), body: body?.bytes ?? [])
        let answer = (try? JSONValue(bytes)) ?? .null
        if status == 200 { return answer }
        if status == 404, let text = answer["error"]?.string { fail(UserText.plain(text)) }
        HubRequest.refused(status, bytes, by: address, credential, advice: "")
    }

    /// Which dead letters a command changes.
    struct Letters: ParsableArguments {
        @Option(help: ArgumentHelp("The id of one, as 'vigla outbox list' shows it.", valueName: "id")) var id: String?
        @Flag(help: "All dead letters.") var all = false

        func validate() throws {
            if (id == nil) == !all { throw ValidationError("Name either one dead letter with --id, or --all.") }
        }

        /// The query that selects them.
        var query: String { id.map { "?id=\(UserText.escaped($0))" } ?? "?all=true" }
    }

    fileprivate static func letters(_ count: Int64) -> String { "\(count) dead letter\(count == 1 ? "" : "s")" }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List dead letters with their reasons, or what waits for its next attempt, the oldest first.")
        @OptionGroup var hub: Hub
        @Flag(help: "Those that wait, with the time of their next attempt.") var waiting = false
        @Option(help: ArgumentHelp("At most so many (1 to 1000000). Default: 100.", valueName: "number")) var limit = 100
        @Flag(help: "One object of JSON a line, with all that the hub knows.") var json = false

        func validate() throws {
            if !(1...1_000_000 ~= limit) { throw ValidationError("--limit is a number from 1 to 1000000.") }
        }

        func run() {
            var (entries, after) = ([JSONValue](), "")
            while entries.count < limit {
                let (count, state) = (min(1_000, limit - entries.count), waiting ? "waiting" : "dead")
                let page = hub.send("GET", ".json?state=\(state)&limit=\(count)\(after)")
                entries += page["entries"]?.elements ?? []
                // A page may be short or empty before the last one.
                guard let next = page["next"]?.string else { break }
                after = "&after=\(UserText.escaped(next))"
            }
            if json {
                for entry in entries { StandardStream.output.line(String(decoding: entry.bytes, as: UTF8.self)) }
            } else if !entries.isEmpty {
                let rows = [["ID", "FROM", "TO", "ATTEMPTS", waiting ? "NEXT" : "SINCE", waiting ? "" : "REASON"]]
                for line in TextTable.lines(rows + entries.map(row)) { StandardStream.output.line(line) }
            }
            end()
        }

        private func row(_ entry: JSONValue) -> [String] {
            let to = entry["webhook"]?.string.map { "webhook \($0)" } ?? entry["device"]?.string ?? ""
            let time = entry[waiting ? "due" : "diedAt"]?.int.map(UserText.time) ?? "-"
            return [
                entry["id"]?.string ?? "", entry["source"]?.string ?? "", to, "\(entry["attempts"]?.int ?? 0)", time,
                entry["reason"]?.string ?? "",
            ]
        }
    }

    struct Retry: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Try dead letters again, after what was wrong is put right.")
        @OptionGroup var hub: Hub
        @OptionGroup var chosen: Letters

        func run() {
            let count = hub.send("POST", "/retry.json\(chosen.query)")["count"]?.int ?? 0
            StandardStream.output.line("\(OutboxCommand.letters(count)) will be tried again")
            end()
        }
    }

    struct Discard: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Drop dead letters, for good.")
        @OptionGroup var hub: Hub
        @OptionGroup var chosen: Letters

        func run() {
            let count = hub.send("DELETE", ".json\(chosen.query)")["count"]?.int ?? 0
            StandardStream.output.line("\(OutboxCommand.letters(count)) discarded")
            end()
        }
    }

    struct Test: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send a test notification to one device, whatever the rules say.",
            discussion: """
                The address is that of the device's row, such as http://127.0.0.1:9000/devices/ana/phone. If nothing arrives, \
                'vigla outbox list' shows the reason.
                """)
        @Argument(help: "The device's row, such as http://127.0.0.1:9000/devices/ana/phone.", transform: HubURL.init(argument:))
        var url: HubURL
        @Option(help: ArgumentHelp("Default: Test.", valueName: "text")) var title = "Test"
        @Option(help: ArgumentHelp("Default: This is a test of the hub.", valueName: "text")) var text = "This is a test of the hub."
        @OptionGroup var credential: AdminCredential
        @OptionGroup var tlsOptions: TLSOptions

        func validate() throws {
            if url.path.isRoot { throw ValidationError("Name the device's row, such as http://127.0.0.1:9000/devices/ana/phone.") }
            if let parameter = url.parameters.first {
                throw ValidationError("The address has '\(parameter.name)' in its query, which this command does not know.")
            }
        }

        func run() {
            let answer = OutboxCommand.send("POST", "/test.json", [
                "device": .string("\(url.path)"), "title": .string(title), "text": .string(text),
            ], to: url.address, credential, tlsOptions)
            StandardStream.output.line("\(UserText.plain(answer["id"]?.string ?? "")): a test for \(url.path) is on its way")
            end()
        }
    }
}
