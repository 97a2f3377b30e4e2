import Accounts
import ArgumentParser
import JSONTree
import ViglaClient

/// `vigla token …`
struct Token: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Make tokens, and change the key that signs them.", subcommands: [Mint.self, RotateKey.self])

    struct Mint: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print a token: an unsigned one for development, or a signed one for an account.",
            discussion: """
                Without a hub the token is unsigned. Only a hub that runs with --dev trusts it; every other refuses it:

                  vigla get http://127.0.0.1:9000/users/ana --auth "$(vigla token mint --uid ana)"

                A running hub signs one in for an account that it has. That takes an administrator's secret; the token is good for an \
                hour, and the session that is made for it is listed by 'vigla user sessions':

                  VIGLA_AUTH_FILE=secret.txt vigla token mint http://127.0.0.1:9000 --user ana@example.org
                """)

        @Argument(help: "A running hub that signs the token.", transform: HubURL.init(argument:)) var url: HubURL?
        @Option(help: "With a hub: the account, by id, address or alias.") var user: String?
        @Option(help: "Without: the user that the token is for; rules see it as auth.uid.") var uid: String?
        @Option(help: ArgumentHelp("Without a hub: further claims; rules see them in auth.token.", valueName: "json")) var claims: String?
        @Option(parsing: .unconditional, help: "Without a hub: hours until the token expires. Default: 24.") var hours: Int?
        @OptionGroup var credential: AdminCredential
        @OptionGroup var tlsOptions: TLSOptions

        func validate() throws {
            if let url {
                try url.refusePath("Tokens are for the whole hub")
                if user == nil || uid != nil || claims != nil || hours != nil {
                    throw ValidationError("A hub signs tokens for its accounts: give --user and nothing else.")
                }
                return
            }
            if user != nil { throw ValidationError("--user needs the address of a hub.") }
            if uid?.isEmpty ?? true { throw ValidationError("--uid must not be empty.") }
            if let hours, !(1...87_600).contains(hours) { throw ValidationError("--hours must be between 1 and 87600.") }
        }

        func run() throws {
            if url != nil {
                guard let token = hub.operate("mint", [.init("user", .string(user ?? ""))])["idToken"]?.string else {
                    fail("the hub gave no token")
                }
                return StandardStream.output.line(token)
            }
            do throws(DevelopmentToken.ClaimsError) {
                StandardStream.output.line(try DevelopmentToken.mint(uid: uid ?? "", claims: claims ?? "{}", hours: hours ?? 24))
            } catch {
                throw ValidationError("--claims: \(error)")
            }
        }

        private var hub: AccountCalls { AccountCalls(url: url, credential: credential, tlsOptions: tlsOptions) }
    }

    struct RotateKey: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "rotate-key", abstract: "Sign tokens with a new key from now on; prints its name.",
            discussion: """
                Tokens of the old key are accepted until the last of them expires. With --end-older they are refused: use it for a leaked \
                key. Users stay signed in: every device asks for a fresh token.
                """)
        @OptionGroup var hub: AccountHub
        @Flag(help: "Refuse all tokens of older keys from now on.") var endOlder = false

        func run() {
            guard let kid = hub.calls.operate("rotate-key", endOlder ? [.init("endOlder", true)] : [])["kid"]?.string else {
                fail("the hub made no key")
            }
            StandardStream.output.line(kid)
        }
    }
}
