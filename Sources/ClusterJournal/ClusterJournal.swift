import Dispatch
public import Journal
import Synchronization

/// The journal of one namespace in a cluster. A batch is durable when the cluster's log has acknowledged it and the local journal has stored it.
/// Batches of other hubs arrive through the log, go to the local journal and from there to the tails.
public final class ClusterJournal: Journal {
    public let namespace: String
    private let shard: Shard
    private let local: any Journal
    /// This hub's writer role; nil where no database uses the journal.
    private let writerRole: WriterRole?
    private let stages = Atomic<Int64>(0)

    init(_ namespace: String, _ shard: Shard, _ local: any Journal, _ writerRole: WriterRole?) {
        (self.namespace, self.shard, self.local, self.writerRole) = (namespace, shard, local, writerRole)
    }

    public var isImmediate: Bool { false }

    /// Fails with `.unavailable` when no server of the cluster accepts the batch in time, and with `.regressed` while the log is not the one
    /// that this hub has followed.
    public func append(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        shard.append(batch, namespace, completion)
    }

    /// Staging gains nothing: a batch goes to the log as a whole.
    public var stagedBytes: Int { .max }

    public func stage(_ operations: [JournalOperation], completion: @escaping @Sendable (Result<JournalStage, JournalError>) -> Void) {
        let number = stages.add(1, ordering: .relaxed).newValue
        shard.queue.async { [shard] in
            completion(shard.followState == .closed ? .failure(.closed) : .success(JournalStage(number: number, parts: 1, bytes: 0) { _ in }))
        }
    }

    @discardableResult
    public func tail(from position: UInt64, _ receive: @escaping @Sendable (TailEvent) -> Void) -> JournalTail {
        local.tail(from: position, receive)
    }

    public func store(_ snapshot: JournalSnapshot, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        shard.locally(namespace, completion) { [shard] in
            $0.store(snapshot, completion: $1)
            shard.resumeLocalStores()
        }
    }

    /// A follower is asked for its tree while nothing new is stored locally: the tree then matches the last stored batch, as a snapshot must.
    public func whenSnapshotDue(_ ask: @escaping @Sendable () -> Void) {
        local.whenSnapshotDue { [shard, writerRole] in writerRole.map { $0.role != .writing } == true ? shard.whenQuiesced(ask) : ask() }
    }

    /// Only in the local journal; the cluster's log is unchanged.
    public func truncate(upTo sequence: UInt64, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        shard.locally(namespace, completion) { $0.truncate(upTo: sequence, completion: $1) }
    }

    /// Closes one namespace; the shard continues for its others.
    public func close(completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        shard.locally(namespace, completion) { $0.close(completion: $1) }
    }
}
