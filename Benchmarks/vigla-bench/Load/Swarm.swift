import CLinux
import Glibc

/// Many client connections on one thread and one epoll descriptor.
final class Swarm {
    private let epoll: Int32
    private let port: UInt16
    private let buffer = UnsafeMutableRawPointer.allocate(byteCount: 256 << 10, alignment: 16)
    private let bufferBytes = 256 << 10
    private let events = UnsafeMutablePointer<epoll_event>.allocate(capacity: 512)
    private(set) var peers: [LoadPeer] = []
    private let tls: LoadTLS?

    /// - Parameter trusting: the server's certificate; nil without TLS.
    init(port: UInt16, trusting: String? = nil) throws {
        self.port = port
        tls = try trusting.map { try LoadTLS(trusting: $0) }
        epoll = vigla_epoll_create()
        guard epoll >= 0 else { throw BenchError.system("epoll_create1", errno: -epoll) }
    }

    /// Ends every connection with a reset, which leaves no port occupied.
    func reset() {
        for peer in peers { _ = vigla_close_reset(peer.fd) }
        peers = []
    }

    deinit {
        for peer in peers { _ = vigla_close(peer.fd) }
        _ = vigla_close(epoll)
        buffer.deallocate()
        events.deallocate()
    }

    /// Connects and asks for the upgrade; `frames` completes it.
    /// - Parameter other: the port of another server than the swarm's.
    func connect(_ target: String, port other: UInt16? = nil) throws -> LoadPeer {
        let port = other ?? self.port
        let fd = vigla_socket(AF_INET)
        guard fd >= 0 else { throw BenchError.system("socket", errno: -fd) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                vigla_connect(fd, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        if result == -EINPROGRESS {
            var wait = pollfd(fd: fd, events: Int16(POLLOUT), revents: 0)
            guard poll(&wait, 1, 10_000) == 1 else { throw BenchError.system("connect", errno: ETIMEDOUT) }
        }
        let failure = result == 0 || result == -EINPROGRESS ? vigla_socket_error(fd) : -result
        guard failure == 0 else { throw BenchError.system("connect", errno: failure) }
        _ = vigla_set_no_delay(fd)
        let peer = LoadPeer(index: peers.count, fd: fd)
        if let tls { peer.session = try tls.connect(peer) }
        peers.append(peer)
        let added = vigla_epoll_control(epoll, vigla_epoll_add, fd, vigla_epollin, UInt64(peer.index))
        guard added == 0 else { throw BenchError.system("epoll_ctl", errno: -added) }
        try peer.send(WebSocketBytes.upgradeRequest(target, port: port))
        return peer
    }

    /// Waits for input and passes on every text frame; `body` gets the time (ns) at which its bytes were read.
    /// False when nothing arrived within the time.
    func frames(
        withinMs: Int32, _ body: (LoadPeer, UnsafeRawBufferPointer, _ nowNs: UInt64) throws -> Void
    ) throws -> Bool {
        let count = vigla_epoll_wait(epoll, events, 512, withinMs)
        guard count > 0 else { return false }
        for i in 0..<Int(count) {
            let peer = peers[Int(vigla_event_tag(events + i))]
            let got = vigla_receive(peer.fd, buffer, bufferBytes)
            if got == -Int(EAGAIN) { continue }
            guard got > 0 else { throw BenchError.connectionLost("connection \(peer.index), \(got)") }
            let now = vigla_monotonic_ns()
            var bytes = UnsafeRawBufferPointer(start: buffer, count: got)
            if let session = peer.session { bytes = try session.decrypt(bytes, peer) }
            try peer.receive(bytes) { try body(peer, $0, now) }
        }
        return true
    }

    /// Receives frames until `isDone`; fails after `withinMs` without any input.
    func run(
        withinMs: Int32 = 20_000, until isDone: () -> Bool, missing: () -> String,
        _ body: (LoadPeer, UnsafeRawBufferPointer, _ nowNs: UInt64) throws -> Void
    ) throws {
        while !isDone() {
            guard try frames(withinMs: withinMs, body) else { throw BenchError.incomplete(missing()) }
        }
    }

    /// Waits until every connection is upgraded; frames that arrive meanwhile go to `body`.
    func finishUpgrades(_ body: (LoadPeer, UnsafeRawBufferPointer) throws -> Void = { _, _ in }) throws {
        try run(
            until: { peers.allSatisfy(\.isUpgraded) },
            missing: { "\(peers.filter { !$0.isUpgraded }.count) upgrades" }
        ) { peer, frame, _ in try body(peer, frame) }
    }
}
