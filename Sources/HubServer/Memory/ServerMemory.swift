import DispatchNet
import HubEngine
import Scheduling
import Synchronization

/// What clients may use for large messages: the memory budget of the process, and threads; each network address has a share of both. From
/// any thread.
///
/// ```
/// budget (ServerLimits.memoryBytes) ─┬─ share of an address (addressMemoryBytes) ─┬─ lease: an incoming message
///                                    ├─ share of another one                      ├─ lease: the values parsed from it
///                                    └─ share of this machine: all of it          └─ …
/// ```
final class ServerMemory: Sendable {
    let budget: MemoryBudget
    /// Worker threads for large messages, bodies and responses.
    let largeWork: LargeWork
    /// Old versions that pending responses retain.
    let pinned: PinnedVersions
    /// Limit of one address' share, in bytes.
    let addressBytes: Int
    /// The same limit for an IPv6 network of 48 bits.
    let wideBytes: Int
    private let countsLoopback: Bool
    /// The share of this machine's own addresses: its proxies, tools and tests.
    private let own: MemoryShare
    private let book = Mutex(Book())

    private struct Book {
        var shares: [SocketAddress: MemoryShare] = [:]
        /// Shares of IPv6 networks of 48 bits; the shares of their addresses reference them.
        var wide: [SocketAddress: MemoryShare] = [:]
        /// Number of shares at which those without a lease are removed.
        var sweepAt = 1024

        /// Removes shares that only this table references: a lease references its share.
        mutating func sweep() {
            Self.sweep(&shares)
            Self.sweep(&wide)
            sweepAt = max(1024, shares.count * 2)
        }

        private static func sweep(_ shares: inout [SocketAddress: MemoryShare]) {
            for network in Array(shares.keys) {
                guard var share = shares.removeValue(forKey: network) else { continue }
                if !isKnownUniquelyReferenced(&share) { shares[network] = share }
            }
        }

        mutating func wideShare(of network: SocketAddress, _ make: () -> MemoryShare) -> MemoryShare {
            if let known = wide[network] { return known }
            let made = make()
            wide[network] = made
            return made
        }
    }

    init(_ limits: ServerLimits) {
        budget = MemoryBudget(limits.memoryBytes)
        largeWork = LargeWork(limits)
        pinned = PinnedVersions(budget)
        addressBytes = limits.addressMemoryBytes > 0 ? limits.addressMemoryBytes : limits.memoryBytes / 2
        wideBytes = min(NetworkShare.ofWide(addressBytes), limits.memoryBytes - limits.memoryBytes / 4)
        countsLoopback = limits.admission.countsLoopback
        own = MemoryShare(of: budget)
    }

    /// The share of an address: an IPv4 address, or an IPv6 network of 64 bits, within that of its network of 48 bits.
    func share(of address: SocketAddress) -> MemoryShare {
        if address.isLoopback, !countsLoopback { return own }
        let network = address.network
        return book.withLock { book in
            if let share = book.shares[network] { return share }
            if book.shares.count >= book.sweepAt { book.sweep() }
            let wide = address.wideNetwork.map { book.wideShare(of: $0) { MemoryShare(of: budget, limit: wideBytes) } }
            let share = MemoryShare(of: budget, limit: addressBytes, within: wide)
            book.shares[network] = share
            return share
        }
    }

    /// An empty lease of an address' share.
    func lease(of address: SocketAddress, for purpose: MemoryBudget.Purpose) -> MemoryLease {
        MemoryLease(share(of: address), for: purpose)
    }

    /// Number of shares in the table.
    var known: Int { book.withLock { $0.shares.count } }
}

/// A connection's lease for incomplete input. Up to 16 KiB no lease is created: the check is one comparison.
struct IncomingBytes {
    private(set) var lease: MemoryLease?

    /// Bytes that a connection may hold without a lease.
    static let freeBytes = 16 << 10

    /// Sets the number of bytes held. Nil on success, else the budget's refusal.
    @inline(__always)
    mutating func become(_ bytes: Int, _ memory: ServerMemory, _ address: @autoclosure () -> SocketAddress) -> MemoryShare.Refusal? {
        if lease == nil, bytes <= Self.freeBytes { return nil }
        return resize(bytes, memory, address())
    }

    @inline(never)
    private mutating func resize(_ bytes: Int, _ memory: ServerMemory, _ address: SocketAddress) -> MemoryShare.Refusal? {
        guard bytes > 0 else {
            lease = nil
            return nil
        }
        let lease = lease ?? memory.lease(of: address, for: .incoming)
        self.lease = lease
        return lease.become(bytes) ? nil : lease.refusal ?? .process
    }

    /// Moves the lease out, to the owner of the complete message.
    mutating func detachLease() -> MemoryLease? {
        defer { lease = nil }
        return lease
    }
}

extension MemoryShare.Refusal {
    /// For close frames and logs: at most 123 bytes.
    var text: String {
        switch self {
        case .process: "the hub's memory for messages under way (--memory-budget) is used up; try again later"
        case .share: "this address' part of the memory for messages under way is used up; try again later"
        }
    }
}

extension Server {
    /// Whether the bytes held for clients have fallen by `bytes` from their peak since this last returned true
    /// (``ServerLimits/memoryBytes``). From any thread.
    public func consumeMemoryFall(over bytes: Int) -> Bool { memory.budget.takeFall(over: bytes) }
}
