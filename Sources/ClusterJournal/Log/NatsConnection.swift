import CNats
import Glibc
public import Logging
import Synchronization

/// The connection of a hub to the NATS servers of its cluster. It connects again by itself, for ever.
///
/// libnats calls back on threads of its own; listeners are called there and hop to their queue. Calls that wait for an answer are made on
/// queues of the logs (`ShardLog`), never on one that others share.
public final class NatsConnection: @unchecked Sendable {
    // Sendable: the handles are set once, before anything is called back; libnats guards what they stand for.

    public enum Change: Sendable { case connected, disconnected, closed }

    public struct Settings: Sendable {
        /// `nats://host:port`, one or more of the servers; the others are found by these.
        public var servers: [String]
        /// How the servers' logs name the connection.
        public var name: String
        /// After which a server that does not answer counts as lost: twice this.
        public var pingMs: Int64 = 1_000
        public var reconnectMs: Int64 = 100
        /// For one request to the servers.
        public var requestMs: Int64 = 2_000

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

    /// A subscription that hears nothing any more, and is not released yet.
    private struct Ended: @unchecked Sendable {
        // Sendable: libnats guards it.
        let handle: OpaquePointer
    }

    /// Begins to connect. Servers that are not there yet are awaited in the background.
    /// - Throws: `Fault` for addresses that cannot be any.
    public init(_ settings: Settings, logger: Logger) throws(Fault) {
        self.settings = settings
        self.logger = logger
        var options: OpaquePointer?
        try Self.check(natsOptions_Create(&options))
        defer { natsOptions_Destroy(options) }
        try Self.withStrings(settings.servers) { servers throws(Fault) in
            try Self.check(natsOptions_SetServers(options, servers, Int32(settings.servers.count)))
        }
        natsOptions_SetName(options, settings.name)
        natsOptions_SetMaxReconnect(options, -1)
        natsOptions_SetReconnectWait(options, settings.reconnectMs)
        natsOptions_SetReconnectJitter(options, 50, 50)
        natsOptions_SetTimeout(options, settings.requestMs)
        natsOptions_SetPingInterval(options, settings.pingMs)
        natsOptions_SetMaxPingsOut(options, 2)
        natsOptions_SetFailRequestsOnDisconnect(options, true)
        natsOptions_SetSendAsap(options, true)
        // Kept until the connection has called back for the last time.
        let listener = Unmanaged.passRetained(Listener(self))
        let closure = listener.toOpaque()
        natsOptions_SetRetryOnFailedConnect(options, true, { _, closure in Listener.of(closure)?.tell(.connected) }, closure)
        natsOptions_SetReconnectedCB(options, { _, closure in Listener.of(closure)?.tell(.connected) }, closure)
        natsOptions_SetDisconnectedCB(options, { _, closure in Listener.of(closure)?.tell(.disconnected) }, closure)
        natsOptions_SetClosedCB(options, { _, closure in
            Listener.of(closure)?.tell(.closed)
            if let closure { Unmanaged<Listener>.fromOpaque(closure).release() }
        }, closure)
        natsOptions_SetErrorHandler(options, { _, _, status, closure in Listener.of(closure)?.fault(status) }, closure)
        let status = natsConnection_Connect(&handle, options)
        guard status == NATS_OK || status == NATS_NOT_YET_CONNECTED else {
            listener.release()
            throw Fault(description: Self.text(status))
        }
        var wait = jsOptions()
        jsOptions_Init(&wait)
        wait.Wait = settings.requestMs
        try Self.check(natsConnection_JetStream(&stream, handle, &wait))
    }

    /// No call is under way any more: each holds the connection.
    deinit {
        // The thread that reads ends in here.
        natsConnection_Close(handle)
        for one in ended.withLock({ $0 }) { natsSubscription_Destroy(one.handle) }
        jsCtx_Destroy(stream)
        natsConnection_Destroy(handle)
    }

    public var isConnected: Bool { natsConnection_Status(handle) == NATS_CONN_STATUS_CONNECTED }

    /// Ends it: calls under way fail, and later ones.
    public func close() { natsConnection_Close(handle) }

    // MARK: Subscriptions

    /// Ends a subscription. The thread that reads looks a subscription up and locks it without holding it (libnats 3.4), so it is released
    /// behind an answer of the servers that was read after it had gone from the connection's. Waits for that answer; without one it is
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

    /// What libnats calls back; it does not keep the connection.
    private final class Listener: @unchecked Sendable {
        // Sendable: the reference is weak, and not changed.
        private weak var connection: NatsConnection?

        init(_ connection: NatsConnection) { self.connection = connection }

        static func of(_ closure: UnsafeMutableRawPointer?) -> Listener? {
            closure.map { Unmanaged<Listener>.fromOpaque($0).takeUnretainedValue() }
        }

        func tell(_ change: Change) {
            guard let connection else { return }
            for listener in connection.listeners.withLock({ $0 }) { listener(change) }
        }

        func fault(_ status: natsStatus) {
            connection?.logger.warning("NATS reports a fault", metadata: ["fault": "\(NatsConnection.text(status))"])
        }
    }

    // MARK: Status

    static func check(_ status: natsStatus) throws(Fault) {
        if status != NATS_OK { throw Fault(description: text(status)) }
    }

    /// With what libnats knows of the last error of this thread.
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
