import DispatchNet
import Synchronization

/// Counts the account requests under way, in all and per network, so that one network cannot occupy all of them. From any thread.
final class AccountRequests: Sendable {
    private struct Counts {
        var all = 0
        var byNetwork: [String: Int] = [:]
    }

    private let most: Int
    private let mostOfNetwork: Int
    private let counts = Mutex(Counts())

    init(most: Int, ofNetwork mostOfNetwork: Int) { (self.most, self.mostOfNetwork) = (most, mostOfNetwork) }

    /// Admits a request if both counts allow it. Each admitted request must `leave`.
    func enter(_ peer: String) -> Bool {
        let network = NetworkAddress.network(of: peer)
        return counts.withLock { counts in
            let own = counts.byNetwork[network] ?? 0
            guard counts.all < most, own < mostOfNetwork else { return false }
            counts.all += 1
            counts.byNetwork[network] = own + 1
            return true
        }
    }

    func leave(_ peer: String) {
        let network = NetworkAddress.network(of: peer)
        counts.withLock { counts in
            guard let own = counts.byNetwork[network] else { return }
            counts.all -= 1
            counts.byNetwork[network] = own > 1 ? own - 1 : nil
        }
    }
}
