import ArgumentParser
import ViglaClient

/// `vigla health [URL]`
struct Health: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Ask a hub whether it is well: exit code 0 if so, else 1.",
        discussion: """
            Without a URL: 127.0.0.1 with the port in VIGLA_PORT, or 9000; over TLS when VIGLA_TLS_CERT names a certificate and \
            there is no VIGLA_TLS_PORT beside the plain one. Gives up after 3 seconds.
            """)

    @Argument(help: "Address of the hub, such as http://127.0.0.1:9000.", transform: HubURL.init(argument:)) var url: HubURL?
    @OptionGroup var tlsOptions: TLSOptions

    func validate() throws { try url?.refusePath("Health is that of the whole hub") }

    func run() {
        let address = url?.address ?? Self.ownHub
        let (status, _) = HubRequest.send("GET", "/.health", to: address, tls: tlsOptions, timeoutSeconds: 3)
        if status != 200 { fail("\(address) answers \(status)") }
    }

    /// The hub that was started with the same environment.
    private static var ownHub: HubAddress {
        let isSecure = Environment["VIGLA_TLS_CERT"] != nil && Environment["VIGLA_TLS_PORT"] == nil
        return HubAddress(port: Environment["VIGLA_PORT"].flatMap { UInt16($0) } ?? 9000, isSecure: isSecure)
    }
}
