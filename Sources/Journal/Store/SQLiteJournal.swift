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

    /// A snapshot is written only when something was stored since the last one, and removes the batches it contains.
    public func close(snapshot: JournalSnapshot?, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        store.enqueue(Waiting.Item(namespace: namespace, work: .close(snapshot), completion: completion))
    }
}
