import Dispatch
import GRDB
public import Journal
import Scheduling

/// The data folder: one SQLite database (`vigla.sqlite`) with the journals and snapshots of all namespaces, locked by one
/// process at a time.
///
///     namespace   id, name, epoch
///     batch       namespace, sequence, previous, checksum, operations, part, more, stage, parts, batch_id, epoch
///                                                                                         the log after the snapshot
///     part        stage, number, checksum, operations                                 parts of large batches: see `Staging`
///     snapshot    namespace, sequence, checksum, manifest                             the list of its chunks
///     chunk       id, namespace, entries                                              parts of a tree
///     setting     namespace, name, checksum, value                                    rules, secrets, …: see `SettingStore`
///
/// The store creates the parts and passes calls to them; each part owns its state. All changes run on the journal queue, recovery
/// and followers read on a separate connection.
///
/// ```
/// SQLiteJournal ─► JournalQueue ─► Committer ─► CommitWriter: rows in one transaction
///                                      ├─► Stages         large batches, in slices     ─► Remover: old rows, between commits
///                                      ├─► Snapshotter    trees, in chunks             ─┘
///                                      ├─► Tails          followers of the log
///                                      └─► Checkpointer   SQLite's log into the database
/// ```
/// `open`, `recover` and `close` block their caller: they are for start and shutdown, and must not be called from the journal queue.
public final class JournalStore: Sendable {
    let settings: Settings
    let connections: Connections
    let journalQueue: JournalQueue
    let registry: Registry
    let checkpointer: Checkpointer
    let remover: Remover
    let stages: Stages
    let snapshotter: Snapshotter
    let tails: Tails
    let committer: Committer
    /// The damage of SQLite's log found at the start, and how it was handled.
    public let finding: String?

    init(_ queue: DispatchQueue, _ connections: Connections, _ found: Found, _ settings: Settings, _ scheduler: Scheduler) {
        self.settings = settings
        self.connections = connections
        finding = found.finding
        let (journal, registry, totals) = (JournalQueue(queue, connections), Registry(found.registry), WrittenTotals())
        let background = DispatchQueue(label: "vigla.snapshots", qos: .utility)
        checkpointer = Checkpointer(connections, journal)
        remover = Remover(journal, registry, totals, scheduler, pauses: background, settings)
        stages = Stages(journal, registry, remover, settings, next: found.nextStage)
        snapshotter = Snapshotter(journal, registry, remover, totals, scheduler, encoding: background, settings)
        tails = Tails(journal, registry, reader: connections.reader)
        let parts = Committer.Parts(
            checkpointer: checkpointer, stages: stages, snapshotter: snapshotter, remover: remover, tails: tails, totals: totals)
        committer = Committer(
            journal, CommitWriter(journal, registry, snapshotter, remover, settings.batches), connections.log, parts, scheduler, settings,
            commits: registry.rows.values.reduce(0) { $0 &+ $1.last })
        (journalQueue, self.registry) = (journal, registry)
    }

    var queue: DispatchQueue { journalQueue.queue }
    var path: String { connections.path }
    var database: DatabaseQueue { connections.database }

    /// The names of all namespaces with present or past content, in no order. Blocks.
    public func namespaces() -> [String] { queue.sync { Array(registry.rows.keys) } }

    public func holds(_ namespace: String) -> Bool { queue.sync { registry[namespace] != nil } }

    /// Removes a namespace with its content and settings, and stores a setting of the whole store in the same transaction. Its journal
    /// refuses later batches; if the removal fails, the journal continues. The rows go in the background.
    public func remove(
        _ namespace: String, noting setting: JournalSetting, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
    ) {
        journalQueue.enqueue(Waiting.Item(namespace: namespace, work: .drop(noting: setting), completion: completion))
    }

    /// The last durable commit of each namespace and the newest epoch of its writers. Blocks.
    public func marks() -> [String: (last: UInt64, epoch: UInt64)] { queue.sync { registry.rows.mapValues { ($0.last, $0.epoch) } } }

    /// The journal of one namespace, which need not exist yet. Call it once per namespace; the journal continues after the last stored batch.
    public func journal(for namespace: String) -> SQLiteJournal { SQLiteJournal(store: self, namespace: namespace) }

    /// Reads the newest complete snapshot and the batches after it, and checks their checksums and their order. Blocks; commits of
    /// other namespaces continue. Changes nothing when it finds damage.
    /// - Throws: `.corrupt` naming the place; `.disk`, `.closed`.
    public func recover(_ namespace: String) throws(JournalError) -> Recovered {
        guard let known = queue.sync(execute: { registry[namespace] }) else {
            if journalQueue.isClosed { throw .closed }
            return Recovered()
        }
        let stored = StoredNamespace(name: namespace, known: known, path: path)
        do {
            let content = try connections.reader.writeWithoutTransaction { db in try db.inReadTransaction { try stored.read(db) } }
            queue.sync { snapshotter.recovered(content.snapshots, of: namespace, hasLeftovers: content.hasLeftovers) }
            return content.recovered
        } catch { throw JournalError(error, opening: path) }
    }

    /// Closes the store: everything appended before is stored first. Later appends fail with `.closed`; the folder is free for
    /// another process. Blocks.
    /// - Parameter isLate: whether batches that are being stored in slices are abandoned.
    public func close(isLate: Bool = false) throws(JournalError) {
        if !journalQueue.close(isLate: isLate) { return }
        defer { connections.lock.release() }
        do {
            // Wait for all commits that are running or waiting, large ones included.
            while !database.writeWithoutTransaction({ db in committer.commitAll(db) }) { journalQueue.background.wait() }
            database.writeWithoutTransaction { _ in tails.closeAll() }
            try connections.reader.close()
            try connections.checkpointer.close()
            database.writeWithoutTransaction { db in
                committer.end()
                checkpointer.end(db)
            }
            try database.close()
            connections.log.end()
        } catch { throw JournalError(error, opening: path) }
    }
}

extension JournalStore: JournalStorage {
    public var isDurable: Bool { true }
    public var settingStore: any SettingStore { self }

    public func open(_ namespace: String) throws(JournalError) -> OpenedJournal {
        OpenedJournal(try recover(namespace), journal(for: namespace))
    }

    /// Abandons snapshots and removals in progress; only small snapshots begin from now on.
    public func prepareToClose() {
        if journalQueue.isClosed { return }
        journalQueue.run { [self] _ in
            snapshotter.prepareToClose()
            remover.prepareToClose()
        }
    }

    public func close(isLate: Bool, _ done: @escaping @Sendable (JournalError?) -> Void) {
        // Not on the journal queue, because `close` waits for it.
        DispatchQueue.global().async { [self] in
            do throws(JournalError) {
                try close(isLate: isLate)
                done(nil)
            } catch { done(error) }
        }
    }
}
