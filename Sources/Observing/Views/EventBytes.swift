package import JSONTree
package import Synchronization

/// Bytes of events for observers, by the first key of their paths. At most `most` keys have a counter of their own.
public final class EventBytes: Sendable {
    /// Further keys are counted together, as the empty key.
    package static let most = 100

    package final class Counter: Sendable {
        package let bytes = Atomic<Int>(0)
        package func add(_ count: Int) { bytes.wrappingAdd(count, ordering: .relaxed) }
    }

    private let counters = Mutex<[String: Counter]>([:])

    package init() {}

    /// The counter of a path; the caller keeps it, so that an event costs one addition.
    package func counter(of path: Path) -> Counter {
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
