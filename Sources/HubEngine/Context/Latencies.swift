import Synchronization

/// Latency histograms of requests, by kind, and of the journal, with fixed bounds. A batch adds to each kind once, however many requests of
/// it there were.
public final class Latencies: Sendable {
    public enum Kind: Int, CaseIterable, Sendable {
        /// Gets and REST reads: until carried out.
        case read
        /// Listens: until the first content was sent.
        case observe
        /// Writes, onDisconnect writes included: until durable.
        case write
        /// All others: sessions, credentials, ends of listens.
        case other
        /// From handing a batch to the journal until it was durable.
        case journal
    }

    /// Upper bounds in ns; one more bucket counts all that took longer.
    public static let bounds: [Int64] = [
        100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 25_000_000, 50_000_000, 100_000_000, 250_000_000,
        500_000_000, 1_000_000_000, 2_500_000_000, 10_000_000_000,
    ]

    /// The counts of one kind.
    public struct Reading: Sendable {
        /// The bucket `i` counts what took at most `bounds[i]` and more than the bound before; the last counts all above.
        public internal(set) var counts = [Int](repeating: 0, count: Latencies.bounds.count + 1)
        public internal(set) var totalNs: Int64 = 0
    }

    private let readings = Mutex(Kind.allCases.map { _ in Reading() })

    /// Adds `count` requests of a kind with this latency. From any thread; no allocation. O(bounds)
    func add(_ count: Int, _ kind: Kind, ns: Int64) {
        var index = 0
        while index < Self.bounds.count, ns > Self.bounds[index] { index += 1 }
        readings.withLock { readings in
            readings[kind.rawValue].counts[index] &+= count
            readings[kind.rawValue].totalNs &+= ns &* Int64(count)
        }
    }

    /// The current counts. From any thread.
    public func reading(_ kind: Kind) -> Reading { readings.withLock { $0[kind.rawValue] } }
}

/// The requests of a batch by kind, and when the oldest of them came.
struct RequestTally {
    private(set) var since = Int64.max
    private(set) var reads = 0
    private(set) var observes = 0
    private(set) var writes = 0
    private(set) var others = 0

    /// - Parameter since: when the request came, steady ns; 0 when unknown.
    mutating func count(_ request: Request, since: Int64) {
        if since < self.since, since > 0 { self.since = since }
        switch request {
        case .get, .count: reads &+= 1
        case .explained(let asked): count(asked, since: since)
        case .exchange(let exchange):
            switch exchange.work {
            case .read, .count: reads &+= 1
            case .write, .push: writes &+= 1
            }
        case .observe: observes &+= 1
        case .write, .push, .onDisconnect, .cancelOnDisconnect, .system, .accountData: writes &+= 1
        default: others &+= 1
        }
    }

    /// Adds the requests that do not wait for the journal.
    func addCarriedOut(to latencies: Latencies, now: Int64) {
        guard since < .max else { return }
        if reads > 0 { latencies.add(reads, .read, ns: now - since) }
        if observes > 0 { latencies.add(observes, .observe, ns: now - since) }
        if others > 0 { latencies.add(others, .other, ns: now - since) }
    }

    func addWrites(to latencies: Latencies, now: Int64) {
        if writes > 0, since < .max { latencies.add(writes, .write, ns: now - since) }
    }
}
