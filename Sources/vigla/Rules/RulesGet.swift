import ArgumentParser
import ViglaClient

/// `vigla rules get URL`
struct RulesGet: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "get",
        abstract: "Print the rules in force in a running hub, as they were written.",
        discussion: """
            Takes an administrator, as all that asks a hub about its rules:

              vigla rules get http://127.0.0.1:9000 --auth-file secret.txt > rules.json
            """)

    @Argument(
        help: "The hub, such as http://127.0.0.1:9000 (?ns=NAME: another namespace than the default).", transform: HubURL.init(argument:))
    var url: HubURL
    @Flag(help: "Without comments, as plain JSON.") var strict = false
    @OptionGroup var credential: AdminCredential
    @OptionGroup var tlsOptions: TLSOptions

    func validate() throws { try url.refusePath("Rules belong to a whole namespace") }

    func run() {
        let target = "/.settings/rules.json" + url.query(adding: strict ? [.init("format", "strict")] : [])
        let (status, body) = HubRequest.send("GET", target, to: url.address, tls: tlsOptions, credential: credential.read())
        guard status == 200 else { HubRequest.refused(status, body, by: url.address, credential, advice: "Is this a hub?") }
        StandardStream.output.write(body.last == 0x0A ? body : body + [0x0A])
    }
}
