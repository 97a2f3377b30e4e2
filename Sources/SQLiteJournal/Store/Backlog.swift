import DequeModule

/// Items that were taken from what waits and are not stored yet: nearly always none, as a transaction takes all. What is left over lies
/// by lanes, so that a transaction looks at the first of each lane and at what it takes, however much has collected behind.
struct Backlog {
    /// Came last, in order, and is in no lane yet.
    private var arrived: [Waiting.Item] = []
    private var lanes: [String: Deque<Waiting.Item>] = [:]
    /// The lanes that have items; those that were served last come last.
    private var order: [String] = []
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    mutating func add(_ items: [Waiting.Item]) {
        if arrived.isEmpty { arrived = items } else { arrived += items }
        count += items.count
    }

    /// Takes everything, in the order in which it came, if it fits one transaction.
    mutating func takeAll(within bytes: Int) -> [Waiting.Item]? {
        var room = bytes
        guard order.isEmpty, arrived.allSatisfy({ !$0.work.isAlone && $0.takes(from: &room) }) else { return nil }
        defer { (arrived, count) = ([], 0) }
        return arrived
    }

    enum Verdict {
        /// Goes now; the next of the lane is asked about.
        case take
        /// Goes now; what follows it in its lane waits.
        case takeLast
        /// Waits, with what follows it in its lane.
        case leave
    }

    /// Asks about the first item of each lane, and about further ones as far as they are taken. Lanes of which something was taken come
    /// behind the others then.
    mutating func serve(_ body: (_ item: Waiting.Item, _ lane: String, _ isServed: Bool) -> Verdict) {
        for item in arrived {
            let lane = item.lane
            if lanes[lane] == nil { order.append(lane) }
            lanes[lane, default: []].append(item)
        }
        arrived = []
        var (waiting, served): ([String], [String]) = ([], [])
        for lane in order {
            guard var items = lanes.removeValue(forKey: lane) else { continue }
            let before = items.count
            asking: while let item = items.first {
                let verdict = body(item, lane, items.count < before)
                if verdict == .leave { break asking }
                items.removeFirst()
                if verdict == .takeLast { break asking }
            }
            count -= before - items.count
            if items.isEmpty { continue }
            if items.count < before { served.append(lane) } else { waiting.append(lane) }
            lanes[lane] = items
        }
        order = waiting + served
    }

    /// For tests: all of them, those of a lane in order.
    var items: [Waiting.Item] { order.flatMap { lanes[$0] ?? [] } + arrived }
}
