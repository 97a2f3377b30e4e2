internal import Glibc

/// The network of a peer whose address is text, by the rule of `SocketAddress.network`. Limits per client count by network, also
/// behind a proxy that forwards the peer's address.
public enum NetworkAddress {
    /// - Parameter peer: an address, also `::ffff:192.0.2.1`, with or without brackets or zone.
    /// - Returns: the IPv4 address, or the 64 bits of an IPv6 network in hexadecimal with `/64`. Any other text is returned unchanged.
    public static func network(of peer: String) -> String {
        let bare = peer.hasPrefix("[") && peer.hasSuffix("]") ? String(peer.dropFirst().dropLast()) : peer
        guard let network = SocketAddress(ipv6: String(bare.prefix { $0 != "%" }))?.network else { return bare }
        guard network.isIPv6 else { return network.host }
        let digits = String(UInt64(bigEndian: network.bytes.high), radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits + "/64"
    }
}

extension SocketAddress {
    /// Parses an IPv6 address without port; a mapped IPv4 address (`::ffff:192.0.2.1`) becomes IPv4.
    fileprivate init?(ipv6 text: String) {
        var address = in6_addr()
        guard inet_pton(AF_INET6, text, &address) == 1 else { return nil }
        let bytes = withUnsafeBytes(of: &address) { $0.loadUnaligned(as: InlineBytes.self) }
        let low = UInt64(bigEndian: bytes.low)
        guard bytes.high == 0, low >> 32 == 0xFFFF else {
            self.init(bytes: bytes, scope: 0, port: 0, isIPv6: true)
            return
        }
        var mapped = InlineBytes(high: 0, low: 0)
        withUnsafeMutableBytes(of: &mapped) { $0.storeBytes(of: UInt32(truncatingIfNeeded: low).bigEndian, as: UInt32.self) }
        self.init(bytes: mapped, scope: 0, port: 0, isIPv6: false)
    }
}
