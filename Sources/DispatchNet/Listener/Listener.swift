internal import CLinux
internal import Glibc
internal import Synchronization

/// A listening address. Connections are accepted in batches on the group's first loop and distributed to the loops: in rotation, or as
/// ``NetSettings/connectionsPerLoop`` says. Each batch costs one hand-over per loop.
public final class Listener: @unchecked Sendable {
    // because `serving` is used on the first loop's queue only; the rest is constant or a Mutex.

    /// The address bound first; its port is the one chosen by the system when 0 was asked for.
    public let localAddress: SocketAddress
    public var port: UInt16 { localAddress.port }

    struct Sockets {
        var descriptors: [Int32]
        /// The loop that accepts, once started.
        var home: EventLoop?
    }

    struct Serving {
        let group: EventLoopGroup
        let loop: EventLoop
        /// Descriptor and poller tag of each socket.
        let registered: [(fd: Int32, tag: UInt64)]
        let tls: TLSServer?
        let admission: Admission?
        let makeHandler: @Sendable (Connection) -> any ConnectionHandler
    }

    let sockets: Mutex<Sockets>
    var serving: Serving?
    /// A reserved descriptor, closed temporarily when none is left, to accept a waiting peer and close it.
    var reserve: Int32 = -1

    private init(descriptors: [Int32], localAddress: SocketAddress) {
        sockets = Mutex(Sockets(descriptors: descriptors))
        self.localAddress = localAddress
    }

    deinit { closeDescriptors() }

    /// Binds and listens; peers may connect from here on and wait until `start`.
    /// - Parameters:
    ///   - host: an IPv4 or IPv6 address, a name (every address of it is bound), or `*` for all of this machine's.
    ///   - port: 0 lets the system choose.
    public static func bind(host: String, port: UInt16, backlog: Int32 = 4096) throws(NetError) -> Listener {
        let addresses = host == "*"
            ? try SocketAddress.resolve("0.0.0.0", port: port) + (try SocketAddress.resolve("::", port: port))
            : try SocketAddress.resolve(host, port: port, passive: true)
        var opened: [Int32] = []
        var first: SocketAddress?
        var failure = NetError.unresolved(host: host, code: 0)
        for address in addresses {
            let wanted = address.with(port: first?.port ?? port)
            switch open(wanted, backlog) {
            case .success(let (fd, bound)):
                opened.append(fd)
                if first == nil { first = bound }
            case .failure(let error):
                failure = error
                // A machine without IPv6 still serves a name that has both kinds of address.
                if case .bindFailed(_, let code) = error, code == EADDRNOTAVAIL || code == EAFNOSUPPORT { continue }
                for fd in opened { _ = vigla_close(fd) }
                throw error
            }
        }
        guard let first else { throw failure }
        return Listener(descriptors: opened, localAddress: first)
    }

    private static func open(_ address: SocketAddress, _ backlog: Int32) -> Result<(Int32, SocketAddress), NetError> {
        let fd = vigla_socket(address.family)
        guard fd >= 0 else { return .failure(.bindFailed(address: address.description, errno: -fd)) }
        let result = address.withSockaddr { vigla_bind_listen(fd, $0, $1, backlog) }
        var storage = sockaddr_storage()
        guard result == 0, vigla_local_address(fd, &storage) == 0, let bound = SocketAddress(&storage) else {
            _ = vigla_close(fd)
            return .failure(.bindFailed(address: address.description, errno: -result))
        }
        return .success((fd, bound))
    }

    /// Begins to accept. Each connection's handler is created on that connection's loop, before its first byte is read.
    /// With `tls` that is after the handshake; a connection whose handshake fails has none.
    /// Once per listener.
    /// - Parameter admission: the connection limits; nil accepts all connections that the system has descriptors for.
    public func start(
        on group: EventLoopGroup, tls: TLSServer? = nil, admission: Admission? = nil,
        makeHandler: @escaping @Sendable (Connection) -> any ConnectionHandler
    ) {
        let loop = group.loops[0]
        let isFirst = sockets.withLock { sockets in
            defer { sockets.home = sockets.home ?? loop }
            return sockets.home == nil && !sockets.descriptors.isEmpty
        }
        if isFirst { loop.execute { self.join(group, tls, admission, makeHandler) } }
    }

    /// Stops listening; connections already accepted stay. From any thread; on a started listener it takes effect
    /// with its loop's next turn.
    public func stop() {
        let home = sockets.withLock(\.home)
        if let home { home.execute { self.leave() } } else { closeDescriptors() }
    }

    func closeDescriptors() {
        if reserve >= 0 { _ = vigla_close(reserve) }
        reserve = -1
        sockets.withLock { sockets in
            for fd in sockets.descriptors { _ = vigla_close(fd) }
            sockets.descriptors = []
        }
    }
}
