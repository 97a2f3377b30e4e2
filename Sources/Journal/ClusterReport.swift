/// A hub's view of its cluster, for monitoring.
public struct ClusterReport: Sendable {
    public struct Hub: Sendable {
        public var id: UInt64
        /// Its address for administrators; empty while unknown.
        public var address: String
        /// When its process began, ms since the epoch.
        public var startedMs: Int64
        /// Whether it is the reporting hub.
        public var isThis: Bool
        /// The newest applied message of each shard.
        public var applied: [UInt64]

        public init(id: UInt64, address: String, startedMs: Int64, isThis: Bool, applied: [UInt64]) {
            (self.id, self.address, self.startedMs, self.isThis, self.applied) = (id, address, startedMs, isThis, applied)
        }

        /// The name in output and logs.
        public var name: String { String(id, radix: 16) }
    }

    /// The hub's role for a shard's log.
    public enum ShardRole: String, Sendable, CaseIterable {
        case writer, follower
        /// It has not received or stored everything in the log.
        case behind
        /// The log's servers cannot be reached, or the log is not the one that was followed.
        case cutOff = "cut_off"
    }

    public struct Shard: Sendable {
        public var role: ShardRole
        /// The current writer; nil while unknown.
        public var writer: UInt64?
        /// The newest message in the log as far as known, and the newest one applied by this hub.
        public var last: UInt64
        public var applied: UInt64
        /// The first message still in the log, and the last one covered by the newest snapshot; 0 when unknown.
        public var first: UInt64 = 0
        public var snapshot: UInt64 = 0
        /// For how long it has been behind; 0 if it is not.
        public var lagMs: Int64

        public init(role: ShardRole, writer: UInt64?, last: UInt64, applied: UInt64, lagMs: Int64) {
            (self.role, self.writer, self.last, self.applied, self.lagMs) = (role, writer, last, applied, lagMs)
        }
    }

    public var name: String
    public var hubs: [Hub]
    public var shards: [Shard]
    /// How often this hub became the writer of a shard, and was superseded.
    public var elections = 0
    public var superseded = 0
    /// Records of this hub that lost to another hub's record and were appended again.
    public var conflicts = 0
    /// How often following was restarted after a gap, or because no messages came.
    public var retries = 0

    public init(name: String, hubs: [Hub], shards: [Shard]) { (self.name, self.hubs, self.shards) = (name, hubs, shards) }

    /// Messages not applied by this hub, in the shard furthest behind.
    public var lag: UInt64 { shards.map { $0.last > $0.applied ? $0.last - $0.applied : 0 }.max() ?? 0 }
    public var lagMs: Int64 { shards.map(\.lagMs).max() ?? 0 }
}
