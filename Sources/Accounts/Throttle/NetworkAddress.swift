import Glibc

/// The part of a peer's address that one subscriber has: an IPv4 address, the first 64 bits of an IPv6 address.
public enum NetworkAddress {
    /// - Parameter peer: an address as text, also `::ffff:192.0.2.1`, with or without brackets or zone. What is none is its own
    ///   network.
    public static func network(of peer: String) -> String {
        let bare = peer.hasPrefix("[") && peer.hasSuffix("]") ? String(peer.dropFirst().dropLast()) : peer
        let unscoped = String(bare.prefix { $0 != "%" })
        var bytes = [UInt8](repeating: 0, count: 16)
        guard inet_pton(AF_INET6, unscoped, &bytes) == 1 else { return bare }
        if bytes[..<10].allSatisfy({ $0 == 0 }), bytes[10] == 0xFF, bytes[11] == 0xFF {
            return bytes[12...].map { "\($0)" }.joined(separator: ".")
        }
        return bytes[..<8].map { $0 < 16 ? "0" + String($0, radix: 16) : String($0, radix: 16) }.joined() + "/64"
    }
}
