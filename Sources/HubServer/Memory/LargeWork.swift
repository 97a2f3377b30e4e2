import DequeModule
import Dispatch
import DispatchNet
import Glibc
import Synchronization

/// Work whose cost grows with the size of a message or response: parsing, hashing, encoding. It runs off the net loops, on a few
/// threads, scheduled round robin over addresses, so that one address cannot occupy all of them.
///
///     run(of: a) ─► a: ▮▮▮▮▮ ─┐
///     run(of: b) ─► b: ▮      ├─ round robin, at most `ofAddress` of each ─► `threads` at once
final class LargeWork: Sendable {
    private typealias Job = @Sendable () -> Void

    private struct AddressJobs {
        /// Jobs in order of arrival. A running job is not in the list: it retains a message and its part of the budget.
        var jobs: Deque<Job> = []
        var running = 0
    }

    private struct State {
        var jobsByAddress: [SocketAddress: AddressJobs] = [:]
        /// Addresses with waiting jobs, in round-robin order.
        var turns: [SocketAddress] = []
        var running = 0
    }

    private let threads: Int
    private let ofAddress: Int
    private let countsLoopback: Bool
    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "vigla.large", qos: .utility, attributes: .concurrent)

    init(_ limits: ServerLimits) {
        threads = limits.largeRequests > 0 ? limits.largeRequests : max(2, sysconf(Int32(_SC_NPROCESSORS_ONLN)))
        ofAddress = limits.largeRequestsOfAddress > 0 ? limits.largeRequestsOfAddress : max(1, threads / 2)
        countsLoopback = limits.admission.countsLoopback
    }

    /// Queues work of an address. From any thread; the work runs on a worker thread.
    func run(of address: SocketAddress, _ work: @escaping @Sendable () -> Void) {
        // One network may use at most half of the threads. For this limit a customer's IPv6 network of 48 bits counts as one.
        let network = address.wideNetwork ?? address.network
        state.withLock { state in
            var own = state.jobsByAddress.removeValue(forKey: network) ?? AddressJobs()
            if own.jobs.isEmpty { state.turns.append(network) }
            own.jobs.append(work)
            state.jobsByAddress[network] = own
        }
        begin()
    }

    /// Numbers of running and of waiting jobs.
    var counts: (running: Int, waiting: Int) {
        state.withLock { state in (state.running, state.jobsByAddress.values.reduce(0) { $0 + $1.jobs.count }) }
    }

    private func begin() {
        while let (network, job) = next() {
            queue.async { [self] in
                job()
                done(network)
                begin()
            }
        }
    }

    private func next() -> (SocketAddress, Job)? {
        state.withLock { state in
            guard state.running < threads else { return nil }
            let isFree = { (network: SocketAddress) in
                !self.countsLoopback && network.isLoopback || (state.jobsByAddress[network]?.running ?? 0) < self.ofAddress
            }
            guard let index = state.turns.firstIndex(where: isFree) else { return nil }
            let network = state.turns.remove(at: index)
            guard var own = state.jobsByAddress.removeValue(forKey: network), let job = own.jobs.popFirst() else { return nil }
            own.running += 1
            state.running += 1
            if !own.jobs.isEmpty { state.turns.append(network) }
            state.jobsByAddress[network] = own
            return (network, job)
        }
    }

    private func done(_ network: SocketAddress) {
        state.withLock { state in
            state.running -= 1
            guard var own = state.jobsByAddress.removeValue(forKey: network) else { return }
            own.running -= 1
            if own.running > 0 || !own.jobs.isEmpty { state.jobsByAddress[network] = own }
        }
    }
}
