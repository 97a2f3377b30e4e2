import Accounts
import ArgumentParser
import Glibc
import JSONTree

/// `vigla user …`
struct User: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Administer the accounts of a running hub.",
        discussion: """
            An account is named by its id, its address or its alias. It takes an administrator's secret (vigla secret):

              export VIGLA_AUTH_FILE=secret.txt
              vigla user add http://127.0.0.1:9000 --email ana@example.org --name Ana
              vigla user claims http://127.0.0.1:9000 ana@example.org '{"role":"staff"}'
              vigla user sessions http://127.0.0.1:9000 ana@example.org

            Passwords are asked for, or read from a file; they are no arguments, which others on the machine can see. What is changed \
            takes effect at once, also for those who are connected.
            """,
        subcommands: [
            Add.self, List.self, Show.self, Remove.self, Password.self, Claims.self, Disable.self, Enable.self, Sessions.self,
            EndSession.self, Alias.self, UserImport.self,
        ])

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Make an account; prints its id.")
        @OptionGroup var hub: AccountHub
        @Option(help: "Mail address.") var email: String?
        @Option(help: "Name to show.") var name: String?
        @Option(help: "Name to sign in with instead of the address.") var alias: String?
        @Option(help: "Id; rules see it as auth.uid. Default: the hub makes one.") var uid: String?
        @Option(help: ArgumentHelp("Claims; rules see them in auth.token.", valueName: "json")) var claims: String?
        @Flag(help: "The address is known to be the user's.") var verified = false
        @Flag(help: "Without a password.") var noPassword = false
        @OptionGroup var password: PasswordSource

        func validate() throws {
            if let claims, (try? JSONValue(Array(claims.utf8))) == nil {
                throw ValidationError("--claims: \(WrittenValue.notJSON(claims))")
            }
            if email == nil, verified { throw ValidationError("--verified needs --email.") }
            if noPassword, password.passwordFile != nil { throw ValidationError("--no-password and --password-file exclude each other.") }
            if email == nil, alias == nil, password.passwordFile != nil {
                throw ValidationError("--password-file needs --email or --alias: with neither there is nothing to sign in with.")
            }
        }

        func run() {
            let calls = hub.calls
            // Check the hub, the credential and the password rule before prompting.
            let rule = !noPassword && (email != nil || alias != nil) ? calls.passwordRule() : nil
            var members: [JSONValue.Member] = []
            members.add("localId", uid)
            members.add("email", email)
            members.add("displayName", name)
            if verified { members.add("emailVerified", true) }
            // A password needs an address or an alias to sign in with.
            if let rule { members.add("password", password.read(rule)) }
            members.add("customAttributes", claims)
            members.add("alias", alias)
            guard let id = calls.administer("", members)["localId"]?.string else { fail("the hub made no account") }
            StandardStream.output.line(id)
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List all accounts: id, address, name, state.",
            discussion: "On a terminal, or with --format table, as a table with a head; else a line for each, with two spaces between.")
        @OptionGroup var hub: AccountHub
        @Option(help: ArgumentHelp("table, lines, or json: an object for each.", valueName: "table|lines|json")) var format: Form?

        enum Form: String, ExpressibleByArgument, CaseIterable { case table, lines, json }

        func run() {
            let form = format ?? (isatty(STDOUT_FILENO) == 1 ? .table : .lines)
            var rows = [["ID", "ADDRESS", "NAME", "LAST SIGN-IN", "STATE"]]
            hub.calls.eachAccount { entry in
                let state = entry["disabled"]?.bool == true ? "disabled" : ""
                let known = [entry["localId"]?.string ?? "", entry["email"]?.string ?? "-", entry["displayName"]?.string ?? "-"]
                switch form {
                case .json: StandardStream.output.line(entry.json)
                case .lines: StandardStream.output.line(UserText.line(known + [state]))
                case .table:
                    let last = entry["lastLoginAt"]?.string.flatMap { Int64($0) }.map(UserText.time) ?? "-"
                    rows.append(known + [last, state])
                }
            }
            if form == .table { for line in TextTable.lines(rows) { StandardStream.output.line(line) } }
        }
    }

    struct Show: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Print an account as JSON.")
        @OptionGroup var hub: AccountHub
        @Argument(help: "Id, address or alias.") var user: String

        func run() {
            let (_, entry, alias) = hub.calls.find(user)
            var members = entry.members ?? []
            members.add("alias", alias)
            StandardStream.output.line(JSONValue.object(members).json)
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Delete an account, and the data that goes with it (what the rules' .account names).")
        @OptionGroup var hub: AccountHub
        @Argument(help: "Id, address or alias.") var user: String

        func run() {
            let calls = hub.calls
            _ = calls.administer(":delete", [.init("localId", .string(calls.find(user).id))])
        }
    }

    struct Password: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Set a password; ends the account's sessions.")
        @OptionGroup var hub: AccountHub
        @Argument(help: "Id, address or alias.") var user: String
        @OptionGroup var password: PasswordSource

        func run() {
            let calls = hub.calls
            let (id, rule) = (calls.find(user).id, calls.passwordRule())
            _ = calls.administer(":update", [.init("localId", .string(id)), .init("password", .string(password.read(rule)))])
        }
    }

    struct Claims: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Set the claims that rules see in auth.token; all others go.",
            discussion: "The account's connections are asked for fresh tokens at once, so that the new claims count. '{}' takes all claims "
                + "away.")
        @OptionGroup var hub: AccountHub
        @Argument(help: "Id, address or alias.") var user: String
        @Argument(help: ArgumentHelp("Such as '{\"role\":\"staff\"}'.", valueName: "json")) var claims: String

        func validate() throws {
            if (try? JSONValue(Array(claims.utf8))) == nil { throw ValidationError("The claims: \(WrittenValue.notJSON(claims))") }
        }

        func run() {
            let calls = hub.calls
            _ = calls.administer(":update", [.init("localId", .string(calls.find(user).id)), .init("customAttributes", .string(claims))])
        }
    }

    struct Disable: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Refuse sign-in and end all connections, until it is enabled again.")
        @OptionGroup var hub: AccountHub
        @Argument(help: "Id, address or alias.") var user: String

        func run() {
            let calls = hub.calls
            _ = calls.administer(":update", [.init("localId", .string(calls.find(user).id)), .init("disableUser", true)])
        }
    }

    struct Enable: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Let a disabled account sign in again.")
        @OptionGroup var hub: AccountHub
        @Argument(help: "Id, address or alias.") var user: String

        func run() {
            let calls = hub.calls
            _ = calls.administer(":update", [.init("localId", .string(calls.find(user).id)), .init("disableUser", false)])
        }
    }

    struct Sessions: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List where an account is signed in: session, last use, provider, address, device.")
        @OptionGroup var hub: AccountHub
        @Argument(help: "Id, address or alias.") var user: String

        func run() {
            for session in hub.calls.operate("sessions", [.init("user", .string(user))])["sessions"]?.elements ?? [] {
                StandardStream.output.line(
                    UserText.line([
                        session["id"]?.string, session["lastUsedAt"]?.int.map(UserText.time), session["provider"]?.string,
                        session["peer"]?.string ?? "-",
                        session["userAgent"]?.string ?? "-",
                    ]))
            }
        }
    }

    struct EndSession: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "end-session", abstract: "Sign an account out on one device, or on all.")
        @OptionGroup var hub: AccountHub
        @Argument(help: "Id, address or alias.") var user: String
        @Argument(help: "The session, as 'sessions' lists it.") var session: String?
        @Flag(help: "All of them.") var all = false

        func validate() throws {
            if (session == nil) != all { throw ValidationError("Name one session, or give --all.") }
        }

        func run() {
            var members: [JSONValue.Member] = [.init("user", .string(user))]
            members.add("session", session)
            let count = hub.calls.operate("end-session", members)["ended"]?.int ?? 0
            StandardStream.output.line("\(count) \(count == 1 ? "session" : "sessions") ended")
        }
    }

    struct Alias: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Set the name that an account can sign in with instead of its "
                + "address.", discussion: "OAuth 2 clients send it as username; the SDKs know addresses only.")
        @OptionGroup var hub: AccountHub
        @Argument(help: "Id, address or alias.") var user: String
        @Argument(help: "Up to 64 letters, digits and . _ -") var alias: String?
        @Flag(help: "Take it away.") var none = false

        func validate() throws {
            if (alias == nil) != none { throw ValidationError("Give the alias, or --none.") }
        }

        func run() { _ = hub.calls.operate("alias", [.init("user", .string(user)), .init("alias", alias.map(JSONValue.string) ?? .null)]) }
    }
}
