/// A hub's settings for its cluster.
public struct ClusterSettings: Sendable {
    /// Distinguishes this cluster's logs from those of other clusters on the same servers: letters, digits, `-` and `_`.
    public var name: String
    /// A fixed directory of hubs and writers, for tests; nil: the hubs find out by themselves.
    package var hubs: HubDirectory?
    /// The address under which other hubs show this one to administrators; nil uses the one of `JournalStorage.announceAddress`.
    public var address: String?
    /// Interval between heartbeats to the other hubs, and the silence after which a hub counts as lost.
    package var heartbeatMs: Int64 = 250
    package var deadAfterMs: Int64 = 1_500
    /// Time for which a hub does not write a shard after another hub has superseded it.
    package var cooldownMs: Int64 = 5_000
    /// Time for which a hub must be ready before the current writer yields to it.
    package var yieldAfterMs: Int64 = 2_000
    /// Number of logs into which the namespaces are divided. The same on all hubs, and constant for the cluster's lifetime.
    package var shards = 16
    /// Number of servers that keep each log.
    package var replicas = 3
    /// Maximum bytes of one message of a log; a larger commit is split. At most the servers' limit (`max_payload`, 1 MiB by default).
    package var messageBytes = 1 << 20
    /// Time after which a write that no server accepts is refused. Longer than the servers need to elect a leader (5–10 s).
    package var appendMs: Int64 = 15_000
    /// Timeout of one attempt within that time.
    package var attemptMs: Int64 = 2_000
    /// Time after which a change of accounts, rules or secrets that no server accepts is refused. Their queues wait that long, once, until the
    /// servers answer again.
    package var sharedAppendMs: Int64 = 2_000
    /// Timeout at the start for receiving the log of settings.
    package var openMs = 60_000
    /// Interval between checks that the log is still the one that was followed.
    package var checkIntervalMs: Int64 = 2_000
    /// Time for which the servers must report fewer messages than were received, before this hub believes it.
    package var regressionPatienceMs: Int64 = 10_000
    /// Bytes of a log that are kept although a snapshot and all hubs have them, so that a hub that was away for a while finds the rest. A
    /// snapshot is due when that many more bytes have arrived, or half of the previous snapshot's bytes if that is more.
    package var keptBytes: UInt64 = 64 << 20
    /// Pause after a snapshot that could not be written.
    var snapshotRetryMs: Int64 = 60_000
    /// Time that opening a namespace waits for news of its log.
    package var openTimeoutMs: Int64 = 2_000
    /// Bytes at which a record takes no further batch.
    var recordBytes = 256 << 10
    /// Records that local journals have not stored yet, above which nothing more is appended or received.
    var recordsApplied = 64
    /// Interval between checks for batches that wait too long.
    var sweepMs: Int64 = 250
    /// Interval between attempts to open a log.
    var retryMs: Int64 = 200
    /// Interval between attempts to store locally what the local disk has refused.
    var localRetryMs: Int64 = 1_000

    /// Maximum time for which local stores pause for a follower's snapshot.
    var quiesceMs: Int64 = 5_000

    public init(name: String) { self.name = name }

    var log: ShardLog.Settings {
        var log = ShardLog.Settings()
        (log.replicas, log.messageBytes, log.appendMs, log.attemptMs) = (replicas, messageBytes, appendMs, attemptMs)
        return log
    }

    var election: ShardElection.Settings { ShardElection.Settings(cooldownMs: cooldownMs, yieldAfterMs: yieldAfterMs) }

    func logName(_ shard: Int) -> String { "VIGLA_\(name)_\(shard)" }
    func snapshotName(_ shard: Int) -> String { logName(shard) + "_snapshot" }
    /// Name of the log of accounts, or of rules, secrets and other settings.
    func sharedLogName(_ content: String) -> String { "VIGLA_\(name)_\(content)" }
}
