import ArgumentParser
import Dispatch
import Glibc
import HubServer
import Journal
import JSONTree
import Scheduling
import SQLiteJournal
import ViglaClient

/// `vigla secret …`
struct Secret: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Make, list and revoke administrators' secrets.",
        discussion: """
            No rule binds the holder of a secret: it is for servers, backups and deploys, never for an app. The hub keeps only its \
            hash, so it is shown only when it is created.

            A hub's first start makes the first one, and leaves it in its data folder; further ones are made at the running hub by an \
            administrator, or in the folder while the hub does not run:

              vigla serve --data ./data --rules rules.json &
              vigla secret add http://127.0.0.1:9000 --name backup --auth-file ./data/admin-secret.txt
              vigla secret add --data ./data --name deploys > secret.txt

            A secret of one database, whose holder administers only that: add ?ns=NAME to the address.

            A secret is taken as ?auth=, ?access_token= and Authorization: Bearer over REST, and by the SDKs' sockets.
            """,
        subcommands: [Add.self, List.self, Remove.self])

    /// Where the secrets are: in a folder that no hub is using, or at a hub.
    struct Place: ParsableArguments {
        @Argument(
            help: "A running hub, such as http://127.0.0.1:9000 (?ns=NAME: the secrets of one database); leave it out for a folder.",
            transform: HubURL.init(argument:)) var url: HubURL?
        @Option(help: ArgumentHelp("Data folder of a hub that does not run. Default without a hub: VIGLA_DATA.", valueName: "folder"))
        var data: String?
        @OptionGroup var credential: AdminCredential
        @OptionGroup var tlsOptions: TLSOptions

        func validate() throws {
            try url?.refusePath("Secrets belong to the whole hub, or to a whole database (?ns=NAME)")
            if (url == nil) == (folder == nil) || url != nil && data != nil {
                throw ValidationError(
                    "Name either a running hub, or the data folder of one that does not run with --data (or VIGLA_DATA).")
            }
        }

        /// The folder of a stopped hub; nil when a running one is named.
        var folder: String? { url == nil ? data ?? Environment["VIGLA_DATA"] : data }

        /// Works on the data folder; ends the program.
        /// - Parameters:
        ///   - makesFolder: whether to create data in a folder without any; otherwise such a folder is refused.
        ///   - changes: whether secrets are created or revoked. In a cluster only a running hub may do that.
        func offline(makesFolder: Bool = false, changes: Bool = true, _ work: (Secrets) -> Void) -> Never {
            let folder = folder ?? ""
            if !DataFolder.holdsData(folder) {
                guard makesFolder else { fail("\(folder) holds no data: there is no \(folder)/vigla.sqlite") }
                StandardStream.error.line("vigla: \(folder) held no data; a new hub's data begins there")
            }
            do {
                let store = try JournalStore.open(folder: folder, settings: .init(), scheduler: .system())
                if changes, try store.settings(of: nil)["cluster.settings"] != nil {
                    fail("\(folder) is of a cluster, whose hubs have the same secrets: name a running one of them in place of --data")
                }
                work(try Secrets(store))
                // Closing waits for all changes.
                try store.close()
                end()
            } catch { fail("\(error)\nIf a hub runs on this folder, give its address instead of --data.") }
        }

        /// Sends a request to the hub; ends the program.
        func online(
            _ method: String, _ target: String, _ body: [UInt8] = [], _ answered: @escaping @Sendable (Node) -> Void
        ) -> Never {
            guard let url else { fail("no hub was named") }
            let (status, body) = HubRequest.send(
                method, url.address.selecting(target), to: url.address, tls: tlsOptions, credential: credential.read(), body: body)
            let answer = body.withUnsafeBytes { bytes -> Node in
                var reader = JSONReader(bytes)
                return (try? reader.claims()) ?? .null
            }
            guard status == 200 else {
                let text = if case .string(let text) = answer.child("error") { text.string } else { "status \(status)" }
                fail(status == 401 ? "\(text)\n\(credential.refused)" : text)
            }
            answered(answer)
            end()
        }
    }

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Make a secret and print it, this once.")
        @OptionGroup var place: Place
        @Option(help: "What it is for; shown in lists.") var name = ""

        func run() {
            if place.folder != nil {
                place.offline(makesFolder: true) { secrets in
                    let made = DispatchSemaphore(value: 0)
                    secrets.add(name, madeAt: SystemTime.wallMs) { result in
                        switch result {
                        case .success(let (_, secret)): StandardStream.output.line(secret)
                        case .failure(let fault): fail("\(fault)")
                        }
                        made.signal()
                    }
                    made.wait()
                }
            }
            var writer = JSONWriter()
            writer.raw("{\"name\":")
            writer.string(name)
            writer.raw("}")
            place.online("POST", "/.settings/secrets.json", writer.bytes) { answer in
                guard case .string(let secret) = answer.child("secret") else { fail("the hub gave no secret") }
                StandardStream.output.line(secret.string)
            }
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List ids, times and names; never the secrets.")
        @OptionGroup var place: Place

        func run() {
            if place.folder != nil {
                place.offline(changes: false) { secrets in for secret in secrets.all { Self.show(secret.id, secret.madeAt, secret.name) } }
            }
            place.online("GET", "/.settings/secrets.json") { answer in
                for (_, secret) in answer.child("secrets").children {
                    guard case .string(let id) = secret.child("id"), case .string(let name) = secret.child("name"),
                        case .int(let madeAt) = secret.child("madeAt")
                    else { continue }
                    Self.show(id.string, madeAt, name.string)
                }
            }
        }

        /// `Qz7k2LmP  2026-01-31T12:00:00Z  backup`
        private static func show(_ id: String, _ madeAt: Int64, _ name: String) {
            var (seconds, parts) = (time_t(madeAt / 1000), tm())
            gmtime_r(&seconds, &parts)
            var text = [CChar](repeating: 0, count: 32)
            strftime(&text, text.count, "%Y-%m-%dT%H:%M:%SZ", &parts)
            let length = text.firstIndex(of: 0) ?? text.count
            StandardStream.output.line("\(id)  \(String(decoding: text[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self))  \(name)")
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Revoke a secret: requests with it are refused from now on.")
        @OptionGroup var place: Place
        @Option(help: "Its id, as 'list' shows it.") var id: String

        func validate() throws {
            if id.isEmpty || !id.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x7A).contains($0 | 0x20) }) {
                throw ValidationError("--id is what 'vigla secret list' shows.")
            }
        }

        func run() {
            if place.folder != nil {
                place.offline { secrets in
                    let removed = DispatchSemaphore(value: 0)
                    secrets.remove(id) { fault in
                        if let fault { fail("\(fault)") }
                        removed.signal()
                    }
                    removed.wait()
                }
            }
            place.online("DELETE", "/.settings/secrets/\(id).json") { _ in }
        }
    }
}
