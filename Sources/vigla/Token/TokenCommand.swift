import ArgumentParser
import ViglaClient

/// `vigla token …`
struct Token: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Make tokens.", subcommands: [Mint.self])

    struct Mint: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print an unsigned token for development.",
            discussion: """
                Only a hub that runs with --dev trusts such a token; every other hub refuses it. Use it with --auth:

                  vigla get http://127.0.0.1:9000/users/ana --auth "$(vigla token mint --uid ana)"
                """)

        @Option(help: "The user that the token is for; rules see it as auth.uid.") var uid: String
        @Option(help: ArgumentHelp("Further claims; rules see them in auth.token.", valueName: "json")) var claims = "{}"
        @Option(help: "Hours until the token expires.") var hours = 24

        func validate() throws {
            if uid.isEmpty { throw ValidationError("--uid must not be empty.") }
            if !(1...87_600).contains(hours) { throw ValidationError("--hours must be between 1 and 87600.") }
        }

        func run() throws {
            do throws(DevelopmentToken.ClaimsError) {
                StandardStream.output.line(try DevelopmentToken.mint(uid: uid, claims: claims, hours: hours))
            } catch {
                throw ValidationError("--claims: \(error)")
            }
        }
    }
}
