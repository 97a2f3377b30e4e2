import JSONTree
import LiveQueries

/// Updates observers for what is no new commit: a deploy of rules, a rollback, and results that become ready in the background.
///
/// ```
/// deploy ───► permissions, indexes, live queries of the new rules
/// rollback ─► indexes and live queries of the durable tree ─► repeat: what observers were sent with the refused batches
/// an index, a live query or a paced observer is ready ─► Publisher
/// ```
/// Confined to the database queue.
final class ObserverUpdates {
    private let batch: Batch
    private let indexes: IndexStore
    private let queries: LiveQueryUpdater
    private let permissions: ReadPermissions
    private let publisher: Publisher
    private let ring: CommitRing

    init(
        _ batch: Batch, _ indexes: IndexStore, _ queries: LiveQueryUpdater, _ permissions: ReadPermissions, _ publisher: Publisher,
        _ ring: CommitRing
    ) {
        self.batch = batch
        self.indexes = indexes
        self.queries = queries
        self.permissions = permissions
        self.publisher = publisher
        self.ring = ring
    }

    /// Connects the parts that report results. They do not retain the parts that notify observers.
    func connect(_ pacing: Pacing) {
        indexes.onResultReady = { [weak self] path, ordering, update in
            self?.batch.record(.show(path, ordering, update))
            self?.publisher.publish(path, ordering, update)
        }
        indexes.onReady = { [weak self] in self?.queries.resume(at: $0) }
        indexes.cancel = { [weak self] observation, client in self?.permissions.cancel(observation, of: client) }
        queries.notifier.onChanged = { [weak self] in self?.publisher.publish($0, $1, of: $2, $3) }
        queries.places.onEnded = { [weak self] in self?.permissions.end($0, of: $1, $2) }
        queries.places.onLost = { [weak self] in self?.permissions.notifyEnd($0, to: $1, $2) }
        pacing.onDue = { [weak self] path, query, style in self?.publisher.publish(path, query, to: style) }
    }

    /// New rules are in force: observers that they refuse are cancelled.
    func recheckRules() {
        ring.restart()
        indexes.recheckDeclarations()
        queries.recheckDeclarations()
        permissions.recheckAllObservers()
    }

    /// Notifies a client's observers of what they have missed while the client was slow.
    func catchUp(_ client: Client, _ missed: MissedChanges) { publisher.publish(missed, to: client) }

    // MARK: Rollback

    /// The tree was rolled back; the sessions were not yet.
    func rollBackIndexes(from before: Node) { indexes.follow(from: before) }

    /// The tree and the sessions were rolled back. Ends observers before anything is sent, because the rules may have changed since.
    func rollBackQueries(from before: Node) {
        queries.follow(from: before)
        permissions.recheckAllObservers()
    }

    /// All steps of the batches that were rolled back have been repeated.
    func endRollback() { permissions.recheckAllObservers() }

    // Notifications of a batch that was rolled back, repeated.

    func show(_ missed: MissedChanges, to client: Client) { publisher.publish(missed, to: client) }
    func show(_ path: Path, _ ordering: TreeQuery.Index, _ update: DeferredUpdate) { publisher.publish(path, ordering, update) }
    func show(_ path: Path, _ query: Query?, _ style: ObserverStyle) { publisher.publish(path, query, to: style) }
    func endAll(at path: Path) { queries.endAll(at: path) }
}
