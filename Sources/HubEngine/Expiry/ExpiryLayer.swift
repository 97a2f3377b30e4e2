import HeapModule
import JSONTree

/// Nodes by the times at which they are to be looked at: a part of an `ExpiryIndex`, in shards, so that nothing that is done at once grows
/// with the number of nodes.
struct ExpiryLayer: Sendable {
    private struct Shard {
        /// The time of each node. Entries of the heap with another are out of date.
        var times: [ExpiryPlace: Int64] = [:]
        var heap = Heap<ExpiryEntry>()
        /// The earliest, as long as it is known: finding it out takes a look at the times.
        private var head: ExpiryEntry??

        var first: ExpiryEntry? {
            mutating get {
                if let head { return head }
                while let first = heap.min, times[first.place] != first.time { heap.removeMin() }
                head = .some(heap.min)
                return heap.min
            }
        }

        /// - Returns: how many nodes there are more.
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

        /// Entries that are out of date stay until their time comes, or there are more of them than of others.
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

    /// Their shares grow from one to the next, up to twice that of the first, about by `log2(1 + hash)`: so each has to make room for more
    /// at a time of its own, and not all of them in one commit of many nodes.
    private static func shard(of place: ExpiryPlace) -> Int {
        let part = place.hash &>> 24 & 0xFFFF
        return (part &* 64 &+ (part &* (0x1_0000 &- part)) &>> 16 &* 22) &>> 16
    }

    /// How many nodes there are.
    private(set) var count = 0

    func time(of place: ExpiryPlace) -> Int64? { shards[Self.shard(of: place)].times[place] }

    /// - Parameter time: nil takes it out.
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

    /// All of them, in no order. O(n)
    var entries: [ExpiryEntry] { shards.flatMap { $0.times.map { ExpiryEntry(time: $1, place: $0) } } }
}
