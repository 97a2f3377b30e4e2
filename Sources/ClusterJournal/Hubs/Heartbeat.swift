import Journal

/// A hub's heartbeat to all hubs of its cluster, several times a second.
///
///     "VHB1"  hub  started  bytes of the address  address  shards: flags, newest applied message …      numbers little-endian
struct Heartbeat: Equatable, Sendable {
    struct Shard: Equatable, Sendable {
        /// The hub has caught up with the log, and may write.
        var isReady = false
        var writes = false
        /// All messages up to this one are applied.
        var applied: UInt64 = 0
    }

    /// The hub's id, unique for each run of the process.
    var hub: UInt64
    /// When the process began, ms since the epoch.
    var startedMs: Int64
    /// The address that is shown to administrators; empty while unknown.
    var address: String
    var shards: [Shard]

    private static let magic: UInt32 = 0x3142_4856

    var encoded: [UInt8] {
        var bytes: [UInt8] = []
        let address = self.address.utf8.prefix(Int(UInt16.max))
        bytes.append(littleEndian: Self.magic)
        bytes.append(littleEndian: hub)
        bytes.append(littleEndian: startedMs)
        bytes.append(littleEndian: UInt16(address.count))
        bytes += address
        for shard in shards {
            bytes.append((shard.isReady ? 1 : 0) | (shard.writes ? 2 : 0))
            bytes.append(littleEndian: shard.applied)
        }
        return bytes
    }
}

extension Heartbeat {
    /// Nil for bytes that no hub has sent.
    init?(decoding bytes: [UInt8]) {
        let read = bytes.withUnsafeBytes { bytes -> Heartbeat? in
            var reader = ByteReader(bytes)
            guard reader.integer(UInt32.self) == Self.magic, let hub = reader.integer(UInt64.self),
                let started = reader.integer(Int64.self), let count = reader.integer(UInt16.self), let text = reader.bytes(Int(count))
            else { return nil }
            var shards: [Shard] = []
            while !reader.isAtEnd {
                guard let flags = reader.integer(UInt8.self), let applied = reader.integer(UInt64.self) else { return nil }
                shards.append(Shard(isReady: flags & 1 != 0, writes: flags & 2 != 0, applied: applied))
            }
            return Heartbeat(hub: hub, startedMs: started, address: String(decoding: text, as: UTF8.self), shards: shards)
        }
        guard let read else { return nil }
        self = read
    }
}

/// The hubs with a recent heartbeat. A pure value.
struct HubTable {
    struct Hub {
        var beat: Heartbeat
        var receivedMs: Int64
    }

    private(set) var hubs: [UInt64: Hub] = [:]

    /// Records a heartbeat. A heartbeat without shards means that the hub has ended.
    mutating func receive(_ beat: Heartbeat, nowMs: Int64) {
        hubs[beat.hub] = beat.shards.isEmpty ? nil : Hub(beat: beat, receivedMs: nowMs)
    }

    /// Removes and returns the hubs without a heartbeat since then.
    mutating func forget(before ms: Int64) -> [Hub] {
        let lost = hubs.values.filter { $0.receivedMs < ms }
        for hub in lost { hubs[hub.beat.hub] = nil }
        return lost
    }

    /// Call after this hub was suspended: missing heartbeats then say nothing about the others.
    mutating func wasAway(nowMs: Int64) { for id in hubs.keys { hubs[id]?.receivedMs = nowMs } }

    /// The other hubs' state for a shard.
    func peers(at shard: Int) -> [ShardElection.Peer] {
        hubs.values.compactMap { hub in
            guard shard < hub.beat.shards.count else { return nil }
            let said = hub.beat.shards[shard]
            return ShardElection.Peer(hub: hub.beat.hub, isReady: said.isReady, writes: said.writes)
        }
    }
}
