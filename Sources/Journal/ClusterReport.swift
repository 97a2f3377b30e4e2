/// What a hub knows of its cluster, for those who watch it.
public struct ClusterReport: Sendable {
    public struct Hub: Sendable {
        public var id: UInt64
        /// Where administrators find it; empty while that is not known.
        public var address: String
        /// When its process began, ms since the epoch.
        public var startedMs: Int64
        /// Whether it is the one that reports.
        public var isThis: Bool
        /// The newest applied message of each shard.
        public var applied: [UInt64]

        public init(id: UInt64, address: String, startedMs: Int64, isThis: Bool, applied: [UInt64]) {
            (self.id, self.address, self.startedMs, self.isThis, self.applied) = (id, address, startedMs, isThis, applied)
        }

        /// As it is shown and logged.
        public var name: String { String(id, radix: 16) }
    }

    /// How the hub stands to a shard's log.
    public enum Standing: String, Sendable, CaseIterable {
        case writer, follower
        /// It has not received or stored all that the log holds.
        case behind
        /// The servers cannot be asked, or the log is not the one that was followed.
        case cutOff = "cut_off"
    }

    public struct Shard: Sendable {
        public var standing: Standing
        /// The hub that writes it; nil while none is known.
        public var writer: UInt64?
        /// The newest message that the log is known to have, and the newest that this hub has applied.
        public var last: UInt64
        public var applied: UInt64
        /// The first message that the log still has, and the one up to which the newest snapshot of it goes; 0 where that is not known.
        public var first: UInt64 = 0
        public var snapshot: UInt64 = 0
        /// For how long it has been behind; 0 where it is not.
        public var lagMs: Int64

        public init(standing: Standing, writer: UInt64?, last: UInt64, applied: UInt64, lagMs: Int64) {
            (self.standing, self.writer, self.last, self.applied, self.lagMs) = (standing, writer, last, applied, lagMs)
        }
    }

    public var name: String
    public var hubs: [Hub]
    public var shards: [Shard]
    /// How often this hub began to write a shard, and was superseded.
    public var elections = 0
    public var superseded = 0
    /// Records of this hub that another hub's forestalled, and which were appended again.
    public var conflicts = 0
    /// How often a log was followed anew behind a hole, or because nothing came.
    public var retries = 0

    public init(name: String, hubs: [Hub], shards: [Shard]) { (self.name, self.hubs, self.shards) = (name, hubs, shards) }

    /// Messages that this hub has not applied, of the shard that lacks most.
    public var lag: UInt64 { shards.map { $0.last > $0.applied ? $0.last - $0.applied : 0 }.max() ?? 0 }
    public var lagMs: Int64 { shards.map(\.lagMs).max() ?? 0 }
}
