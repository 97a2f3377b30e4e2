internal import CLinux
internal import Dispatch
internal import Glibc

/// Opens a connection to a server, trying the addresses of its name one after the other. Callable from any thread;
/// exactly one of the two closures is called, on the loop.
/// - Parameters:
///   - tls: nil for a plain connection; otherwise the server's certificate must be for `host`, and `connected` is called
///     after the handshake.
///   - connected: creates the handler of the new connection, before its first byte is read.
///   - failed: gets the failure of the last address tried.
public func connect(
    to host: String, port: UInt16, on loop: EventLoop, tls: TLSClient? = nil,
    connected: @escaping @Sendable (Connection) -> any ConnectionHandler,
    failed: @escaping @Sendable (NetError) -> Void
) {
    let begin: @Sendable ([SocketAddress]) -> Void = { addresses in
        loop.execute {
            Connector(loop: loop, addresses: addresses, tls: tls.map { ($0, host) }, connected: connected, failed: failed).tryNext()
        }
    }
    if let numeric = try? SocketAddress.resolve(host, port: port, numericOnly: true) { return begin(numeric) }
    // DNS may block for seconds: never on a loop.
    DispatchQueue.global().async {
        do throws(NetError) {
            begin(try SocketAddress.resolve(host, port: port))
        } catch {
            loop.execute { failed(error) }
        }
    }
}

/// One outgoing connection until it is established. Confined to its loop; retained by the loop's slots.
final class Connector: @unchecked Sendable {
    // because it is used on the loop's queue only.
    private let loop: EventLoop
    private var addresses: ArraySlice<SocketAddress>
    /// The verification settings, and the host name to verify.
    private let tls: (client: TLSClient, host: String)?
    private let connected: @Sendable (Connection) -> any ConnectionHandler
    private let failed: @Sendable (NetError) -> Void
    private var lastError = NetError.loopClosed
    private var attempt: Attempt?

    private struct Attempt {
        let fd: Int32
        let tag: UInt64
        let address: SocketAddress
        let timeout: LoopTimer
    }

    init(
        loop: EventLoop, addresses: [SocketAddress], tls: (TLSClient, String)?,
        connected: @escaping @Sendable (Connection) -> any ConnectionHandler,
        failed: @escaping @Sendable (NetError) -> Void
    ) {
        self.loop = loop
        self.addresses = addresses[...]
        self.tls = tls
        self.connected = connected
        self.failed = failed
    }

    func tryNext() {
        while loop.phase == .running, let address = addresses.popFirst() {
            if begin(address) { return }
        }
        failed(loop.phase == .running ? lastError : .loopClosed)
    }

    /// Begins an attempt; false when it failed immediately.
    private func begin(_ address: SocketAddress) -> Bool {
        let fd = vigla_socket(address.family)
        guard fd >= 0 else {
            lastError = .system(call: "socket", errno: -fd)
            return false
        }
        let result = address.withSockaddr { vigla_connect(fd, $0, $1) }
        guard result == 0 || result == -EINPROGRESS else {
            lastError = .connectFailed(address: address.description, errno: -result)
            _ = vigla_close(fd)
            return false
        }
        let tag = loop.slots.reserve()
        do throws(NetError) {
            try loop.poller.add(fd, tag: tag, for: .write)
        } catch {
            lastError = error
            loop.slots.free(tag)
            _ = vigla_close(fd)
            return false
        }
        loop.slots.occupy(tag, .connector(self))
        let timeout = loop.schedule(afterMs: loop.settings.connectTimeoutMs, everyMs: nil) { [weak self] in
            guard let self, self.attempt?.tag == tag else { return }
            self.abandon(.connectTimedOut(address: address.description))
            self.tryNext()
        }
        attempt = Attempt(fd: fd, tag: tag, address: address, timeout: timeout)
        return true
    }

    /// The kernel reports the attempt's result.
    func ready() {
        guard let attempt else { return }
        let error = vigla_socket_error(attempt.fd)
        guard error == 0 else {
            abandon(.connectFailed(address: attempt.address.description, errno: error))
            return tryNext()
        }
        attempt.timeout.cancel()
        self.attempt = nil
        loop.poller.remove(attempt.fd)
        loop.slots.free(attempt.tag)
        let role = tls.map { client, host in
            TLSRole(
                context: client.context, host: client.name ?? host, dial: TLSDial(peer: "\(host):\(attempt.address.port)", failed: failed))
        }
        loop.placed()
        if !loop.adopt(Listener.Accepted(fd: attempt.fd, peer: attempt.address), role, nil, connected) { failed(.loopClosed) }
    }

    /// The loop is shutting down.
    func cancel() {
        abandon(.loopClosed)
        addresses = []
        failed(.loopClosed)
    }

    private func abandon(_ error: NetError) {
        guard let attempt else { return }
        lastError = error
        attempt.timeout.cancel()
        self.attempt = nil
        loop.slots.free(attempt.tag)
        _ = vigla_close(attempt.fd)
    }
}
