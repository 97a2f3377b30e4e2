import DispatchNet
import HubEngine
import Synchronization

/// What the process may hold for its clients, and what each network address has of it. From any thread.
///
/// ```
/// budget (ServerLimits.memoryBytes) ─┬─ share of an address (addressMemoryBytes) ─┬─ lease: a message that comes in
///                                    ├─ share of another one                      ├─ lease: values that are made of it
///                                    └─ share of this machine: all of it          └─ …
/// ```
final class ServerMemory: Sendable {
    let budget: MemoryBudget
    /// Old content that transfers hold.
    let pinned: PinnedVersions
    /// Bytes that one address may have.
    let addressBytes: Int
    private let countsLoopback: Bool
    /// What this machine's own addresses have: its proxies, tools and tests.
    private let own: MemoryShare
    private let book = Mutex(Book())

    private struct Book {
        var shares: [SocketAddress: MemoryShare] = [:]
        /// Shares that nobody holds are forgotten when there are this many.
        var sweepAt = 1024

        /// A lease holds its share: what only the book has holds nothing.
        mutating func sweep() {
            for network in Array(shares.keys) {
                guard var share = shares.removeValue(forKey: network) else { continue }
                if !isKnownUniquelyReferenced(&share) { shares[network] = share }
            }
            sweepAt = max(1024, shares.count * 2)
        }
    }

    init(_ limits: ServerLimits) {
        budget = MemoryBudget(limits.memoryBytes)
        pinned = PinnedVersions(budget)
        addressBytes = limits.addressMemoryBytes > 0 ? limits.addressMemoryBytes : limits.memoryBytes / 2
        countsLoopback = limits.admission.countsLoopback
        own = MemoryShare(of: budget)
    }

    /// What an address has: an IPv4 address, or an IPv6 network of 64 bits.
    func share(of address: SocketAddress) -> MemoryShare {
        if address.isLoopback, !countsLoopback { return own }
        let network = address.network
        return book.withLock { book in
            if let share = book.shares[network] { return share }
            if book.shares.count >= book.sweepAt { book.sweep() }
            let share = MemoryShare(of: budget, limit: addressBytes)
            book.shares[network] = share
            return share
        }
    }

    /// A lease of an address' share that holds nothing yet.
    func lease(of address: SocketAddress, for purpose: MemoryBudget.Purpose) -> MemoryLease {
        MemoryLease(share(of: address), for: purpose)
    }

    /// Addresses that are remembered.
    var known: Int { book.withLock { $0.shares.count } }
}

/// What a connection holds of what has not come whole. Small things cost a comparison.
struct IncomingBytes {
    private(set) var lease: MemoryLease?

    /// Bytes that nobody is asked for.
    static let freeBytes = 16 << 10

    /// The connection holds so many bytes now. Nil for fine, else why it may not.
    @inline(__always)
    mutating func become(_ bytes: Int, _ memory: ServerMemory, _ address: @autoclosure () -> SocketAddress) -> MemoryShare.Refusal? {
        if lease == nil, bytes <= Self.freeBytes { return nil }
        return tell(bytes, memory, address())
    }

    @inline(never)
    private mutating func tell(_ bytes: Int, _ memory: ServerMemory, _ address: SocketAddress) -> MemoryShare.Refusal? {
        guard bytes > 0 else {
            lease = nil
            return nil
        }
        let lease = lease ?? memory.lease(of: address, for: .incoming)
        self.lease = lease
        return lease.become(bytes) ? nil : lease.refusal ?? .process
    }

    /// All that is held goes on to somebody else.
    mutating func take() -> MemoryLease? {
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
    /// Whether clients hold so many bytes less than at their most since this was last true (``ServerLimits/memoryBytes``). From
    /// any thread.
    public func takeFallOfMemory(over bytes: Int) -> Bool { memory.budget.takeFall(over: bytes) }
}
