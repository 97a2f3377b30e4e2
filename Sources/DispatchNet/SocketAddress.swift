internal import CLinux
internal import Glibc

/// An IPv4 or IPv6 address with its port, in 28 bytes: small enough to keep one per idle connection.
public struct SocketAddress: Sendable, Hashable, CustomStringConvertible {
    /// The address in network order; IPv4 uses the first four bytes.
    let bytes: InlineBytes
    /// 0 except for link-local IPv6.
    let scope: UInt32
    public let port: UInt16
    public let isIPv6: Bool

    struct InlineBytes: Sendable, Hashable {
        var high: UInt64
        var low: UInt64
    }

    /// The numeric host without brackets: `127.0.0.1`, `::1`.
    public var host: String {
        withUnsafeTemporaryAllocation(byteCount: Int(INET6_ADDRSTRLEN) + 1, alignment: 1) { text in
            withUnsafeBytes(of: bytes) { raw in
                let start = text.baseAddress?.assumingMemoryBound(to: CChar.self)
                guard inet_ntop(isIPv6 ? AF_INET6 : AF_INET, raw.baseAddress, start, socklen_t(text.count)) != nil,
                      let start else { return "?" }
                return String(cString: start)
            }
        }
    }

    /// `127.0.0.1:9000`, `[::1]:9000`.
    public var description: String { isIPv6 ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// The network that limits per address count: an IPv4 address, or 64 bits of an IPv6 one, as providers assign. Without the port.
    public var network: SocketAddress {
        SocketAddress(bytes: InlineBytes(high: bytes.high, low: isIPv6 && !isLoopback ? 0 : bytes.low), scope: 0, port: 0, isIPv6: isIPv6)
    }

    /// The IPv6 network of 48 bits that a provider's customer may have, which shares several times the limits of one address; nil for IPv4
    /// and for loopback.
    public var wideNetwork: SocketAddress? {
        guard isIPv6, !isLoopback else { return nil }
        let high = (UInt64(bigEndian: bytes.high) & ~0xFFFF).bigEndian
        return SocketAddress(bytes: InlineBytes(high: high, low: 0), scope: 0, port: 0, isIPv6: true)
    }

    /// Whether the address can only be reached from this machine.
    public var isLoopback: Bool {
        withUnsafeBytes(of: bytes) { raw in
            guard isIPv6 else { return raw[0] == 127 }
            return raw.prefix(15).allSatisfy { $0 == 0 } && raw[15] == 1
        }
    }
}

extension SocketAddress {
    /// Nil for families other than IPv4 and IPv6.
    init?(_ pointer: UnsafePointer<sockaddr>) {
        let raw = UnsafeRawPointer(pointer)
        switch Int32(pointer.pointee.sa_family) {
        case AF_INET:
            let address = raw.loadUnaligned(as: sockaddr_in.self)
            var inline = InlineBytes(high: 0, low: 0)
            withUnsafeMutableBytes(of: &inline) { $0.storeBytes(of: address.sin_addr.s_addr, as: UInt32.self) }
            self.init(bytes: inline, scope: 0, port: UInt16(bigEndian: address.sin_port), isIPv6: false)
        case AF_INET6:
            let address = raw.loadUnaligned(as: sockaddr_in6.self)
            let inline = withUnsafeBytes(of: address.sin6_addr) { $0.loadUnaligned(as: InlineBytes.self) }
            self.init(
                bytes: inline, scope: address.sin6_scope_id, port: UInt16(bigEndian: address.sin6_port), isIPv6: true)
        default:
            return nil
        }
    }

    init?(_ storage: inout sockaddr_storage) {
        let made = withUnsafePointer(to: &storage) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { SocketAddress($0) }
        }
        guard let made else { return nil }
        self = made
    }

    func withSockaddr<R>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> R) -> R {
        var storage = sockaddr_storage()
        let length: Int
        if isIPv6 {
            var address = sockaddr_in6()
            address.sin6_family = sa_family_t(AF_INET6)
            address.sin6_port = port.bigEndian
            address.sin6_scope_id = scope
            withUnsafeMutableBytes(of: &address.sin6_addr) { $0.storeBytes(of: bytes, as: InlineBytes.self) }
            length = MemoryLayout<sockaddr_in6>.size
            withUnsafeMutableBytes(of: &storage) { $0.storeBytes(of: address, as: sockaddr_in6.self) }
        } else {
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = port.bigEndian
            withUnsafeBytes(of: bytes) { address.sin_addr.s_addr = $0.loadUnaligned(as: UInt32.self) }
            length = MemoryLayout<sockaddr_in>.size
            withUnsafeMutableBytes(of: &storage) { $0.storeBytes(of: address, as: sockaddr_in.self) }
        }
        return withUnsafePointer(to: &storage) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(length)) }
        }
    }

    func with(port: UInt16) -> SocketAddress {
        SocketAddress(bytes: bytes, scope: scope, port: port, isIPv6: isIPv6)
    }

    var family: Int32 { isIPv6 ? AF_INET6 : AF_INET }

    /// An address from its text without a port, such as `192.0.2.1` or `2001:db8::1`; `::ffff:192.0.2.1` becomes its IPv4 address. Nil for
    /// anything else.
    public static func numeric(_ text: String) -> SocketAddress? {
        let isMapped = text.lowercased().hasPrefix("::ffff:") && text.contains(".")
        return try? resolve(isMapped ? String(text.dropFirst(7)) : text, port: 0, numericOnly: true).first
    }

    /// Whether a name is `localhost` or ends in `.localhost`, in any case, with or without the root dot: such names
    /// always mean this machine (RFC 6761 §6.3).
    public static func isLocalhost(_ name: String) -> Bool {
        var name = name.lowercased()
        if name.hasSuffix(".") { name.removeLast() }
        return name == "localhost" || name.hasSuffix(".localhost")
    }

    /// The addresses of a name, in the order to try. Blocks on DNS unless `numericOnly`.
    ///
    /// `localhost` is not resolved by DNS: without a hosts file the resolver does not know it, and a wrong answer must not connect to
    /// another machine.
    static func resolve(
        _ host: String, port: UInt16, numericOnly: Bool = false, passive: Bool = false
    ) throws(NetError) -> [SocketAddress] {
        if !numericOnly, isLocalhost(host) {
            return try resolve("127.0.0.1", port: port, numericOnly: true) + resolve("::1", port: port, numericOnly: true)
        }
        var bare = host[...]
        if bare.first == "[", bare.last == "]" { bare = bare.dropFirst().dropLast() }
        var list: UnsafeMutablePointer<addrinfo>?
        let code = vigla_resolve(String(bare), port, numericOnly, passive, &list)
        guard code == 0 else { throw NetError.unresolved(host: host, code: code) }
        defer { freeaddrinfo(list) }
        var found: [SocketAddress] = []
        var next = list
        while let entry = next?.pointee {
            if let address = entry.ai_addr, let made = SocketAddress(address) { found.append(made) }
            next = entry.ai_next
        }
        guard !found.isEmpty else { throw NetError.unresolved(host: host, code: 0) }
        return found
    }
}
