import DispatchNet
import Glibc
import Logging

/// How clients reach the server: the ports, the net loops that share the connections, and the sessions over long polling.
///
///     listener, secureListener ─► admission ─► a net loop (lane) ─► HTTPConnection
final class ServerNetwork: Sendable {
    let lanes: [LoopSessions]
    let longPolls: LongPollSessions
    let admission: Admission
    private let group: EventLoopGroup
    private let listener: Listener
    /// The TLS listener on a second port; nil without one.
    private let secureListener: Listener?
    private let tls: TLSServer?

    /// Descriptors reserved for the store, the listeners and the loops.
    private static let descriptorsKept = 64

    /// Binds the ports.
    init(_ settings: ServerSettings, _ logger: Logger) throws(NetError) {
        let limits = settings.limits
        let loops = settings.loops > 0 ? settings.loops : max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))
        group = try EventLoopGroup(count: loops, settings: limits.transport(isFilling: settings.loops == 0))
        listener = try Listener.bind(host: settings.host, port: settings.port)
        secureListener = if let port = settings.tls?.port { try Listener.bind(host: settings.host, port: port) } else { nil }
        tls = settings.tls?.identity
        lanes = group.loops.map { LoopSessions(loop: $0, limits: limits) }
        longPolls = LongPollSessions(limits: limits.longPoll, countsLoopback: limits.admission.countsLoopback)
        var admissionLimits = limits.admission
        let descriptors = Descriptors.raiseLimit()
        admissionLimits.connections = min(admissionLimits.connections, max(1, descriptors - Self.descriptorsKept))
        admission = Admission(admissionLimits)
        logger.info("connections", metadata: ["most": "\(admissionLimits.connections)", "descriptors": "\(descriptors)"])
    }

    var port: UInt16 { listener.port }
    var securePort: UInt16? { secureListener?.port }

    /// Begins to accept connections.
    func start(_ server: Server) {
        for lane in lanes { lane.startTicking() }
        listener.start(on: group, tls: secureListener == nil ? tls : nil, admission: admission) { HTTPConnection($0, server: server) }
        secureListener?.start(on: group, tls: tls, admission: admission) { HTTPConnection($0, server: server) }
    }

    func stopListening() {
        listener.stop()
        secureListener?.stop()
    }

    /// Notifies and closes all connections, at most for 3 s. Long-polling sessions end first, so that the loops still send the last
    /// responses to their polls.
    func close(_ done: @escaping @Sendable () -> Void) {
        longPolls.endAll(lanes) { [self] in
            for lane in lanes { lane.announceStop() }
            group.shutdown(done)
        }
    }
}

extension Server {
    var lanes: [LoopSessions] { network.lanes }
    /// The port of the listener. It speaks TLS if there is a certificate and no ``securePort``.
    public var port: UInt16 { network.port }
    /// Connections that are open now.
    public var connections: Int { network.admission.connections }
    /// The port of the second listener, which speaks TLS; nil without one.
    public var securePort: UInt16? { network.securePort }
}
