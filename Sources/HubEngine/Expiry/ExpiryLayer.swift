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

        mutating func set(_ place: ExpiryPlace, _ time: Int64?) {
            if let known = head, known?.place == place || time != nil { head = nil }
            times[place] = time
            if let time { heap.insert(ExpiryEntry(time: time, place: place)) }
            compact()
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
    /// How many nodes there are.
    private(set) var count = 0

    func time(of place: ExpiryPlace) -> Int64? { shards[place.hash & 63].times[place] }

    /// - Parameter time: nil takes it out.
    mutating func set(_ place: ExpiryPlace, _ time: Int64?) {
        let i = place.hash & 63
        let isKnown = shards[i].times[place] != nil
        if time == nil, !isKnown { return }
        count += (time == nil ? 0 : 1) - (isKnown ? 1 : 0)
        shards[i].set(place, time)
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
