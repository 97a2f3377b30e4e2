import Dispatch
import struct Foundation.Data
import GRDB
import JSONTree
import Synchronization

/// What waits for the journal queue.
struct Waiting {
    struct Item: Sendable {
        /// Empty for what concerns the whole store.
        let namespace: String
        let work: Work
        let completion: @Sendable (Result<Void, JournalError>) -> Void
    }

    enum Work: Sendable {
        case append(JournalBatch)
        case close(JournalSnapshot?)
        /// A setting; nil removes it.
        case put(name: String, value: [UInt8]?)

        /// Whether a journal's end lets it pass: settings of a namespace outlive its journal.
        var outlivesJournal: Bool { if case .put = self { true } else { false } }
        /// Whether it has a transaction of its own.
        var standsAlone: Bool { if case .close = self { true } else { false } }
    }

    var items: [Item] = []
    /// A commit that takes all items is already on its way.
    var isScheduled = false
    /// The store.
    var isClosed = false
    /// Single namespaces.
    var closed: Set<String> = []
}

extension JournalStore {
    /// Largest stored batch in bytes, far below SQLite's limit for one value.
    static let maxBatchBytes = 512 << 20

    /// Where appends to a closed store are refused. Not the journal queue: a completion may be the last to know the store, and
    /// GRDB's connection, when let go, waits for its own queue, which ends in the journal queue.
    private static let refusals = DispatchQueue(label: "vigla.journal.refusals")

    /// Adds to the next commit.
    func enqueue(_ item: Waiting.Item) {
        let verdict: (isClosed: Bool, mustSchedule: Bool) = waiting.withLock { waiting in
            if waiting.isClosed || !item.work.outlivesJournal && waiting.closed.contains(item.namespace) { return (true, false) }
            if case .close = item.work { waiting.closed.insert(item.namespace) }
            waiting.items.append(item)
            defer { waiting.isScheduled = true }
            return (false, !waiting.isScheduled)
        }
        if verdict.isClosed {
            Self.refusals.async { item.completion(.failure(.closed)) }
        } else if verdict.mustSchedule {
            database.asyncWriteWithoutTransaction { db in self.commitWaiting(db) }
        }
    }

    /// Commits everything that waits and calls the completions in order.
    func commitWaiting(_ db: Database) {
        dispatchPrecondition(condition: .onQueue(queue))
        let items = waiting.withLock { waiting in
            defer { (waiting.items, waiting.isScheduled) = ([], false) }
            return waiting.items
        }
        // Appends and settings share one transaction; a final snapshot has its own, so that its failure takes no batch with it.
        var rest = items[...]
        while let first = rest.first {
            let shared = rest.prefix { !$0.work.standsAlone }
            let group = shared.isEmpty ? [first] : shared
            commit(group, db)
            rest = rest.dropFirst(group.count)
        }
        if !items.isEmpty { checkpointIfDue(db) }
    }

    /// Commits the items in one transaction and calls their completions.
    private func commit(_ items: ArraySlice<Waiting.Item>, _ db: Database) {
        var registry = self.registry
        var results: [Result<Void, JournalError>] = []
        var written = 0
        do {
            try db.inTransaction(.immediate) {
                for item in items { results.append(try store(item, db, &registry, &written)) }
                FaultPoint.pass(.beforeCommit)
                return .commit
            }
            FaultPoint.pass(.afterCommit)
            self.registry = registry
            logBytes += written
        } catch {
            // What had no refusal of its own failed with the transaction.
            let failure = JournalError(error, storing: path)
            for i in results.indices { if case .success = results[i] { results[i] = .failure(failure) } }
            while results.count < items.count { results.append(.failure(failure)) }
        }
        for (item, result) in zip(items, results) { item.completion(result) }
    }

    /// One item within the transaction. Throws what makes the whole commit fail; returns what concerns this item only.
    private func store(_ item: Waiting.Item, _ db: Database, _ registry: inout [String: Registered], _ written: inout Int) throws -> Result<Void, JournalError> {
        switch item.work {
        case .append(let batch):
            let last = registry[item.namespace]?.last ?? 0
            guard batch.expectedLast == last, batch.sequence > last, let sequence = Int64(exactly: batch.sequence) else {
                return .failure(.conflict(expected: batch.expectedLast, last: last))
            }
            let bytes = batch.encoded()
            guard bytes.count <= Self.maxBatchBytes else { return .failure(.tooLarge(bytes: bytes.count, limit: Self.maxBatchBytes)) }
            var known = try register(item.namespace, db, registry)
            let statement = try db.cachedStatement(sql: "INSERT INTO batch (namespace, sequence, previous, checksum, operations) VALUES (?, ?, ?, ?, ?)")
            try statement.execute(arguments: [known.id, sequence, Int64(last), Int64(batch.checksum(of: bytes)), Data(bytes)])
            known.last = batch.sequence
            registry[item.namespace] = known
            // Pages of the table and its index are written whole.
            written += bytes.count + 3 * 4096
        case .close(let snapshot?):
            let last = registry[item.namespace]?.last ?? 0
            guard snapshot.sequence == last else { return .failure(.conflict(expected: snapshot.sequence, last: last)) }
            // Nothing was ever written, or nothing since the last snapshot.
            guard let known = registry[item.namespace], known.snapshotSequence < last else { break }
            registry[item.namespace] = try writeSnapshot(snapshot, of: known, db, &written)
        case .close(nil): break
        case .put(let name, let value):
            try store(value, setting: name, of: item.namespace, db)
            written += (value?.count ?? 0) + 2 * 4096
        }
        return .success(())
    }

    private func register(_ namespace: String, _ db: Database, _ registry: [String: Registered]) throws -> Registered {
        if let known = registry[namespace] { return known }
        try db.execute(sql: "INSERT INTO namespace (name) VALUES (?)", arguments: [namespace])
        return Registered(id: db.lastInsertedRowID, last: 0, snapshotSequence: 0, snapshotChunks: 0)
    }

    /// Copies the log into the database when it has grown and nobody waits, or when it has grown too much.
    private func checkpointIfDue(_ db: Database) {
        guard logBytes > 4 << 20 else { return }
        let isIdle = waiting.withLock { $0.items.isEmpty }
        guard isIdle || logBytes > 64 << 20 else { return }
        // A failure costs nothing now: the log keeps everything, and the next commit tries again.
        do {
            try db.checkpoint(.passive)
            logBytes = 0
        } catch { return }
    }
}

extension JournalBatch {
    /// Over the operations and their place in the history.
    func checksum(of bytes: [UInt8]) -> UInt32 {
        bytes.withUnsafeBytes { JournalBatch.checksum($0, previous: expectedLast, sequence: sequence) }
    }

    static func checksum(_ bytes: UnsafeRawBufferPointer, previous: UInt64, sequence: UInt64) -> UInt32 {
        var crc = CRC32()
        crc.add(previous)
        crc.add(sequence)
        crc.add(bytes)
        return crc.value
    }
}
