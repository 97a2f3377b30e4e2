import HeapModule
import JSONTree

/// The nodes that are to end by time, by the time at which each is to be looked at: never later than it is due, perhaps earlier. So a node
/// that is written again and again, each time due later, costs nothing here until its first time comes.
///
/// In shards, so that nothing that is done at once grows with the number of nodes. A value; O(log n) for all.
struct ExpiryIndex: Sendable {
    private struct Entry: Comparable {
        let time: Int64
        let path: Path

        static func == (a: Entry, b: Entry) -> Bool { a.time == b.time && a.path == b.path }
        static func < (a: Entry, b: Entry) -> Bool { a.time != b.time ? a.time < b.time : a.path < b.path }
    }

    private struct Shard {
        /// The time of each node. Entries of the heap with another are out of date.
        var times: [Path: Int64] = [:]
        var heap = Heap<Entry>()
        /// The earliest, as long as it is known: finding it out takes a look at the times.
        private var head: Entry??

        var first: Entry? {
            mutating get {
                if let head { return head }
                while let first = heap.min, times[first.path] != first.time { heap.removeMin() }
                head = .some(heap.min)
                return heap.min
            }
        }

        mutating func set(_ path: Path, _ time: Int64?) {
            if let known = head, known?.path == path || time != nil { head = nil }
            times[path] = time
            if let time { heap.insert(Entry(time: time, path: path)) }
            compact()
        }

        /// Entries that are out of date stay until their time comes, or there are more of them than of others.
        private mutating func compact() {
            guard heap.count > 2 * times.count + 64 else { return }
            heap = Heap(times.map { Entry(time: $1, path: $0) })
        }

        var last: Entry? {
            mutating get {
                while let last = heap.max, times[last.path] != last.time { heap.removeMax() }
                return heap.max
            }
        }
    }

    private var shards = [Shard](repeating: Shard(), count: 64)
    private let most: Int
    /// How many nodes there are.
    private(set) var count = 0
    /// Nodes that are due from then on may be missing, as there are more than may be kept: they are to be looked for before.
    private(set) var horizon = Int64.max

    /// - Parameter most: nodes that are kept, the earliest.
    init(most: Int) { self.most = most }

    /// A node is to be looked at by a time; nil: not at all.
    mutating func set(_ path: Path, _ time: Int64?) {
        let i = path.hashValue & 63
        guard let time else {
            guard shards[i].times[path] != nil else { return }
            count -= 1
            return shards[i].set(path, nil)
        }
        if let known = shards[i].times[path] {
            if known <= time { return }
        } else {
            if time >= horizon { return }
            count += 1
        }
        shards[i].set(path, time)
        if count > most { removeLast() }
    }

    private mutating func removeLast() {
        var last: (entry: Entry, shard: Int)?
        for i in shards.indices {
            guard let entry = shards[i].last, last.map({ $0.entry < entry }) ?? true else { continue }
            last = (entry, i)
        }
        guard let (entry, i) = last else { return }
        shards[i].set(entry.path, nil)
        count -= 1
        horizon = min(horizon, entry.time)
    }

    /// Whether a node is to be looked at by a time, or may be missing.
    func waits(_ path: Path, by time: Int64) -> Bool {
        shards[path.hashValue & 63].times[path].map { $0 <= time } ?? (horizon <= time)
    }

    /// When the next node is to be looked at, or those beyond the horizon.
    var next: Int64? {
        mutating get {
            var next = horizon
            for i in shards.indices { if let first = shards[i].first { next = min(next, first.time) } }
            return next == .max ? nil : next
        }
    }

    /// Takes the first node out, if its time has come.
    mutating func pop(by now: Int64) -> (path: Path, time: Int64)? {
        var first: (entry: Entry, shard: Int)?
        for i in shards.indices {
            guard let entry = shards[i].first, entry.time <= now, first.map({ entry < $0.entry }) ?? true else { continue }
            first = (entry, i)
        }
        guard let (entry, i) = first else { return nil }
        shards[i].set(entry.path, nil)
        count -= 1
        return (entry.path, entry.time)
    }

    /// All nodes are looked for.
    mutating func forgetHorizon() { horizon = .max }
}
