import DispatchNet
import ViglaClient

/// Messages for a failed connection to a hub: the fault, and what to type next.
enum ConnectionAdvice {
    /// The failure, with advice on further lines.
    static func text(_ error: ClientError, from address: HubAddress) -> String {
        switch error {
        case .unreachable(let trouble): capitalised("no connection: \(trouble)") + advice(trouble, address)
        case .notAccepted(let status, let body):
            if isUnknownNamespace(status, ClientError.reason(body)) {
                "\(ClientError.reason(body))\n\(otherNamespace)"
            } else {
                "\(error)\n\(otherProgram(address))"
            }
        case .badAnswer: "\(error)\n\(otherProgram(address))"
        default: "\(error)"
        }
    }

    private static func capitalised(_ text: String) -> String { text.prefix(1).uppercased() + text.dropFirst() }

    /// Matches the texts of `ClientError.text` and of `NetError`.
    private static func advice(_ trouble: String, _ address: HubAddress) -> String {
        if trouble.contains("nothing listens") {
            if address.isPortOfURLs {
                return "\nAn address without a port means \(address.port); a hub listens on 9000 by default: "
                    + "\(address.isSecure ? "https" : "http")://\(address.host):9000"
            }
            return address.isLoopback
                ? "\nIs the hub running? Start one with: vigla serve --port \(address.port)   (add --dev to try things out)"
                : "\nIs the hub running there, on this port, and for other machines (--host 0.0.0.0)? Run 'vigla doctor' on its machine."
        }
        if trouble.contains("there is no host named") {
            return "\nCheck the name. An address is http://HOST:PORT/path, such as http://127.0.0.1:9000/users."
        }
        if trouble.contains("does not speak TLS") {
            return "\nThis port takes plain connections: write http:// instead of https://, or name the hub's port for TLS (--tls-port)."
        }
        if trouble.contains("not trusted here") {
            return "\nIf the hub has a certificate of your own, name its authority's file with --tls-ca FILE (or VIGLA_TLS_CA)."
        }
        if trouble.contains("certificate is for another host") {
            return "\nIf it is the hub that you mean, say which name the certificate has: --tls-name HOST (or VIGLA_TLS_NAME)."
        }
        if trouble.contains("ended the connection") { return "\n" + otherProgram(address) }
        if trouble.contains("no answer") || trouble.contains("No route") || trouble.contains("timed out") {
            return "\nCheck host and port, and what may be between (a firewall, a proxy). Run 'vigla doctor' on the hub's machine."
        }
        return ""
    }

    private static func otherProgram(_ address: HubAddress) -> String {
        address.isSecure
            ? "Is it a hub? A hub's ready line has its address."
            : "If this port speaks TLS, write https:// instead of http://. Is it a hub? A hub's ready line has its address."
    }

    /// Whether a hub's answer says that it has no such namespace.
    static func isUnknownNamespace(_ status: Int, _ reason: String) -> Bool { status == 404 && reason.hasPrefix("Unknown namespace") }

    static let otherNamespace = "Name an existing one with ?ns=NAME, or leave ?ns= out for the hub's default."
}

extension HubAddress {
    /// Whether the port is the default of an address without one.
    fileprivate var isPortOfURLs: Bool { port == (isSecure ? 443 : 80) }
    fileprivate var isLoopback: Bool { Checks.isLoopback(host) }
}
