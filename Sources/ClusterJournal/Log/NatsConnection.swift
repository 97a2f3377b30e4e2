import CNats
import Glibc
public import Logging
import Synchronization

/// A hub's connection to the NATS servers of its cluster. It reconnects by itself, without limit.
///
/// libnats calls back on its own threads; listeners are called there and hop to their queue. Calls that wait for an answer run on
/// queues of the logs (`ShardLog`), never on a shared one.
public final class NatsConnection: @unchecked Sendable {
    // Sendable: the handles are set once, before any callback; libnats protects the objects.

    public enum Change: Sendable { case connected, disconnected, closed }

    public struct Settings: Sendable {
        /// `nats://host:port` or, with TLS, `tls://host:port`: one or more of the servers; these announce the others.
        public var servers: [String]
        /// Certificates (PEM) to trust in addition to the system's.
        public var authority: String?
        /// This hub's client certificate (PEM), for servers that require one.
        public var certificate: (file: String, key: String)?
        /// The name of the connection in the servers' logs.
        public var name: String
        /// Ping interval. A server counts as lost after two unanswered pings.
        package var pingMs: Int64 = 1_000
        package var reconnectMs: Int64 = 100
        /// Timeout of one request to the servers.
        package var requestMs: Int64 = 2_000

        public init(servers: [String], name: String = "vigla") { (self.servers, self.name) = (servers, name) }
    }

    public struct Fault: Error, CustomStringConvertible {
        public let description: String
    }

    private(set) var handle: OpaquePointer?
    /// JetStream's context.
    private(set) var stream: OpaquePointer?
    public let settings: Settings
    private let logger: Logger
    private let listeners = Mutex<[@Sendable (Change) -> Void]>([])
    private let ended = Mutex<[Ended]>([])
    /// Reasons already logged why servers cannot be used, so that each is logged once.
    private let complaints = Mutex<Set<String>>([])

    /// An unsubscribed subscription that is not released yet.
    private struct Ended: @unchecked Sendable {
        // Sendable: libnats protects it.
        let handle: OpaquePointer
    }

    /// Starts to connect. Retries in the background while servers are unreachable or refuse this hub; the log has the reason.
    /// - Throws: `Fault` for addresses and files that cannot be used.
    public init(_ settings: Settings, logger: Logger) throws(Fault) {
        self.settings = settings
        self.logger = logger
        let options = try Self.options(of: settings)
        defer { natsOptions_Destroy(options) }
        natsOptions_SetMaxReconnect(options, -1)
        natsOptions_SetReconnectWait(options, settings.reconnectMs)
        natsOptions_SetReconnectJitter(options, 50, 50)
        natsOptions_SetPingInterval(options, settings.pingMs)
        natsOptions_SetMaxPingsOut(options, 2)
        natsOptions_SetFailRequestsOnDisconnect(options, true)
        natsOptions_SetSendAsap(options, true)
        // Retained until the connection's last callback.
        let listener = Unmanaged.passRetained(Listener(self))
        let closure = listener.toOpaque()
        natsOptions_SetRetryOnFailedConnect(options, true, { _, closure in Listener.of(closure)?.notify(.connected) }, closure)
        natsOptions_SetReconnectedCB(options, { _, closure in Listener.of(closure)?.notify(.connected) }, closure)
        natsOptions_SetDisconnectedCB(options, { _, closure in Listener.of(closure)?.notify(.disconnected) }, closure)
        natsOptions_SetClosedCB(options, { _, closure in
            Listener.of(closure)?.notify(.closed)
            if let closure { Unmanaged<Listener>.fromOpaque(closure).release() }
        }, closure)
        natsOptions_SetErrorHandler(options, { _, _, status, closure in Listener.of(closure)?.fault(status) }, closure)
        let status = natsConnection_Connect(&handle, options)
        guard status == NATS_OK || status == NATS_NOT_YET_CONNECTED else {
            listener.release()
            throw Fault(description: Self.text(status))
        }
        if status == NATS_NOT_YET_CONNECTED, let reason = Self.refusal(of: settings) { complain(reason) }
        var wait = jsOptions()
        jsOptions_Init(&wait)
        wait.Wait = settings.requestMs
        try Self.check(natsConnection_JetStream(&stream, handle, &wait))
    }

    /// The options of every connection; the caller destroys them.
    private static func options(of settings: Settings) throws(Fault) -> OpaquePointer? {
        var options: OpaquePointer?
        try check(natsOptions_Create(&options))
        do throws(Fault) {
            try withStrings(settings.servers) { servers throws(Fault) in
                try check(natsOptions_SetServers(options, servers, Int32(settings.servers.count)))
            }
            natsOptions_SetName(options, settings.name)
            natsOptions_SetTimeout(options, settings.requestMs)
            if settings.servers.contains(where: { $0.hasPrefix("tls://") }) { try check(natsOptions_SetSecure(options, true)) }
            if let file = settings.authority { try check(natsOptions_LoadCATrustedCertificates(options, file), file) }
            if let own = settings.certificate { try check(natsOptions_LoadCertificatesChain(options, own.file, own.key), own.file) }
            return options
        } catch {
            natsOptions_Destroy(options)
            throw error
        }
    }

    /// Why a reachable server refuses the connection: its certificate, TLS on one side only, a password. Nil if none is reachable. libnats
    /// does not report that for its own attempts.
    private static func refusal(of settings: Settings) -> String? {
        var settings = settings
        settings.requestMs = 1_000
        guard let options = try? options(of: settings) else { return nil }
        defer { natsOptions_Destroy(options) }
        natsOptions_SetAllowReconnect(options, false)
        var handle: OpaquePointer?
        let status = natsConnection_Connect(&handle, options)
        let reason = text(status)
        natsConnection_Destroy(handle)
        switch status {
        case NATS_SSL_ERROR where !settings.servers.contains { $0.hasPrefix("tls://") }:
            return "it wants TLS, and is named by nats://, not by tls://: \(reason)"
        case NATS_SSL_ERROR, NATS_CONNECTION_AUTH_FAILED, NATS_SECURE_CONNECTION_REQUIRED: return reason
        case NATS_SECURE_CONNECTION_WANTED: return "it has no TLS, and is named by tls://"
        default: return nil
        }
    }

    /// No call is running any more: each retains the connection.
    deinit {
        // Waits for the reading thread to end.
        natsConnection_Close(handle)
        for one in ended.withLock({ $0 }) { natsSubscription_Destroy(one.handle) }
        jsCtx_Destroy(stream)
        natsConnection_Destroy(handle)
    }

    public var isConnected: Bool { natsConnection_Status(handle) == NATS_CONN_STATUS_CONNECTED }

    /// The answer to an empty request; nil when none arrives in time. Blocks.
    func request(_ subject: String) -> [UInt8]? {
        var answer: OpaquePointer?
        guard natsConnection_Request(&answer, handle, subject, nil, 0, settings.requestMs) == NATS_OK, let answer else { return nil }
        defer { natsMsg_Destroy(answer) }
        return ShardLog.bytes(of: answer)
    }

    /// Logs once why a server cannot be used, as its logs are checked every few seconds.
    func complain(_ reason: String) {
        if complaints.withLock({ $0.insert(reason).inserted }) {
            logger.error("a NATS server was reached and is of no use to this hub", metadata: ["reason": "\(reason)"])
        }
    }

    /// Closes the connection: pending and later calls fail.
    public func close() { natsConnection_Close(handle) }

    // MARK: Subscriptions

    /// Ends a subscription. libnats 3.4's reading thread looks a subscription up and locks it without retaining it. So it is released
    /// only after a later answer of the servers was read, when the connection no longer lists it. Waits for that answer; without one it is
    /// released later.
    func end(_ subscription: OpaquePointer) {
        natsSubscription_Unsubscribe(subscription)
        let before = ended.withLock { ended in
            ended.append(Ended(handle: subscription))
            return ended
        }
        guard isConnected, natsConnection_FlushTimeout(handle, settings.requestMs) == NATS_OK else { return }
        let passed = ended.withLock { ended in
            let left = Set(ended.map(\.handle))
            ended.removeAll { one in before.contains { $0.handle == one.handle } }
            return before.filter { left.contains($0.handle) }
        }
        for one in passed { natsSubscription_Destroy(one.handle) }
    }

    /// Calls back at each change, on a thread of libnats.
    func whenChanged(_ listener: @escaping @Sendable (Change) -> Void) { listeners.withLock { $0.append(listener) } }

    /// The object that libnats calls; it does not retain the connection.
    private final class Listener: @unchecked Sendable {
        // Sendable: the reference is weak and never changes.
        private weak var connection: NatsConnection?

        init(_ connection: NatsConnection) { self.connection = connection }

        static func of(_ closure: UnsafeMutableRawPointer?) -> Listener? {
            closure.map { Unmanaged<Listener>.fromOpaque($0).takeUnretainedValue() }
        }

        func notify(_ change: Change) {
            guard let connection else { return }
            for listener in connection.listeners.withLock({ $0 }) { listener(change) }
        }

        func fault(_ status: natsStatus) {
            connection?.logger.warning("NATS reports a fault", metadata: ["fault": "\(NatsConnection.text(status))"])
        }
    }

    // MARK: Status

    /// - Parameter subject: the subject of the fault, for its text.
    static func check(_ status: natsStatus, _ subject: String? = nil) throws(Fault) {
        if status != NATS_OK { throw Fault(description: (subject.map { "\($0): " } ?? "") + text(status)) }
    }

    /// The text of a status, with libnats' last error of this thread.
    static func text(_ status: natsStatus) -> String {
        let name = natsStatus_GetText(status).map { String(cString: $0) } ?? "status \(status.rawValue)"
        var last = NATS_OK
        guard let detail = nats_GetLastError(&last), last == status else { return name }
        return "\(name): \(String(cString: detail))"
    }

    private static func withStrings(
        _ strings: [String], _ body: (UnsafeMutablePointer<UnsafePointer<CChar>?>?) throws(Fault) -> Void
    ) throws(Fault) {
        let copies = strings.map { strdup($0) }
        defer { for copy in copies { free(copy) } }
        var pointers = copies.map { UnsafePointer<CChar>($0) }
        var fault: Fault?
        pointers.withUnsafeMutableBufferPointer { pointers in
            do throws(Fault) { try body(pointers.baseAddress) } catch { fault = error }
        }
        if let fault { throw fault }
    }
}
