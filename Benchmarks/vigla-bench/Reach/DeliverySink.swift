import CLinux
import DispatchNet
import Synchronization

/// An endpoint for deliveries: answers every request with 204, and counts.
final class DeliverySink: Sendable {
    private let group: EventLoopGroup
    private let listener: Listener
    private let counts: Counts
    let port: UInt16

    private final class Counts: Sendable {
        let received = Atomic<Int>(0)
        /// When the last request came, ns of the monotonic clock.
        let last = Atomic<UInt64>(0)
    }

    init() throws {
        group = try EventLoopGroup(count: 1)
        listener = try Listener.bind(host: "127.0.0.1", port: 0)
        port = listener.port
        let counts = Counts()
        self.counts = counts
        listener.start(on: group, tls: nil) { Session($0, counts) }
    }

    /// Requests so far.
    var received: Int { counts.received.load(ordering: .relaxed) }
    var lastNs: UInt64 { counts.last.load(ordering: .relaxed) }

    private final class Session: ConnectionHandler {
        private let connection: Connection
        private let counts: Counts
        private var held: [UInt8] = []

        init(_ connection: Connection, _ counts: Counts) { (self.connection, self.counts) = (connection, counts) }

        func received(_ bytes: UnsafeMutableRawBufferPointer) {
            held += bytes
            while let end = held.firstRange(of: Array("\r\n\r\n".utf8)) {
                let head = String(decoding: held[..<end.lowerBound], as: UTF8.self)
                let field = head.split(separator: "\r\n").first { $0.lowercased().hasPrefix("content-length:") }
                let length = field.flatMap { Int($0.split(separator: " ").last ?? "") } ?? 0
                guard held.count >= end.upperBound + length else { return }
                held.removeFirst(end.upperBound + length)
                counts.received.add(1, ordering: .relaxed)
                counts.last.store(vigla_monotonic_ns(), ordering: .relaxed)
                connection.send(Array("HTTP/1.1 204 No Content\r\n\r\n".utf8))
            }
        }

        func ended(_ reason: CloseReason) {}
    }
}
