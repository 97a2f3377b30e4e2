/// A dictionary that moves few of its entries at once, however many it has: each of its shards grows by itself.
///
/// A value. To be changed where it lies: a change while another holds it, too, moves all entries.
struct Shards<Key: Hashable, Value> {
    private final class Storage {
        /// All entries while they are few, then none.
        var few: [Key: Value] = [:]
        var shards: [[Key: Value]] = []
        var count = 0
        var moved = 0
    }

    private var storage = Storage()

    /// Entries up to which there is one shard, and the number of them beyond: with 2,000,000 entries each has some 8,000, and growing takes
    /// it less than a millisecond.
    private static var few: Int { 4_096 }
    private static var shards: Int { 256 }

    var count: Int { storage.count }
    /// How often an entry was moved, as it has grown or was copied.
    var moved: Int { storage.moved }

    subscript(key: Key) -> Value? { storage.shards.isEmpty ? storage.few[key] : storage.shards[Self.shard(of: key)][key] }

    var keys: [Key] { storage.shards.isEmpty ? Array(storage.few.keys) : storage.shards.flatMap(\.keys) }
    var values: [Value] { storage.shards.isEmpty ? Array(storage.few.values) : storage.shards.flatMap(\.values) }

    /// Makes room for so many entries, if there are none yet: they are not moved then as it grows.
    func reserve(_ count: Int) {
        if storage.count == 0, storage.shards.isEmpty { storage.few.reserveCapacity(min(count, Self.few)) }
    }

    /// Lets `body` change the value of a key in place; nil for none.
    mutating func change(_ key: Key, _ body: (inout Value?) -> Void) {
        if !isKnownUniquelyReferenced(&storage) { copy() }
        if storage.shards.isEmpty, storage.count >= Self.few { divide() }
        if storage.shards.isEmpty {
            change(key, &storage.few, body)
        } else {
            change(key, &storage.shards[Self.shard(of: key)], body)
        }
    }

    private func change(_ key: Key, _ entries: inout [Key: Value], _ body: (inout Value?) -> Void) {
        let (before, capacity) = (entries.count, entries.capacity)
        body(&entries[key])
        storage.count += entries.count - before
        if entries.capacity > capacity { storage.moved += before }
    }

    private static func shard(of key: Key) -> Int { key.hashValue & (shards - 1) }

    private mutating func copy() {
        let copy = Storage()
        (copy.few, copy.shards, copy.count, copy.moved) = (storage.few, storage.shards, storage.count, storage.moved + storage.count)
        storage = copy
    }

    private func divide() {
        storage.shards = Array(repeating: [:], count: Self.shards)
        for (key, value) in storage.few { storage.shards[Self.shard(of: key)][key] = value }
        storage.moved += storage.few.count
        storage.few = [:]
    }
}
