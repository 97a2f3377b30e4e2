public import Curl

/// Decides which addresses requests may reach. Users choose the endpoints of their devices, so without it the hub would send requests to
/// services of its own network for them.
public struct AddressGuard: Sendable, Equatable {
    private var networks: [IPNetwork] = []
    private var hosts: Set<String> = []

    /// Only public addresses.
    public init() {}

    /// An entry that is neither a host name nor an address or network.
    public struct InvalidEntry: Error, Equatable, CustomStringConvertible {
        let entry: String
        public var description: String {
            "\"\(entry.prefix(64))\" is neither a host name, an IP address nor a network such as 10.0.0.0/8"
        }
    }

    /// - Parameter entries: what may be private and may be reached without TLS: host names (`ntfy.lan`: exactly this name, at any address),
    ///   addresses and networks (`10.0.0.0/8`).
    public init(allowing entries: [String]) throws(InvalidEntry) {
        for entry in entries {
            if let network = IPNetwork(entry) {
                networks.append(network)
            } else if let url = CurlURL("http://\(entry)/"), url.port == 80, url.host == entry.lowercased(), !entry.contains("/") {
                hosts.insert(url.host)
            } else {
                throw InvalidEntry(entry: entry)
            }
        }
    }

    /// Whether a request for this host (in lower case) may connect to the address.
    public func permits(_ address: IPAddress, host: String) -> Bool {
        address.isPublic || networks.contains { $0.contains(address) } || hosts.contains(host)
    }

    /// Whether the endpoint may be used: https, or http to a host that is allowed to be private.
    public func permitsScheme(of url: CurlURL) -> Bool {
        url.isSecure || hosts.contains(url.host)
            || IPAddress(url.host).map { address in networks.contains { $0.contains(address) } } ?? false
    }

    /// The same guard that also permits this host, for an endpoint that the operator has named.
    func allowing(host: String) -> AddressGuard {
        var guardWithHost = self
        guardWithHost.hosts.insert(host)
        return guardWithHost
    }
}

extension IPAddress {
    /// Whether the address is that of a host on the internet: not one of the blocks that IANA's registries of special-purpose addresses
    /// (RFC 6890) keep for this machine, local networks, multicast, documentation or tunnels.
    var isPublic: Bool {
        if let v4 { return !Self.special4.contains { v4 >> $0.shift == $0.prefix } }
        // NAT64 (RFC 6052 §2.1): the address to which the gateway connects counts.
        if high == 0x0064_FF9B_0000_0000, low >> 32 == 0 { return IPAddress(v4: UInt32(truncatingIfNeeded: low)).isPublic }
        // Of IPv6, only 2000::/3 is assigned to hosts.
        return high >> 61 == 1 && !Self.special6.contains { high >> $0.shift == $0.prefix }
    }

    private static let special4: [(prefix: UInt32, shift: UInt32)] = [
        (0x00, 24),  // 0.0.0.0/8: this machine
        (0x0A, 24),  // 10.0.0.0/8: private
        (0x191, 22),  // 100.64.0.0/10: shared by customers of a provider
        (0x7F, 24),  // 127.0.0.0/8: loopback
        (0xA9FE, 16),  // 169.254.0.0/16: link-local, and the metadata of clouds
        (0xAC1, 20),  // 172.16.0.0/12: private
        (0xC0_0000, 8),  // 192.0.0.0/24: protocol assignments
        (0xC0_0002, 8),  // 192.0.2.0/24: documentation
        (0xC0_5863, 8),  // 192.88.99.0/24: relays of 6to4
        (0xC0A8, 16),  // 192.168.0.0/16: private
        (0x6309, 17),  // 198.18.0.0/15: benchmarks
        (0xC6_3364, 8),  // 198.51.100.0/24: documentation
        (0xCB_0071, 8),  // 203.0.113.0/24: documentation
        (0x7, 29),  // 224.0.0.0/3: multicast, reserved, broadcast
    ]

    /// Parts of 2000::/3, by the first 64 bits.
    private static let special6: [(prefix: UInt64, shift: UInt64)] = [
        (0x2001_0000 >> 9, 41),  // 2001::/23: protocol assignments, Teredo among them
        (0x2001_0DB8, 32),  // 2001:db8::/32: documentation
        (0x2002, 48),  // 2002::/16: 6to4, which contains an IPv4 address
        (0x3_FFF0, 44),  // 3fff::/20: documentation
    ]
}
