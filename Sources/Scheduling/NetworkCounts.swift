/// Number of items per client network in a shared table. An address (IPv4, or a /64 network of IPv6) has its share, and a /48 network of
/// IPv6 has `wideTimes` that share. A provider's customer may have 65,536 /64 networks, so a share per /64 alone is no limit. Each call is
/// O(1).
public struct NetworkCounts<Network: Hashable & Sendable>: Sendable {
    private var near: [Network: Int] = [:]
    private var wide: [Network: Int] = [:]

    public init() {}

    /// Items of one address.
    public func count(of network: Network) -> Int { near[network] ?? 0 }

    /// Whether an address may have one more.
    /// - Parameters:
    ///   - wide: its /48 network; nil for IPv4.
    ///   - most: the share of one address.
    public func hasRoom(_ network: Network, of wide: Network?, atMost most: Int) -> Bool {
        guard count(of: network) < most else { return false }
        return wide.map { (self.wide[$0] ?? 0) < NetworkShare.ofWide(most) } ?? true
    }

    public mutating func add(_ network: Network, of wide: Network?) {
        near[network, default: 0] += 1
        if let wide { self.wide[wide, default: 0] += 1 }
    }

    /// Does nothing for an address without items.
    public mutating func remove(_ network: Network, of wide: Network?) {
        guard let count = near[network] else { return }
        near[network] = count > 1 ? count - 1 : nil
        if let wide, let all = self.wide[wide] { self.wide[wide] = all > 1 ? all - 1 : nil }
    }
}

public enum NetworkShare {
    /// Shares of an address that a /48 IPv6 network has.
    public static let wideTimes = 4

    /// The /48 network of a /64 network, written as `0123456789abcdef/64` (`NetworkAddress.network(of:)`); nil for IPv4.
    public static func wide(of network: String) -> String? {
        network.hasSuffix("/64") && network.utf8.count == 19 ? network.prefix(12) + "/48" : nil
    }

    /// The share of such a network.
    public static func ofWide(_ each: Int) -> Int {
        let (most, isTooMuch) = each.multipliedReportingOverflow(by: wideTimes)
        return isTooMuch ? .max : most
    }
}
