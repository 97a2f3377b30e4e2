internal import CLinux
internal import Scheduling
internal import Synchronization

/// The connection limits that all listeners of a server share. A new connection over one of them is closed immediately,
/// before it costs memory, and counted by its ``Refusal``; only a flood beyond ``AdmissionLimits/acceptsPerSecond`` waits in
/// the system's queue instead.
///
/// A peer's address is that of the TCP connection, so behind a proxy all clients have one address: raise
/// ``AdmissionLimits/connectionsPerAddress`` there, and limit clients in the proxy.
public final class Admission: Sendable {
    public let limits: AdmissionLimits
    private let book: Mutex<AdmissionBook>

    public init(_ limits: AdmissionLimits) {
        self.limits = limits
        book = Mutex(AdmissionBook(limits))
    }

    /// Connections that are open now. From any thread.
    public var connections: Int { book.withLock { $0.connections } }

    /// Number of refused connections by reason. From any thread.
    public var refusals: [Refusal: Int] { book.withLock { $0.refusals } }

    /// Nil to continue accepting, else the ms until the next connection may be accepted.
    func waitMs(nowNs: UInt64) -> Int? { book.withLock { $0.waitMs(nowNs: nowNs) } }

    /// Admits a connection, or returns the refusal. Each admitted one must `leave`.
    func admit(_ address: SocketAddress, nowNs: UInt64) -> Refusal? { book.withLock { $0.admit(address, nowNs: nowNs) } }

    func leave(_ address: SocketAddress) { book.withLock { $0.leave(address, nowNs: vigla_monotonic_ns()) } }

    func refuse(_ refusal: Refusal) { book.withLock { $0.refusals[refusal, default: 0] += 1 } }
}

/// Why a connection was closed as soon as it was accepted.
public enum Refusal: String, Sendable, CaseIterable {
    /// ``AdmissionLimits/connections`` are open.
    case total
    /// ``AdmissionLimits/connectionsPerAddress`` of the peer's address are open.
    case address
    /// The peer's address connects faster than ``AdmissionLimits/acceptsPerSecondPerAddress``.
    case addressRate = "address_rate"
    /// The process or the system has no descriptor left.
    case descriptors
}

/// How many connections may be open, and how fast new ones may come.
public struct AdmissionLimits: Sendable {
    /// Open connections of all addresses.
    package var connections = Int.max
    /// Open connections of one address: an IPv4 address, or an IPv6 network of 64 bits; one of 48 bits has four times as many.
    /// A household, a school or a mobile carrier's gateway is one address.
    package var connectionsPerAddress = 2_000
    /// New connections per second of all addresses; more wait in the system's queue.
    package var acceptsPerSecond = 10_000
    /// How many may come at once after a quiet time.
    package var acceptBurst = 10_000
    /// New connections per second of one address.
    package var acceptsPerSecondPerAddress = 100
    /// How many connections of one address may come at once after a quiet time.
    package var acceptBurstPerAddress = 2_000
    /// Whether the limits per address also apply to this machine's own addresses, which are its proxies, tools and tests.
    package var countsLoopback = false

    public init() {}
}

/// The state of an ``Admission``: a value type; callers pass the time.
struct AdmissionBook {

    private let limits: AdmissionLimits
    /// Rates of new connections, in all and per address; in ns.
    private let rate, rateOfAddress: TokenBucket.Rate
    private var bucket = TokenBucket(fullAt: 0)
    /// The buckets of new connections of each address.
    private var addresses: [SocketAddress: TokenBucket] = [:]
    private var open = NetworkCounts<SocketAddress>()
    /// Number of addresses at which those without a connection and with a full bucket are removed.
    private var sweepAt = 1024
    private(set) var connections = 0
    var refusals: [Refusal: Int] = [:]

    init(_ limits: AdmissionLimits) {
        self.limits = limits
        rate = TokenBucket.Rate(perSecond: limits.acceptsPerSecond, burst: limits.acceptBurst)
        rateOfAddress = TokenBucket.Rate(perSecond: limits.acceptsPerSecondPerAddress, burst: limits.acceptBurstPerAddress)
    }

    /// Number of addresses in the table.
    var known: Int { addresses.count }

    mutating func waitMs(nowNs: UInt64) -> Int? {
        let wait = bucket.wait(rate, now: Int64(nowNs))
        return wait == 0 ? nil : Int((wait + 999_999) / 1_000_000)
    }

    mutating func admit(_ address: SocketAddress, nowNs: UInt64) -> Refusal? {
        _ = bucket.admit(rate, now: Int64(nowNs))
        let refusal = check(address, nowNs)
        if let refusal { refusals[refusal, default: 0] += 1 } else { connections += 1 }
        return refusal
    }

    private mutating func check(_ address: SocketAddress, _ nowNs: UInt64) -> Refusal? {
        guard connections < limits.connections else { return .total }
        guard limits.countsLoopback || !address.isLoopback else { return nil }
        let network = address.network
        var bucket = addresses[network] ?? TokenBucket(fullAt: 0)
        defer { addresses[network] = bucket }
        guard open.hasRoom(network, of: address.wideNetwork, atMost: limits.connectionsPerAddress) else { return .address }
        guard bucket.admit(rateOfAddress, now: Int64(nowNs)) else { return .addressRate }
        open.add(network, of: address.wideNetwork)
        return nil
    }

    mutating func leave(_ address: SocketAddress, nowNs: UInt64) {
        connections -= 1
        guard limits.countsLoopback || !address.isLoopback else { return }
        open.remove(address.network, of: address.wideNetwork)
        guard addresses.count >= sweepAt else { return }
        addresses = addresses.filter { open.count(of: $0.key) > 0 || !$0.value.isFull(now: Int64(nowNs)) }
        sweepAt = max(1024, addresses.count * 2)
    }
}

extension TokenBucket.Rate {
    /// In nanoseconds.
    fileprivate init(perSecond: Int, burst: Int) {
        self.init(burst: Int64(burst), interval: 1_000_000_000 / Int64(max(1, perSecond)))
    }
}
