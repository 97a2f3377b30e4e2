import DequeModule

/// Items that were dequeued but not stored yet. Nearly always empty, as a transaction takes all items. The rest is kept
/// by lanes, so that a transaction checks only the first item of each lane and those it takes, however long the lanes are.
struct PendingItems {
    /// The latest items in order of arrival, not yet sorted into lanes.
    private var arrived: [Waiting.Item] = []
    private var lanes: [String: Deque<Waiting.Item>] = [:]
    /// Non-empty lanes; recently served ones come last.
    private var order: [String] = []
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    mutating func add(_ items: [Waiting.Item]) {
        if arrived.isEmpty { arrived = items } else { arrived += items }
        count += items.count
    }

    /// Takes all items, in order of arrival, if they fit one transaction.
    mutating func takeAll(within bytes: Int) -> [Waiting.Item]? {
        var room = bytes
        guard order.isEmpty, arrived.allSatisfy({ !$0.work.needsOwnTransaction && $0.takes(from: &room) }) else { return nil }
        defer { (arrived, count) = ([], 0) }
        return arrived
    }

    enum Verdict {
        /// Take it, then ask about the next item of its lane.
        case take
        /// Take it; the items behind it in its lane wait.
        case takeLast
        /// It waits, with the items behind it in its lane.
        case leave
    }

    /// Asks about the first item of each lane, and about further ones while they are taken. Lanes that were served move behind the
    /// others.
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
