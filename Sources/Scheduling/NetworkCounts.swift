/// How many things each network of clients has, of a table that serves all: an address (IPv4, or 64 bits of IPv6) has its share, and an
/// IPv6 network of 48 bits `wideTimes` that share. A provider's customer may have 65,536 networks of 64 bits, so that a share of these
/// alone bounds nobody. Each in O(1).
public struct NetworkCounts<Network: Hashable & Sendable>: Sendable {
    private var near: [Network: Int] = [:]
    private var wide: [Network: Int] = [:]

    public init() {}

    /// Things of one address.
    public func count(of network: Network) -> Int { near[network] ?? 0 }

    /// Whether an address may have one more.
    /// - Parameters:
    ///   - wide: the network of 48 bits that it is of; nil for IPv4.
    ///   - most: the share of one address.
    public func hasRoom(_ network: Network, of wide: Network?, atMost most: Int) -> Bool {
        guard count(of: network) < most else { return false }
        return wide.map { (self.wide[$0] ?? 0) < NetworkShare.ofWide(most) } ?? true
    }

    public mutating func add(_ network: Network, of wide: Network?) {
        near[network, default: 0] += 1
        if let wide { self.wide[wide, default: 0] += 1 }
    }

    /// Nothing happens to an address that has none.
    public mutating func remove(_ network: Network, of wide: Network?) {
        guard let count = near[network] else { return }
        near[network] = count > 1 ? count - 1 : nil
        if let wide, let all = self.wide[wide] { self.wide[wide] = all > 1 ? all - 1 : nil }
    }
}

public enum NetworkShare {
    /// Shares of an address that an IPv6 network of 48 bits has.
    public static let wideTimes = 4

    /// The network of 48 bits of a network of 64, written as `0123456789abcdef/64` (`NetworkAddress.network(of:)`); nil for IPv4.
    public static func wide(of network: String) -> String? {
        network.hasSuffix("/64") && network.utf8.count == 19 ? network.prefix(12) + "/48" : nil
    }

    /// What such a network may have.
    public static func ofWide(_ each: Int) -> Int {
        let (most, isTooMuch) = each.multipliedReportingOverflow(by: wideTimes)
        return isTooMuch ? .max : most
    }
}
