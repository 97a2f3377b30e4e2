import JSONTree
import SecurityRules
import Synchronization

/// Refusals by the rules, by kind of request and nearest path in the rules file, such as `/users/$uid`. Costs nothing until a request is
/// refused. At most `most` paths have a counter of their own.
public final class RefusalCounts: Sendable {
    /// Further ones are counted together, as an empty path.
    static let most = 200

    struct Place: Hashable {
        let request: RuledRequest
        let pattern: String
    }

    private let counts = Mutex<[Place: Int]>([:])

    func add(_ request: RuledRequest, _ path: Path, _ rules: RuleSet) {
        let pattern = rules.nearestPlace(to: path).description
        counts.withLock { counts in
            var place = Place(request: request, pattern: pattern)
            if counts[place] == nil, counts.count >= Self.most { place = Place(request: request, pattern: "") }
            counts[place, default: 0] &+= 1
        }
    }

    /// Sorted by path. From any thread.
    public var reading: [(request: RuledRequest, pattern: String, count: Int)] {
        counts.withLock { $0.map { ($0.key.request, $0.key.pattern, $0.value) } }.sorted { ($0.1, $0.0.rawValue) < ($1.1, $1.0.rawValue) }
    }
}
