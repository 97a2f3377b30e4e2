import Dispatch
import GRDB
public import Journal
import JSONTree
import Synchronization

/// Imports namespaces that another folder has exported. Until the import is complete, its chunks are stored separately from the folder's
/// content. Then one commit replaces that content, for all namespaces at once. After a kill before that commit the folder is unchanged, and
/// the next import, snapshot or start removes the rest.
///
/// ```
/// part ─► chunks, about a megabyte at a time ─► commits      take ─► lists of chunks, commit numbers, settings: one commit
/// ```
/// One caller at a time; each call waits for the disk.
public final class NamespaceImport: @unchecked Sendable {
    // Sendable: used by one caller at a time, and by the journal queue while that waits.
    private let store: JournalStore
    private let setting: String
    private struct Incoming {
        let namespace: ExportedNamespace
        var id: Int64 = 0
        var chunks: [StoredChunk] = []
    }
    private var incoming: [Incoming] = []
    /// Chunks that are not stored yet.
    private var waiting: [[UInt8]] = []
    private var bytes = 0
    /// How many more commits the import has than the folder had.
    fileprivate var gained: UInt64 = 0

    private static let bytesAtOnce = 1 << 20

    /// - Parameter setting: the name of the setting that is imported with each namespace.
    public init(into store: JournalStore, setting: String) { (self.store, self.setting) = (store, setting) }

    public func add(_ part: ExportedPart) throws(JournalError) {
        switch part {
        case .namespace(let namespace):
            try storeWaiting()
            incoming.append(Incoming(namespace: namespace))
            let name = namespace.name
            store.database.writeWithoutTransaction { [store] _ in store.snapshotter.beginImport(of: name) }
        case .entries(let entries):
            guard !incoming.isEmpty else { throw .corrupt(path: store.path, place: "what is taken over has no namespace") }
            waiting.append(entries)
            bytes += entries.count
            if bytes >= Self.bytesAtOnce { try storeWaiting() }
        }
    }

    /// Completes the import: it replaces the folder's content of these namespaces.
    public func commit() throws(JournalError) {
        try storeWaiting()
        try run(.commit(self))
        end(isCommitted: true)
    }

    /// Discards the imported parts.
    public func giveUp() { end(isCommitted: false) }

    private func end(isCommitted: Bool) {
        let names = incoming.map(\.namespace.name)
        (incoming, waiting, bytes) = ([], [], 0)
        if store.journalQueue.isClosed { return }
        store.database.writeWithoutTransaction { [store] _ in
            for name in names { store.snapshotter.endImport(of: name, isCommitted: isCommitted) }
        }
    }

    private func storeWaiting() throws(JournalError) {
        guard !waiting.isEmpty else { return }
        try run(.chunks(self))
        (waiting, bytes) = ([], 0)
    }

    enum Step: Sendable {
        case chunks(NamespaceImport)
        case commit(NamespaceImport)
    }

    private func run(_ step: Step) throws(JournalError) {
        let outcome = Mutex<Result<Void, JournalError>>(.failure(.closed))
        let done = DispatchSemaphore(value: 0)
        store.journalQueue.enqueue(Waiting.Item(namespace: "", work: .taking(step)) { result in
            outcome.withLock { $0 = result }
            done.signal()
        })
        done.wait()
        try outcome.withLock { $0 }.get()
    }
}

extension NamespaceImport {
    /// Stores the chunks that wait, within a transaction on the journal queue. Returns the bytes written.
    fileprivate func storeChunks(in registry: Registry, _ db: Database) throws -> Int {
        let i = incoming.count - 1
        let known = try registry.register(incoming[i].namespace.name, db)
        registry.set(known, for: incoming[i].namespace.name)
        incoming[i].id = known.id
        let insert = try RawStatement(db, cached: "INSERT INTO chunk (namespace, entries) VALUES (?, ?)")
        var bytes = 0
        for entries in waiting {
            try insert.run([known.id], blob: entries)
            let checksum = entries.withUnsafeBytes(StoredChunk.checksum)
            incoming[i].chunks.append(StoredChunk(id: db.lastInsertedRowID, bytes: entries.count, checksum: checksum))
            bytes += entries.count
        }
        return bytes + 4096
    }

    /// Replaces the content of the namespaces, within a transaction on the journal queue. Returns the bytes written.
    fileprivate func replaceContent(in registry: Registry, _ db: Database) throws -> Int {
        var bytes = 4096
        gained = 0
        for incoming in incoming {
            let namespace = incoming.namespace
            var known = try registry.register(namespace.name, db)
            var manifest = SnapshotManifest()
            // Places are not known, as the entries include batches: the next snapshot rewrites all chunks.
            manifest.hasPlaces = false
            manifest.tree = incoming.chunks.map { ChunkLayout.Part(start: .root, chunk: $0) }
            bytes += try manifest.store(of: known.id, sequence: Int64(clamping: namespace.last), db) + 4096
            try db.execute(
                sql: "UPDATE namespace SET epoch = ? WHERE id = ?", arguments: [Int64(clamping: namespace.epoch), known.id])
            if let value = namespace.setting { try SettingRows.store(value, setting: setting, of: namespace.name, db) }
            gained &+= namespace.last &- known.last
            (known.last, known.snapshotSequence, known.epoch) = (namespace.last, namespace.last, namespace.epoch)
            registry.set(known, for: namespace.name)
        }
        return bytes
    }
}

extension NamespaceImport.Step {
    /// Stores the step within a transaction on the journal queue. Returns the bytes written.
    func store(in registry: Registry, _ db: Database) throws -> Int {
        switch self {
        case .chunks(let taking): try taking.storeChunks(in: registry, db)
        case .commit(let taking): try taking.replaceContent(in: registry, db)
        }
    }

    /// Number of commits that become durable with it; known when it is stored.
    var commits: UInt64 {
        switch self {
        case .chunks: 0
        case .commit(let taking): taking.gained
        }
    }
}
