import Dispatch
import struct Foundation.Data
import GRDB
import JSONTree
import Synchronization

extension JournalStore {
    /// Where appends to a closed store are refused. Not the journal queue: a completion may be the last to know the store, and
    /// GRDB's connection, when let go, waits for its own queue, which ends in the journal queue.
    static let refusals = DispatchQueue(label: "vigla.journal.refusals")

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
        var rest = items[...]
        while let first = rest.first {
            let stored = rest.prefix { $0.work.isStored }
            if stored.isEmpty {
                perform(first)
                rest = rest.dropFirst()
            } else {
                commit(stored, db)
                rest = rest.dropFirst(stored.count)
            }
        }
        if !items.isEmpty { checkpointIfDue() }
    }

    /// What needs no transaction of its own.
    private func perform(_ item: Waiting.Item) {
        switch item.work {
        case .snapshot(let snapshot): begin(snapshot, of: item.namespace, item.completion)
        case .close:
            for tail in tails.removeValue(forKey: item.namespace) ?? [] { tail.end(.closed) }
            item.completion(.success(()))
        default: return
        }
    }

    /// What became of an item within a transaction, and the bytes it wrote.
    private typealias Outcome = (result: Result<Void, JournalError>, bytes: Int)

    /// Commits the items in one transaction and calls their completions.
    private func commit(_ items: ArraySlice<Waiting.Item>, _ db: Database) {
        var registry = self.registry
        var outcomes: [Outcome] = []
        do {
            try db.inTransaction(.immediate) {
                for item in items { outcomes.append(try store(item, db, &registry)) }
                FaultPoint.pass(.beforeCommit)
                for item in items { FaultPoint.pass(item.work.faultPoints.before) }
                return .commit
            }
            FaultPoint.pass(.afterCommit)
            for item in items { FaultPoint.pass(item.work.faultPoints.after) }
            self.registry = registry
        } catch {
            // What had no refusal of its own failed with the transaction.
            let failure = JournalError(error, storing: path)
            for i in outcomes.indices { if case .success = outcomes[i].result { outcomes[i] = (.failure(failure), 0) } }
            while outcomes.count < items.count { outcomes.append((.failure(failure), 0)) }
        }
        for (item, outcome) in zip(items, outcomes) {
            if case (.append(let batch), .success) = (item.work, outcome.result) { appended(batch, to: item.namespace, bytes: outcome.bytes) }
            // Pages of the table and its index are written whole.
            logBytes += outcome.bytes + 3 * 4096
            item.completion(outcome.result)
        }
    }

    /// A batch is durable.
    private func appended(_ batch: JournalBatch, to namespace: String, bytes: Int) {
        let state = state(of: namespace)
        state.note(batch, bytes: bytes)
        for tail in tails[namespace] ?? [] { tail.receive(batch) }
        askForSnapshotIfDue(state)
    }

    /// One item within the transaction. Throws what makes the whole commit fail; returns what concerns this item only.
    private func store(_ item: Waiting.Item, _ db: Database, _ registry: inout [String: Registered]) throws -> Outcome {
        switch item.work {
        case .append(let batch):
            let last = registry[item.namespace]?.last ?? 0
            guard batch.expectedLast == last, batch.sequence > last, let sequence = Int64(exactly: batch.sequence) else {
                return (.failure(.conflict(expected: batch.expectedLast, last: last)), 0)
            }
            var known = try register(item.namespace, db, registry)
            let statement = try db.cachedStatement(
                sql: "INSERT INTO batch (namespace, sequence, previous, checksum, operations, part, more) VALUES (?, ?, ?, ?, ?, ?, ?)")
            var (part, written) = (0, 0)
            try settings.batches.write(batch.operations) { bytes, isLast in
                let row = StoredRow.batch(previous: last, sequence: batch.sequence, part: part, isLast: isLast)
                let checksum = bytes.withUnsafeBytes(row.checksum)
                try statement.execute(arguments: [known.id, sequence, Int64(last), Int64(checksum), Data(bytes), part, isLast ? 0 : 1])
                part += 1
                written += bytes.count
            }
            known.last = batch.sequence
            registry[item.namespace] = known
            return (.success(()), written)
        case .put(let name, let value):
            try store(value, setting: name, of: item.namespace, db)
            return (.success(()), value?.count ?? 0)
        case .step(let step): return (.success(()), try store(step, db, &registry))
        case .truncate(let sequence):
            guard let known = registry[item.namespace] else { break }
            // What comes after the snapshot is all there is of it.
            let statement = try db.cachedStatement(sql: "DELETE FROM batch WHERE namespace = ? AND sequence <= ?")
            try statement.execute(arguments: [known.id, Int64(clamping: min(sequence, known.snapshotSequence))])
        case .snapshot, .close: break
        }
        return (.success(()), 0)
    }

    private func register(_ namespace: String, _ db: Database, _ registry: [String: Registered]) throws -> Registered {
        if let known = registry[namespace] { return known }
        try db.execute(sql: "INSERT INTO namespace (name) VALUES (?)", arguments: [namespace])
        return Registered(id: db.lastInsertedRowID, last: 0, snapshotSequence: 0)
    }
}
