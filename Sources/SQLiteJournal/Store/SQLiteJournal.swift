import Dispatch
public import Journal

/// The journal of one namespace in a data folder; see `JournalStore` for the tables and the queue.
public final class SQLiteJournal: Journal {
    public let namespace: String
    let store: JournalStore
    /// How often the namespace had been removed when it was opened.
    private let removals: Int

    init(store: JournalStore, namespace: String) {
        self.store = store
        self.namespace = namespace
        removals = store.journalQueue.removals(of: namespace)
    }

    private func enqueue(
        _ work: Waiting.Work, isHeld: Bool = false, _ completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
    ) {
        store.journalQueue.enqueue(
            Waiting.Item(namespace: namespace, work: work, removals: removals, completion: completion), isHeld: isHeld)
    }

    public var isImmediate: Bool { false }

    public func append(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        enqueue(.append(batch), completion)
    }

    public func hold(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        enqueue(.append(batch), isHeld: store.committer.mayHold(batch), completion)
    }

    public func commitHeld() { store.committer.commitHeld() }

    /// Stores the operations in slices, between which other commits run.
    /// - Parameter completion: called once, on the journal's queue or, when the store was closed meanwhile, on another.
    public func stage(
        _ operations: [JournalOperation], completion: @escaping @Sendable (Result<JournalStage, JournalError>) -> Void
    ) {
        store.journalQueue.run { [stages = store.stages] _ in stages.stage(operations[...], isOfBatch: false, completion) }
    }

    public var stagedBytes: Int { store.settings.stagedBytes }

    @discardableResult
    public func tail(from position: UInt64, _ receive: @escaping @Sendable (TailEvent) -> Void) -> JournalTail {
        store.tails.tail(namespace, from: position, receive)
    }

    /// Removes at most the batches that a snapshot contains; a snapshot does that by itself, a moment later.
    public func truncate(upTo sequence: UInt64, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        enqueue(.truncate(upTo: sequence), completion)
    }

    public func close(completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        enqueue(.close, completion)
    }

    /// Writes only the changes since the last snapshot, which stays in effect until the new one is complete.
    public func store(_ snapshot: JournalSnapshot, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        enqueue(.snapshot(snapshot), completion)
    }

    public func whenSnapshotDue(_ ask: @escaping @Sendable () -> Void) {
        store.queue.async { [store, namespace] in store.snapshotter.whenDue(namespace, ask) }
    }
}
