import CNats
public import Journal
import Synchronization

/// The hubs of a cluster and their writers, as known to this hub. From any thread.
public struct HubDirectory: Sendable {
    /// This hub's id, unique for each run of the process.
    public var hub: UInt64
    /// The NATS subject of a hub.
    public var subject: @Sendable (_ hub: UInt64) -> String
    /// The hub that writes a namespace.
    public var writer: @Sendable (_ namespace: String) -> HubWriter
    /// Whether a hub has sent a heartbeat recently.
    public var isAlive: @Sendable (_ hub: UInt64) -> Bool
    /// Whether this hub has received heartbeats for long enough to know that a missing hub is gone.
    public var isMembershipKnown: @Sendable () -> Bool = { true }
    /// Calls back when a namespace's writer changes, or a hub comes or goes.
    public var whenChanged: @Sendable (@escaping @Sendable () -> Void) -> Void

    public init(
        hub: UInt64, cluster: String, writer: @escaping @Sendable (String) -> HubWriter, isAlive: @escaping @Sendable (UInt64) -> Bool,
        whenChanged: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
    ) {
        (self.hub, self.writer, self.isAlive, self.whenChanged) = (hub, writer, isAlive, whenChanged)
        subject = { "vigla.hub.\(cluster).\(String($0, radix: 16))" }
    }

    /// A directory that follows the cluster's elections.
    init(_ writers: Writers) {
        hub = writers.hub
        subject = { writers.subject(of: $0) }
        writer = { namespace in
            switch writers.writer(of: namespace) {
            case .here: .here
            case .hub(let id): .hub(id)
            case .unknown: .unknown
            }
        }
        isAlive = { writers.isAlive($0) }
        isMembershipKnown = { writers.isMembershipKnown }
        whenChanged = { writers.whenChanged($0) }
    }
}

/// Carries messages between the hubs of a cluster, for all their namespaces: each hub subscribes to its own subject. NATS stores none of them:
/// a message without a receiver is lost, and the databases send the request again.
///
///     "VHM1"  sending hub  bytes of the namespace  namespace  message …        numbers little-endian
final class HubTransport: Sendable {
    private let connection: NatsConnection
    private let hubs: HubDirectory
    private let messageBytes: Int
    private let state = Mutex(State())

    private struct State {
        var links: [String: TransportLink] = [:]
    }

    /// - Parameter messageBytes: the servers' limit for one message.
    init(_ connection: NatsConnection, _ hubs: HubDirectory, messageBytes: Int) {
        (self.connection, self.hubs, self.messageBytes) = (connection, hubs, messageBytes)
    }

    /// Starts to receive other hubs' messages to this one, until the connection is closed.
    /// - Throws: `Fault` after that.
    func open() throws(NatsConnection.Fault) {
        var made: OpaquePointer?
        // Retained until the subscription has ended.
        let handler = Unmanaged.passRetained(SubscriptionHandler(self))
        let status = natsConnection_Subscribe(&made, connection.handle, hubs.subject(hubs.hub), { _, _, message, closure in
            guard let message else { return }
            defer { natsMsg_Destroy(message) }
            guard let closure else { return }
            Unmanaged<SubscriptionHandler>.fromOpaque(closure).takeUnretainedValue().transport?.receive(ShardLog.bytes(of: message))
        }, handler.toOpaque())
        guard status == NATS_OK else {
            handler.release()
            throw NatsConnection.Fault(description: NatsConnection.text(status))
        }
        natsSubscription_SetOnCompleteCB(
            made, { closure in if let closure { Unmanaged<SubscriptionHandler>.fromOpaque(closure).release() } }, handler.toOpaque())
        hubs.whenChanged { [weak self] in
            let links = self?.state.withLock { Array($0.links.values) } ?? []
            for link in links { link.deliver(.writerChanged) }
        }
    }

    /// The object that libnats calls; it does not retain the transport.
    private final class SubscriptionHandler: @unchecked Sendable {
        // Sendable: the reference is weak and never changes.
        weak var transport: HubTransport?
        init(_ transport: HubTransport) { self.transport = transport }
    }

    func close() { state.withLock { $0.links = [:] } }

    /// The link of a namespace.
    func link(of namespace: String) -> any HubLink {
        state.withLock { state in
            if let known = state.links[namespace] { return known }
            let link = TransportLink(namespace, connection, hubs, messageBytes: messageBytes - HubEnvelope.headerBytes(namespace))
            state.links[namespace] = link
            return link
        }
    }

    private func receive(_ bytes: [UInt8]) {
        guard let envelope = HubEnvelope(decoding: bytes), let link = state.withLock({ $0.links[envelope.namespace] }) else { return }
        link.deliver(.message(envelope.message, from: envelope.hub))
    }
}

/// One message in transit.
struct HubEnvelope: Equatable {
    let hub: UInt64
    let namespace: String
    let message: [UInt8]

    private static let magic: UInt32 = 0x314D_4856

    static func headerBytes(_ namespace: String) -> Int { 14 + namespace.utf8.count }

    var encoded: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Self.headerBytes(namespace) + message.count)
        bytes.append(littleEndian: Self.magic)
        bytes.append(littleEndian: hub)
        bytes.append(littleEndian: UInt16(namespace.utf8.count))
        bytes += namespace.utf8
        bytes += message
        return bytes
    }
}

extension HubEnvelope {
    /// Nil for bytes that no hub has sent.
    init?(decoding bytes: [UInt8]) {
        let read = bytes.withUnsafeBytes { bytes -> HubEnvelope? in
            var reader = ByteReader(bytes)
            guard reader.integer(UInt32.self) == Self.magic, let hub = reader.integer(UInt64.self), let count = reader.integer(UInt16.self),
                count <= LogRecord.nameBytes, let name = reader.bytes(Int(count)), let namespace = String(validating: name, as: UTF8.self)
            else { return nil }
            return HubEnvelope(hub: hub, namespace: namespace, message: Array(reader.remainder()))
        }
        guard let read else { return nil }
        self = read
    }
}

/// The link of one namespace.
private final class TransportLink: HubLink {
    private let namespace: String
    private let connection: NatsConnection
    private let hubs: HubDirectory
    let messageBytes: Int
    private let receiver = Mutex<(@Sendable (HubEvent) -> Void)?>(nil)

    init(_ namespace: String, _ connection: NatsConnection, _ hubs: HubDirectory, messageBytes: Int) {
        (self.namespace, self.connection, self.hubs, self.messageBytes) = (namespace, connection, hubs, messageBytes)
    }

    var hub: UInt64 { hubs.hub }

    var writer: HubWriter { hubs.writer(namespace) }

    func isAlive(_ hub: UInt64) -> Bool { hubs.isAlive(hub) }

    var isMembershipKnown: Bool { hubs.isMembershipKnown() }

    func send(_ message: [UInt8], to hub: UInt64) {
        let bytes = HubEnvelope(hub: self.hub, namespace: namespace, message: message).encoded
        bytes.withUnsafeBytes { _ = natsConnection_Publish(connection.handle, hubs.subject(hub), $0.baseAddress, Int32($0.count)) }
    }

    func listen(_ receive: @escaping @Sendable (HubEvent) -> Void) { receiver.withLock { $0 = receive } }

    func deliver(_ event: HubEvent) { receiver.withLock { $0 }?(event) }
}
