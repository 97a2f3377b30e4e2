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

    private struct Line {
        /// Jobs in order of arrival. A running job is not in the list: it retains a message and its part of the budget.
        var jobs: Deque<Job> = []
        var running = 0
    }

    private struct State {
        var lines: [SocketAddress: Line] = [:]
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
            var line = state.lines.removeValue(forKey: network) ?? Line()
            if line.jobs.isEmpty { state.turns.append(network) }
            line.jobs.append(work)
            state.lines[network] = line
        }
        begin()
    }

    /// Numbers of running and of waiting jobs.
    var counts: (running: Int, waiting: Int) {
        state.withLock { state in (state.running, state.lines.values.reduce(0) { $0 + $1.jobs.count }) }
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
                !self.countsLoopback && network.isLoopback || (state.lines[network]?.running ?? 0) < self.ofAddress
            }
            guard let index = state.turns.firstIndex(where: isFree) else { return nil }
            let network = state.turns.remove(at: index)
            guard var line = state.lines.removeValue(forKey: network), let job = line.jobs.popFirst() else { return nil }
            line.running += 1
            state.running += 1
            if !line.jobs.isEmpty { state.turns.append(network) }
            state.lines[network] = line
            return (network, job)
        }
    }

    private func done(_ network: SocketAddress) {
        state.withLock { state in
            state.running -= 1
            guard var line = state.lines.removeValue(forKey: network) else { return }
            line.running -= 1
            if line.running > 0 || !line.jobs.isEmpty { state.lines[network] = line }
        }
    }
}
