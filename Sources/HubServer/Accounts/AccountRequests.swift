import DispatchNet
import Synchronization

/// Requests to the accounts that are under way: how many in all, and of one network, so that no network takes all of them. From any thread.
final class AccountRequests: Sendable {
    private struct Counts {
        var all = 0
        var byNetwork: [String: Int] = [:]
    }

    private let most: Int
    private let mostOfNetwork: Int
    private let counts = Mutex(Counts())

    init(most: Int, ofNetwork mostOfNetwork: Int) { (self.most, self.mostOfNetwork) = (most, mostOfNetwork) }

    /// Counts a request in; what is let in must `leave`.
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
