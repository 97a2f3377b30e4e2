import CNats

/// Messages between hubs, which nobody keeps: who does not hear now never does.
extension NatsConnection {
    func publish(_ bytes: [UInt8], to subject: String) {
        bytes.withUnsafeBytes { bytes in
            _ = natsConnection_Publish(handle, subject, bytes.baseAddress, Int32(bytes.count))
        }
    }

    /// Hears a subject until the value goes away. Calls back on a thread of libnats.
    /// - Throws: `Fault` after `close`.
    func hear(_ subject: String, _ receive: @escaping @Sendable ([UInt8]) -> Void) throws(Fault) -> Hearing {
        var made: OpaquePointer?
        let listener = Unmanaged.passRetained(Hearing.Listener(receive))
        let status = natsConnection_Subscribe(&made, handle, subject, { _, _, message, closure in
            guard let message else { return }
            defer { natsMsg_Destroy(message) }
            guard let closure else { return }
            Unmanaged<Hearing.Listener>.fromOpaque(closure).takeUnretainedValue().receive(ShardLog.bytes(of: message))
        }, listener.toOpaque())
        guard status == NATS_OK, let made else {
            listener.release()
            throw Fault(description: Self.text(status))
        }
        // Closed already when it cannot be set: then nothing is heard, and the listener stays.
        natsSubscription_SetOnCompleteCB(
            made, { closure in if let closure { Unmanaged<Hearing.Listener>.fromOpaque(closure).release() } }, listener.toOpaque())
        return Hearing(self, made)
    }
}

/// Ends a subscription when it goes away; one more message may be under way.
final class Hearing: @unchecked Sendable {
    // Sendable: immutable, and libnats guards what it stands for.
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
