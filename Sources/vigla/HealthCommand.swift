import ArgumentParser
import Dispatch
import DispatchNet
import Glibc
import HTTPTypes
import ViglaClient
import WireProtocols

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
        let tls = tlsOptions.client(for: address)
        signal(SIGPIPE, SIG_IGN)
        let group: EventLoopGroup
        do throws(NetError) { group = try EventLoopGroup(count: 1) } catch { fail("\(error)") }
        let loop = group.next()
        loop.schedule(afterMs: 3_000, everyMs: nil) { fail("no answer from \(address) within 3 seconds") }
        connect(to: address.host, port: address.port, on: loop, tls: tls) { connection in
            connection.send(Array("GET /.health HTTP/1.1\r\nHost: \(address)\r\nConnection: close\r\n\r\n".utf8))
            return Probe(address)
        } failed: { error in
            fail(ConnectionAdvice.text(.unreachable(ClientError.text(error)), from: address))
        }
        dispatchMain()
    }

    /// The hub that was started with the same environment.
    private static var ownHub: HubAddress {
        let isSecure = Environment["VIGLA_TLS_CERT"] != nil && Environment["VIGLA_TLS_PORT"] == nil
        return HubAddress(port: Environment["VIGLA_PORT"].flatMap { UInt16($0) } ?? 9000, isSecure: isSecure)
    }

    /// Reads one answer and ends the program with its result.
    private final class Probe: ConnectionHandler {
        private let address: HubAddress
        private var parser = HTTPResponseParser()

        init(_ address: HubAddress) { self.address = address }

        func received(_ bytes: UnsafeMutableRawBufferPointer) {
            switch parser.receive(UnsafeRawBufferPointer(bytes)).event {
            case .incomplete: break
            case .response(let response):
                if response.status.code == 200 { end() }
                fail("\(address) answers \(response.status.code)")
            case .failure: fail(ConnectionAdvice.text(.badAnswer("\(address) does not answer in HTTP/1.1"), from: address))
            }
        }

        func ended(_ reason: CloseReason) {
            fail(ConnectionAdvice.text(.unreachable("\(address) ended the connection (\(reason.name))"), from: address))
        }
    }
}
