import DispatchNet
import Scheduling
import Synchronization

/// Counts pending account requests, in all and per network, so that one network cannot occupy all of them. From any thread.
final class AccountRequests: Sendable {
    private struct Counts {
        var all = 0
        var networks = NetworkCounts<String>()
    }

    private let most: Int
    private let mostOfNetwork: Int
    private let counts = Mutex(Counts())

    init(most: Int, ofNetwork mostOfNetwork: Int) { (self.most, self.mostOfNetwork) = (most, mostOfNetwork) }

    /// Admits a request if both counts allow it. Each admitted request must `leave`.
    func enter(_ peer: String) -> Bool {
        let network = NetworkAddress.network(of: peer)
        return counts.withLock { counts in
            let wide = NetworkShare.wide(of: network)
            guard counts.all < most, counts.networks.hasRoom(network, of: wide, atMost: mostOfNetwork) else { return false }
            counts.all += 1
            counts.networks.add(network, of: wide)
            return true
        }
    }

    func leave(_ peer: String) {
        let network = NetworkAddress.network(of: peer)
        counts.withLock { counts in
            guard counts.networks.count(of: network) > 0 else { return }
            counts.all -= 1
            counts.networks.remove(network, of: NetworkShare.wide(of: network))
        }
    }
}
