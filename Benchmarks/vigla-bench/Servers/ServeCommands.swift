import ArgumentParser
import CBaseline
import Dispatch
import DispatchNet
import Glibc

/// The child processes of the measurements. Each prints `ready PORT` and serves until it is killed.
struct ServeBaseline: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve-baseline", abstract: "The C servers.", shouldDisplay: false)

    enum Form: String, ExpressibleByArgument { case echo, fanout, corked, durable }
    @Argument var form: Form
    @Option var log: String?
    @OptionGroup var tls: ServedTLS

    func run() throws {
        cbaseline_end_with_parent()
        let number =
            switch form {
            case .echo: CBASELINE_ECHO
            case .fanout: CBASELINE_FANOUT
            case .corked: CBASELINE_FANOUT_CORKED
            case .durable: CBASELINE_DURABLE
            }
        throw BenchError.system("serve-baseline", errno: -cbaseline_serve(number, tls.tlsCert, tls.tlsKey, log))
    }
}

struct ServeEcho: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve-echo", abstract: "An echo server on DispatchNet.", shouldDisplay: false)

    @Option var loops = 1

    func run() throws {
        cbaseline_end_with_parent()
        try serve(loops: loops) { _ in { EchoHandler($0) } }
    }
}

struct ServeFanout: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve-fanout", abstract: "A broadcast server on DispatchNet.", shouldDisplay: false)

    @Option var loops = 1
    @OptionGroup var tls: ServedTLS

    func run() throws {
        cbaseline_end_with_parent()
        try serve(loops: loops, tls: tls.server()) { group in
            let audiences = group.loops.map { Audience($0) }
            return { FanoutHandler($0, audiences) }
        }
    }
}

/// The certificate of a child; none without TLS.
struct ServedTLS: ParsableArguments {
    @Option var tlsCert: String?
    @Option var tlsKey: String?

    func server() throws -> TLSServer? {
        guard let tlsCert, let tlsKey else { return nil }
        return try TLSServer(certificate: tlsCert, key: tlsKey)
    }
}

private func serve(
    loops: Int, tls: TLSServer? = nil, _ makeHandlers: (EventLoopGroup) -> @Sendable (Connection) -> any ConnectionHandler
) throws {
    let group = try EventLoopGroup(count: loops)
    let listener = try Listener.bind(host: "127.0.0.1", port: 0)
    listener.start(on: group, tls: tls, makeHandler: makeHandlers(group))
    print("ready \(listener.port)")
    fflush(nil)
    while true { pause() }
}
