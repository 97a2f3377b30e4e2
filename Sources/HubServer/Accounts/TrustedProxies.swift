import Glibc
import HTTPTypes
import WireProtocols

/// The proxies in front of the hub that may name the client in `X-Forwarded-For`. Any client can send that field, so each address in
/// it is believed only if the address that added it is a trusted proxy:
///
///     X-Forwarded-For: 10.9.9.9, 198.51.100.7, 10.0.0.2        connection from 10.0.0.1        trusted: 10.0.0.0/8
///                      (said by the client)  ▲ the client
public struct TrustedProxies: Sendable, Hashable {
    private struct Block: Hashable {
        /// As an IPv6 address; IPv4 addresses are mapped (`::ffff:…`).
        let bytes: [UInt8]
        let bits: Int
    }

    private var blocks: [Block] = []

    /// No trusted proxies: the peer of the connection is the client.
    public init() {}

    /// Whether no proxy is trusted.
    var isEmpty: Bool { blocks.isEmpty }

    /// A text that is neither an address nor a network.
    public struct NoAddress: Error, CustomStringConvertible {
        let text: String

        public var description: String { "\"\(text)\" is neither an IP address nor a network such as 10.0.0.0/8" }
    }

    /// - Parameter texts: addresses (`192.0.2.1`, `2001:db8::1`) and networks (`10.0.0.0/8`).
    public init(_ texts: [String]) throws(NoAddress) {
        for text in texts {
            let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
            guard let address = parts.first, let bytes = Self.bytes(String(address)) else { throw NoAddress(text: text) }
            let length = address.contains(":") ? 128 : 32
            guard let bits = parts.count == 1 ? length : Int(parts[1]), 0...length ~= bits else { throw NoAddress(text: text) }
            blocks.append(Block(bytes: bytes, bits: bits + 128 - length))
        }
    }

    /// The address of the client that sent a request.
    /// - Parameter peer: the address of the connection's peer.
    func client(of request: HTTPInboundRequest, from peer: String) -> String {
        guard !blocks.isEmpty, let name = HTTPField.Name("X-Forwarded-For") else { return peer }
        var client = peer
        for hop in request.fields[values: name].joined(separator: ",").split(separator: ",").reversed() {
            guard trusts(client) else { break }
            // A malformed address ends the chain: the last trusted proxy counts as the client.
            guard let address = Self.address(hop) else { break }
            client = address
        }
        return client
    }

    private func trusts(_ address: String) -> Bool {
        guard let bytes = Self.bytes(address) else { return false }
        return blocks.contains { block in
            (0..<16).allSatisfy { i in
                let mask = UInt8(truncatingIfNeeded: 0xFF00 >> min(8, max(0, block.bits - 8 * i)))
                return (bytes[i] ^ block.bytes[i]) & mask == 0
            }
        }
    }

    /// An address without spaces, brackets and port; nil when it is none.
    private static func address(_ hop: Substring) -> String? {
        var text = hop.drop { $0 == " " || $0 == "\t" }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        if text.first == "[" {
            text = text.dropFirst().prefix { $0 != "]" }
        } else if text.count(where: { $0 == ":" }) == 1 {
            text = text.prefix { $0 != ":" }
        }
        let address = String(text)
        return bytes(address) == nil ? nil : address
    }

    private static func bytes(_ address: String) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: 16)
        let unscoped = String(address.prefix { $0 != "%" })
        if inet_pton(AF_INET6, unscoped, &bytes) == 1 { return bytes }
        var four = [UInt8](repeating: 0, count: 4)
        guard inet_pton(AF_INET, unscoped, &four) == 1 else { return nil }
        return [UInt8](repeating: 0, count: 10) + [0xFF, 0xFF] + four
    }
}
