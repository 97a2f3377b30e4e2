import ArgumentParser
import DispatchNet
import Glibc
import ViglaClient

/// The trusted certificates of a command that calls an `https` hub. Verification cannot be disabled.
struct TLSOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("https: certificates (PEM) to trust besides the system's, also VIGLA_TLS_CA.", valueName: "file")
    ) var tlsCa: String?
    @Option(
        help: ArgumentHelp(
            "https: the name in the hub's certificate, when the URL has another or an address; also VIGLA_TLS_NAME.", valueName: "host"))
    var tlsName: String?

    /// The name that the certificate must be for; nil for the host that is dialled.
    var name: String? { tlsName ?? Environment["VIGLA_TLS_NAME"] }
    private var authorities: String? { tlsCa ?? Environment["VIGLA_TLS_CA"] }

    /// The file of trusted certificates. Ends the program when it cannot be used.
    var checkedAuthorities: String? {
        if authorities != nil { _ = client }
        return authorities
    }

    /// Nil for a hub without TLS. Ends the program when the file cannot be used.
    func client(for address: HubAddress) -> TLSClient? { address.isSecure ? client : nil }

    private var client: TLSClient {
        do throws(TLSError) {
            return try TLSClient(authorities: authorities, name: name)
        } catch {
            fail("\(tlsCa == nil ? "VIGLA_TLS_CA" : "--tls-ca"): \(error)")
        }
    }
}

/// The program's environment; an empty variable counts as not set.
enum Environment {
    static subscript(name: String) -> String? {
        getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
    }
}
