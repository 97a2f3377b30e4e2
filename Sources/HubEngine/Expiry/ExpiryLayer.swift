import HeapModule
import JSONTree

/// Nodes by check time: a part of an `ExpiryIndex`, in shards, so that no single step grows with the number of nodes.
struct ExpiryLayer: Sendable {
    private struct Shard {
        /// The check time of each node. Heap entries with another time are stale.
        var times: [ExpiryPlace: Int64] = [:]
        var heap = Heap<ExpiryEntry>()
        /// The earliest entry, if known. Finding it skips stale heap entries.
        private var head: ExpiryEntry??

        var first: ExpiryEntry? {
            mutating get {
                if let head { return head }
                while let first = heap.min, times[first.place] != first.time { heap.removeMin() }
                head = .some(heap.min)
                return heap.min
            }
        }

        /// - Returns: change in the number of nodes.
        mutating func set(_ place: ExpiryPlace, _ time: Int64?) -> Int {
            guard let time else {
                guard times.removeValue(forKey: place) != nil else { return 0 }
                if let known = head, known?.place == place { head = nil }
                compact()
                return -1
            }
            let isNew = times.updateValue(time, forKey: place) == nil
            let entry = ExpiryEntry(time: time, place: place)
            if !isNew { head = nil } else if case .some(let known) = head, known.map({ entry < $0 }) ?? true { head = .some(entry) }
            heap.insert(entry)
            compact()
            return isNew ? 1 : 0
        }

        /// Stale entries stay until their time comes, or until they outnumber the others.
        private mutating func compact() {
            guard heap.count > 2 * times.count + 64 else { return }
            heap = Heap(times.map { ExpiryEntry(time: $1, place: $0) })
        }

        var last: ExpiryEntry? {
            mutating get {
                while let last = heap.max, times[last.place] != last.time { heap.removeMax() }
                return heap.max
            }
        }
    }

    private var shards = [Shard](repeating: Shard(), count: 64)

    /// Shard sizes differ on purpose: they grow from the first to the last up to a factor of two, roughly like `log2(1 + hash)`. So each
    /// shard reallocates at another time, not all of them in one commit of many nodes.
    private static func shard(of place: ExpiryPlace) -> Int {
        let part = place.hash &>> 24 & 0xFFFF
        return (part &* 64 &+ (part &* (0x1_0000 &- part)) &>> 16 &* 22) &>> 16
    }

    /// Number of nodes.
    private(set) var count = 0

    func time(of place: ExpiryPlace) -> Int64? { shards[Self.shard(of: place)].times[place] }

    /// - Parameter time: nil removes the node.
    mutating func set(_ place: ExpiryPlace, _ time: Int64?) {
        count += shards[Self.shard(of: place)].set(place, time)
    }

    var first: ExpiryEntry? {
        mutating get {
            var first: ExpiryEntry?
            for i in shards.indices {
                if let entry = shards[i].first, first.map({ entry < $0 }) ?? true { first = entry }
            }
            return first
        }
    }

    var last: ExpiryEntry? {
        mutating get {
            var last: ExpiryEntry?
            for i in shards.indices {
                if let entry = shards[i].last, last.map({ $0 < entry }) ?? true { last = entry }
            }
            return last
        }
    }

    /// All entries, unordered. O(n)
    var entries: [ExpiryEntry] { shards.flatMap { $0.times.map { ExpiryEntry(time: $1, place: $0) } } }
}
