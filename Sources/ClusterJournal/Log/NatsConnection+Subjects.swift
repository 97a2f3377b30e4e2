import CNats

/// Messages between hubs. NATS does not store them: a hub that is not subscribed misses them.
extension NatsConnection {
    func publish(_ bytes: [UInt8], to subject: String) {
        bytes.withUnsafeBytes { bytes in
            _ = natsConnection_Publish(handle, subject, bytes.baseAddress, Int32(bytes.count))
        }
    }

    /// Subscribes to a subject until the value is released. Calls back on a thread of libnats.
    /// - Throws: `Fault` after `close`.
    func subscribe(_ subject: String, _ receive: @escaping @Sendable ([UInt8]) -> Void) throws(Fault) -> Subscription {
        var made: OpaquePointer?
        let listener = Unmanaged.passRetained(Subscription.Listener(receive))
        let status = natsConnection_Subscribe(&made, handle, subject, { _, _, message, closure in
            guard let message else { return }
            defer { natsMsg_Destroy(message) }
            guard let closure else { return }
            Unmanaged<Subscription.Listener>.fromOpaque(closure).takeUnretainedValue().receive(ShardLog.bytes(of: message))
        }, listener.toOpaque())
        guard status == NATS_OK, let made else {
            listener.release()
            throw Fault(description: Self.text(status))
        }
        // If the callback cannot be set, the subscription is already closed: nothing is received, and the listener leaks.
        natsSubscription_SetOnCompleteCB(
            made, { closure in if let closure { Unmanaged<Subscription.Listener>.fromOpaque(closure).release() } }, listener.toOpaque())
        return Subscription(self, made)
    }
}

/// Ends a subscription on deinit; one more message may still be delivered.
final class Subscription: @unchecked Sendable {
    // Sendable: immutable, and libnats protects the subscription.
    private let connection: NatsConnection
    private let subscription: OpaquePointer

    fileprivate init(_ connection: NatsConnection, _ subscription: OpaquePointer) {
        (self.connection, self.subscription) = (connection, subscription)
    }

    deinit { connection.end(subscription) }

    final class Listener: Sendable {
        let receive: @Sendable ([UInt8]) -> Void
        init(_ receive: @escaping @Sendable ([UInt8]) -> Void) { self.receive = receive }
    }
}
