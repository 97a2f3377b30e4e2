/// A dictionary that moves few of its entries at once, whatever its size: each shard grows by itself.
///
/// A value type. Change it in place: a change while a second reference exists copies all entries.
struct Shards<Key: Hashable, Value> {
    private final class Storage {
        /// All entries of a small dictionary; empty once there are shards.
        var few: [Key: Value] = [:]
        var shards: [[Key: Value]] = []
        var count = 0
        var moved = 0
    }

    private var storage = Storage()

    /// Most entries in a single shard, and the number of shards beyond. With 2,000,000 entries each shard has about 8,000, and growing one
    /// takes less than a millisecond.
    private static var few: Int { 4_096 }
    private static var shards: Int { 256 }

    var count: Int { storage.count }
    /// How many entries were moved by growth or copying.
    var moved: Int { storage.moved }

    subscript(key: Key) -> Value? { storage.shards.isEmpty ? storage.few[key] : storage.shards[Self.shard(of: key)][key] }

    var keys: [Key] { storage.shards.isEmpty ? Array(storage.few.keys) : storage.shards.flatMap(\.keys) }
    var values: [Value] { storage.shards.isEmpty ? Array(storage.few.values) : storage.shards.flatMap(\.values) }

    /// Reserves capacity in an empty dictionary, so that entries do not move as it grows.
    func reserve(_ count: Int) {
        if storage.count == 0, storage.shards.isEmpty { storage.few.reserveCapacity(min(count, Self.few)) }
    }

    /// Changes the value of a key in place; nil means no value.
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
