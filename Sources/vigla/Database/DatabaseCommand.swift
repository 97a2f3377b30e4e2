import Accounts
import ArgumentParser
import HubServer
import JSONTree
import SecurityRules
import ViglaClient

/// `vigla database …`
struct DatabaseCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "database",
        abstract: "List, create and remove the databases of a running hub.",
        discussion: """
            Each database has its own data, rules, secrets and, unless it shares the hub's, accounts. Clients name it as ns.

              vigla database create http://127.0.0.1:9000 planner --rules planner.json --auth-file ./data/admin-secret.txt
              vigla set http://127.0.0.1:9000/hello?ns=planner '"world"' --auth-file ./data/admin-secret.txt

            Databases that the hub's configuration names (--namespace, or the section "databases" of --config) are created and removed \
            there. These commands take a secret of the hub, not one of a single database.
            """,
        subcommands: [List.self, Create.self, Remove.self])

    /// A hub whose databases are administered.
    struct Hub: ParsableArguments {
        @Argument(help: "The hub, such as http://127.0.0.1:9000.", transform: HubURL.init(argument:)) var url: HubURL
        @OptionGroup var credential: AdminCredential
        @OptionGroup var tlsOptions: TLSOptions

        func validate() throws { try url.refusePath("Databases belong to the whole hub") }

        /// Sends a request; ends the program if the hub refuses.
        func send(_ method: String, _ path: String, _ body: JSONValue? = nil, faultsOf file: String? = nil) -> JSONValue {
            let (status, bytes) = HubRequest.send(
                method, "/.settings/\(path)", to: url.address, tls: tlsOptions, credential: credential.read(), body: body?.bytes ?? [])
            if status == 200 { return (try? JSONValue(bytes)) ?? .null }
            let answer = (try? JSONValue(bytes)) ?? .null
            for fault in answer["faults"]?.elements ?? [] {
                guard let file, let line = fault["line"]?.int, let column = fault["column"]?.int else { continue }
                StandardStream.error.line("\(file):\(line):\(column): \(UserText.plain(fault["message"]?.string ?? ""))")
            }
            if status == 409 || status == 404, let text = answer["error"]?.string { fail(UserText.plain(text)) }
            HubRequest.refused(status, bytes, by: url.address, credential, advice: "")
        }
    }

    /// The name of a database.
    static func name(_ text: String) throws -> String {
        guard Namespace.isValid(text) else { throw ValidationError("a database's name is 1 to 64 letters, digits, - and _.") }
        return text
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the databases, with whose accounts each has.")
        @OptionGroup var hub: Hub

        func run() {
            let databases = hub.send("GET", "databases.json")["databases"]?.elements ?? []
            let rows = databases.map { database -> [String] in
                let isDefault = database["default"]?.bool == true
                let source = database["configured"]?.bool == true ? "configuration" : database["madeAt"] == nil ? "request" : "administrator"
                let accounts = database["accounts"]?.string.map { "\($0) accounts" } ?? "no accounts"
                let state = (isDefault ? ", the default" : "") + (database["open"]?.bool == false ? ", not open: see the hub's log" : "")
                return [UserText.plain(database["name"]?.string ?? ""), accounts, "by \(source)\(state)"]
            }
            for line in TextTable.lines(rows) { StandardStream.output.line(line) }
            end()
        }
    }

    struct Create: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create an empty database.",
            discussion: "Without --rules everything is denied until rules are deployed: vigla rules deploy 'URL?ns=NAME' FILE.")
        @OptionGroup var hub: Hub
        @Argument(help: "Its name: 1 to 64 letters, digits, - and _.", transform: DatabaseCommand.name) var name: String
        @Option(help: ArgumentHelp("Its security rules.", valueName: "file")) var rules: String?
        @Flag(help: "Share the hub's accounts. Default: it has accounts of its own, and no token of another database is valid there.")
        var sharedAccounts = false

        func run() {
            var members = [JSONValue.Member("accounts", .string(sharedAccounts ? "shared" : "own"))]
            if let rules {
                switch WholeFile.read(rules) {
                case .success(let bytes): members.append(.init("rules", .string(String(decoding: bytes, as: UTF8.self))))
                case .failure(let fault): fail("\(rules): \(fault)")
                }
            }
            _ = hub.send("PUT", "databases/\(name).json", .object(members), faultsOf: rules)
            StandardStream.output.line("\(name): created at \(hub.url.address)")
            end()
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove a database with its data, rules, secrets and own accounts.",
            discussion: "Its clients are notified and their connections closed. Only a backup or an export can restore it.")
        @OptionGroup var hub: Hub
        @Argument(help: "Its name.", transform: DatabaseCommand.name) var name: String
        @Flag(help: "Remove it without a question.") var yes = false

        func run() {
            if !yes {
                StandardStream.error.line("vigla: this removes everything of the database \(name) at \(hub.url.address), for good.")
                guard let answer = Prompt.line("Type its name to remove it: ") else {
                    fail("not removed. If this is meant, say so with --yes.")
                }
                guard answer == name else { fail("not removed.") }
            }
            _ = hub.send("DELETE", "databases/\(name).json")
            StandardStream.output.line("\(name): removed from \(hub.url.address)")
            end()
        }
    }
}
