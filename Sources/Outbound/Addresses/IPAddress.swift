import Glibc

/// An IP address as 128 bits. IPv4 addresses are mapped (`::ffff:192.0.2.1`), so that both forms of one address are equal.
public struct IPAddress: Sendable, Hashable, CustomStringConvertible {
    let high: UInt64
    let low: UInt64

    init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    init(v4: UInt32) { self.init(high: 0, low: 0xFFFF << 32 | UInt64(v4)) }

    /// Parses `192.0.2.1` or `2001:db8::1`: no brackets, no zone, no port.
    public init?(_ text: String) {
        var six = in6_addr()
        var four = in_addr()
        if inet_pton(AF_INET, text, &four) == 1 {
            self.init(v4: UInt32(bigEndian: four.s_addr))
        } else if inet_pton(AF_INET6, text, &six) == 1 {
            self.init(six)
        } else {
            return nil
        }
    }

    private init(_ address: in6_addr) {
        self = withUnsafeBytes(of: address) {
            IPAddress(
                high: UInt64(bigEndian: $0.loadUnaligned(as: UInt64.self)),
                low: UInt64(bigEndian: $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
        }
    }

    /// Nil for families other than IPv4 and IPv6. The pointer must be to a whole address of its family.
    init?(_ address: UnsafePointer<sockaddr>) {
        let raw = UnsafeRawPointer(address)
        switch Int32(address.pointee.sa_family) {
        case AF_INET: self.init(v4: UInt32(bigEndian: raw.loadUnaligned(as: sockaddr_in.self).sin_addr.s_addr))
        case AF_INET6: self.init(raw.loadUnaligned(as: sockaddr_in6.self).sin6_addr)
        default: return nil
        }
    }

    /// The IPv4 address; nil for IPv6.
    var v4: UInt32? { high == 0 && low >> 32 == 0xFFFF ? UInt32(truncatingIfNeeded: low) : nil }

    public var description: String {
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        if let v4 {
            var four = in_addr(s_addr: v4.bigEndian)
            inet_ntop(AF_INET, &four, &text, socklen_t(text.count))
        } else {
            var bytes = (high.bigEndian, low.bigEndian)
            inet_ntop(AF_INET6, &bytes, &text, socklen_t(text.count))
        }
        return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}

/// A block of addresses: `10.0.0.0/8`, `fd00::/8`, or a single address.
public struct IPNetwork: Sendable, Hashable {
    private let base: IPAddress
    /// Of 128.
    private let bits: Int

    /// Nil for other texts. Bits beyond the length are ignored.
    public init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let address = parts.first.flatMap({ IPAddress(String($0)) }) else { return nil }
        // An IPv4 address in mapped form has a length of 128 bits, too.
        let width = parts[0].contains(":") ? 128 : 32
        guard let bits = parts.count == 1 ? width : Int(parts[1]), 0...width ~= bits else { return nil }
        base = address
        self.bits = bits + 128 - width
    }

    public func contains(_ address: IPAddress) -> Bool {
        let (high, low) = (base.high ^ address.high, base.low ^ address.low)
        return bits <= 64 ? high >> UInt64(64 - bits) == 0 : high == 0 && low >> UInt64(128 - bits) == 0
    }
}
