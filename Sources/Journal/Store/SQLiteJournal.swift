import Dispatch

/// The journal of one namespace in a data folder; see `JournalStore` for the tables and the queue.
public final class SQLiteJournal: Journal {
    public let namespace: String
    private let store: JournalStore

    init(store: JournalStore, namespace: String) {
        self.store = store
        self.namespace = namespace
    }

    public func append(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        store.enqueue(Waiting.Item(namespace: namespace, work: .append(batch), completion: completion))
    }

    /// Stores operations beside the log, in slices between which others are stored, so that the batch that has them later takes
    /// no longer than a small one. They become part of the log with that batch (`JournalBatch.staged`); let go of without one,
    /// they are removed, as after a kill.
    /// - Parameter completion: called once, on the journal's queue or, when the store was closed meanwhile, on another.
    public func stage(
        _ operations: [JournalOperation], completion: @escaping @Sendable (Result<JournalStage, JournalError>) -> Void
    ) {
        store.afterCommits { [store] in store.stage(operations[...], isOfBatch: false, completion) }
    }

    /// Bytes of operations from which on it is worth it to stage them.
    public var stagedBytes: Int { store.settings.stagedBytes }

    @discardableResult
    public func tail(from position: UInt64, _ receive: @escaping @Sendable (TailEvent) -> Void) -> JournalTail {
        store.tail(namespace, from: position, receive)
    }

    /// At most what a snapshot holds; a snapshot does this by itself, a moment later.
    public func truncate(upTo sequence: UInt64, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        store.enqueue(Waiting.Item(namespace: namespace, work: .truncate(upTo: sequence), completion: completion))
    }

    public func close(completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        store.enqueue(Waiting.Item(namespace: namespace, work: .close, completion: completion))
    }

    /// Stores a tree, so that the next start reads it and need not replay what led to it. Commits go on meanwhile; only what
    /// has changed since the last snapshot is written, and that one holds until the new one is complete.
    /// - Parameters:
    ///   - snapshot: the tree after the last batch that was appended before this call; else the end is `.conflict`.
    ///   - completion: called once, on the journal's queue; success means that the snapshot has taken the old one's place.
    public func store(_ snapshot: JournalSnapshot, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        store.enqueue(Waiting.Item(namespace: namespace, work: .snapshot(snapshot), completion: completion))
    }

    /// Says who has the tree. `ask` is called whenever the log has grown so far that a snapshot is due, and is expected to
    /// call `store(_:completion:)` soon.
    /// - Parameter ask: called on the journal's queue.
    public func whenSnapshotDue(_ ask: @escaping @Sendable () -> Void) {
        store.queue.async { [store, namespace] in
            let state = store.state(of: namespace)
            state.whenDue = ask
            store.askForSnapshotIfDue(state)
        }
    }
}
