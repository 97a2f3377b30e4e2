import CLinux
import Dispatch
import DispatchNet
import Glibc
import Synchronization
import TestSupport

/// A client on a plain blocking socket: independent of the code under test. Reads give up after 20 s, so that a broken
/// server fails a test instead of hanging it.
final class TestPeer {
    let fd: Int32

    init(port: UInt16, receiveBuffer: Int32? = nil) {
        (fd, isConnected) = Loopback.connect(port: port, receiveBuffer: receiveBuffer)
        _ = vigla_set_no_delay(fd)
    }

    let isConnected: Bool

    /// Its own port.
    var port: UInt16 {
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        _ = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(fd, $0, &size) }
        }
        return UInt16(bigEndian: address.sin_port)
    }

    deinit { _ = Glibc.close(fd) }

    /// A peer that is being closed accepts less: the test notices by the received data.
    func write(_ bytes: [UInt8]) {
        _ = Loopback.send(bytes, to: fd)
    }

    /// At most `count` bytes of one read; empty at the end; nil on an error (reset, timeout).
    func readSome(_ count: Int) -> [UInt8]? {
        var failed = false
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, used in
            let got = recv(fd, buffer.baseAddress, count, 0)
            failed = got < 0
            used = max(0, got)
        }
        return failed ? nil : bytes
    }

    /// Exactly `count` bytes, or fewer when the stream ended.
    func read(_ count: Int) -> [UInt8] {
        var all: [UInt8] = []
        while all.count < count, let some = readSome(count - all.count), !some.isEmpty { all += some }
        return all
    }

    /// Whether these bytes come next. For long data: a failed comparison inside `#expect` would compute their difference.
    func reads(_ bytes: some Collection<UInt8>) -> Bool { read(bytes.count).elementsEqual(bytes) }

    /// True if the next read reports a regular end.
    func readsEnd() -> Bool { readSome(1) == [] }

    func finishWriting() { shutdown(fd, Int32(SHUT_WR)) }

    /// Closes with a reset.
    func reset() {
        var now = linger(l_onoff: 1, l_linger: 0)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, socklen_t(MemoryLayout<linger>.size))
        // dup2 over the descriptor closes the socket now and leaves the number valid for deinit.
        let null = open("/dev/null", O_RDWR)
        dup2(null, fd)
        Glibc.close(null)
    }
}

/// Values from loops for the test's thread, in order.
final class Log<Value: Sendable>: Sendable {
    private let values = Mutex<[Value]>([])
    private let available = DispatchSemaphore(value: 0)

    func append(_ value: Value) {
        values.withLock { $0.append(value) }
        available.signal()
    }

    /// The next value, waiting for it; nil after 20 s.
    func next() -> Value? {
        guard available.wait(timeout: .now() + 20) == .success else { return nil }
        return values.withLock { $0.removeFirst() }
    }

    /// The values not taken yet.
    var waiting: [Value] { values.withLock { $0 } }
}

/// A handler made of closures.
final class Scripted: ConnectionHandler {
    let connection: Connection
    var onBytes: (Connection, [UInt8]) -> Void = { $0.send($1) }
    var onHalfClose: (Connection) -> HalfClose = { _ in .close }
    var onCongested: (Connection) -> Void = { _ in }
    var onDrained: (Connection) -> Void = { _ in }
    var onEnd: (CloseReason) -> Void = { _ in }

    init(_ connection: Connection, _ configure: (Scripted) -> Void = { _ in }) {
        self.connection = connection
        configure(self)
    }

    func received(_ bytes: UnsafeMutableRawBufferPointer) { onBytes(connection, Array(bytes)) }
    func peerFinishedSending() -> HalfClose { onHalfClose(connection) }
    func outboundCongested() { onCongested(connection) }
    func outboundDrained() { onDrained(connection) }
    func ended(_ reason: CloseReason) { onEnd(reason) }
}

extension Scripted {
    /// Answers when the peer has sent everything, a turn later.
    func answerLate() {
        onHalfClose = { connection in
            connection.loop.schedule(afterMs: 1, everyMs: nil) {
                connection.send(Array("late answer".utf8))
                connection.close(.finished)
            }
            return .keepWriting
        }
    }
}

/// A server on a free port; shut down when the test releases it.
final class TestServer {
    let group: EventLoopGroup
    let listener: Listener
    /// Close reasons of all connections, in order.
    let ends = Log<CloseReason>()
    /// Every connection, as it is accepted.
    let connections = Log<Connection>()

    var port: UInt16 { listener.port }
    var loop: EventLoop { group.loops[0] }

    init(
        loops: Int = 1, settings: NetSettings = NetSettings(), tls: TLSServer? = nil, admission: Admission? = nil,
        group: EventLoopGroup? = nil,
        _ configure: @escaping @Sendable (Scripted) -> Void = { _ in }
    ) throws {
        self.group = try group ?? EventLoopGroup(count: loops, settings: settings)
        listener = try Listener.bind(host: "127.0.0.1", port: 0)
        listener.start(on: self.group, tls: tls, admission: admission) { [ends, connections] connection in
            Scripted(connection) { handler in
                handler.onEnd = { ends.append($0) }
                configure(handler)
                connections.append(connection)
            }
        }
    }

    deinit { group.shutdownAndWait(graceMs: 0) }

    /// Runs on the loop and waits for the result.
    func onLoop<T: Sendable>(_ body: @escaping @Sendable () -> T) -> T? {
        let result = Log<T>()
        loop.execute { result.append(body()) }
        return result.next()
    }

    /// Sends small frames (copied when they remain) and large ones (shared), over several turns.
    /// - Returns: all of them as bytes.
    func sendOverManyTurns(_ connection: Connection) -> [UInt8] {
        var sent: [UInt8] = []
        for turn in 0..<60 {
            let small = (0..<20).map { pattern(100 + $0, seed: UInt64(turn * 100 + $0)) }
            let large = pattern(150_000, seed: UInt64(turn + 7777))
            sent += small.flatMap { $0 } + large
            _ = onLoop {
                for frame in small { connection.send(frame) }
                connection.send(large)
            }
        }
        return sent
    }

    /// The counters after all pending work has run.
    func counters() -> LoopCounters {
        // The first block's turn publishes before it ends; a second round trip by the queue itself sees that.
        _ = onLoop {}
        return loop.queue.sync { loop.counters }
    }
}

/// Bytes whose values reveal their position, to check order and completeness.
func pattern(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
    var state = seed &* 0x9E37_79B9_7F4A_7C15 | 1
    return [UInt8](unsafeUninitializedCapacity: count) { buffer, used in
        for i in 0..<count {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            buffer[i] = UInt8(truncatingIfNeeded: state)
        }
        used = count
    }
}
