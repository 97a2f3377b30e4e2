import JSONTree
import SecurityRules
import Synchronization

/// Bytes of events for observers, by the first key of their paths. At most `most` keys have a counter of their own.
public final class EventBytes: Sendable {
    /// Further keys are counted together, as the empty key.
    static let most = 100

    final class Counter: Sendable {
        let bytes = Atomic<Int>(0)
        func add(_ count: Int) { bytes.wrappingAdd(count, ordering: .relaxed) }
    }

    private let counters = Mutex<[String: Counter]>([:])

    /// The counter of a path; the caller keeps it, so that an event costs one addition.
    func counter(of path: Path) -> Counter {
        let name = path.isRoot ? "/" : "/" + path.keys[0].string
        return counters.withLock { counters in
            if let counter = counters[name] { return counter }
            let name = counters.count < Self.most ? name : ""
            if let counter = counters[name] { return counter }
            let counter = Counter()
            counters[name] = counter
            return counter
        }
    }

    /// Sorted by name. From any thread.
    public var reading: [(path: String, bytes: Int)] {
        counters.withLock { $0.map { ($0.key, $0.value.bytes.load(ordering: .relaxed)) } }.sorted { $0.0 < $1.0 }
    }
}

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
