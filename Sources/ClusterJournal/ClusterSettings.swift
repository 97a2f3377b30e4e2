/// How a hub takes part in a cluster.
public struct ClusterSettings: Sendable {
    /// Tells the logs of this cluster from those of others on the same servers: letters, digits, `-` and `_`.
    public var name: String
    /// Who the hubs are and who of them writes, for tests; nil: they find out.
    package var hubs: HubDirectory?
    /// Where administrators find this hub, as the others show it; nil: where it says that it is shown (`JournalStorage.shown`).
    public var address: String?
    /// Between two signs of life to the other hubs, and the silence after which a hub counts as lost.
    public var beatMs: Int64 = 250
    public var lostMs: Int64 = 1_500
    /// For which a hub does not write a shard that another one has taken over.
    public var restMs: Int64 = 5_000
    /// For which a hub has to be ready before one that writes yields to it.
    public var preferMs: Int64 = 2_000
    /// Into how many logs the namespaces are divided. The same on all hubs, and for as long as the cluster exists.
    public var shards = 16
    /// On how many servers a log is kept.
    public var replicas = 3
    /// Most bytes of one message of a log; a larger commit is divided. At most what the servers take (`max_payload`, 1 MiB by default).
    public var messageBytes = 1 << 20
    /// After which a write that no server takes is refused. Longer than the servers need to elect a leader (5–10 s).
    public var appendMs: Int64 = 15_000
    /// For one attempt within that.
    public var attemptMs: Int64 = 2_000
    /// After which a change of accounts, rules or secrets that no server takes is refused: their queues wait so long, once, until the
    /// servers answer again.
    public var sharedAppendMs: Int64 = 2_000
    /// At the start, for what the log of settings holds.
    public var openMs = 60_000
    /// Between two looks at whether the log is still the one that was followed.
    public var lookMs: Int64 = 2_000
    /// For which the servers may say that they hold less of a log than was received, before that is believed.
    public var doubtMs: Int64 = 10_000
    /// Bytes of a log that stay in it behind what a snapshot and all hubs have, so that a hub that was away for a while finds the rest. A
    /// snapshot is made when so many more have come; of a shard whose snapshot has more than twice that, when half of its bytes have.
    public var keptBytes: UInt64 = 64 << 20
    /// After a snapshot that could not be written.
    var snapshotRetryMs: Int64 = 60_000
    /// For which a namespace that is to be read waits until something is heard of its log.
    public var openPatienceMs: Int64 = 2_000
    /// A record that has so many bytes takes no further batch along.
    var recordBytes = 256 << 10
    /// Records that local journals have not stored yet, above which nothing more is appended or received.
    var recordsApplied = 64
    /// Between two looks at what waits for too long.
    var sweepMs: Int64 = 250
    /// Between two attempts to open a log.
    var retryMs: Int64 = 200
    /// Between two attempts to store locally what the local disk has refused.
    var localRetryMs: Int64 = 1_000

    /// For a follower's snapshot, at most: so long nothing new is stored locally.
    var stillMs: Int64 = 5_000

    public init(name: String) { self.name = name }

    var log: ShardLog.Settings {
        var log = ShardLog.Settings()
        (log.replicas, log.messageBytes, log.appendMs, log.attemptMs) = (replicas, messageBytes, appendMs, attemptMs)
        return log
    }

    var election: ShardElection.Settings { ShardElection.Settings(restMs: restMs, preferMs: preferMs) }

    func logName(_ shard: Int) -> String { "VIGLA_\(name)_\(shard)" }
    func snapshotName(_ shard: Int) -> String { logName(shard) + "_snapshot" }
    /// Of the log of accounts, and of that of rules, secrets and other settings.
    func sharedLogName(_ content: String) -> String { "VIGLA_\(name)_\(content)" }
}
