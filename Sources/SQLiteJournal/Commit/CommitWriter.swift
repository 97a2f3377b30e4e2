import GRDB
import Journal
import JSONTree

/// Writes the rows of a commit's items, in one transaction. Confined to the journal queue.
final class CommitWriter: @unchecked Sendable {
    // Sendable: confined to the journal queue.

    /// The result of an item within a transaction, and the bytes that it wrote.
    struct Outcome {
        var result: Result<Void, JournalError> = .success(())
        var bytes = 0
        /// False for a batch that was stored before.
        var isNew = true
    }

    /// Nil before the first commit, and when the connection is about to be closed. Released before the connection.
    private var statements: Statements?
    private let journal: JournalQueue
    private let registry: Registry
    private let snapshotter: Snapshotter
    private let remover: Remover
    private let parts: BatchParts

    init(_ journal: JournalQueue, _ registry: Registry, _ snapshotter: Snapshotter, _ remover: Remover, _ parts: BatchParts) {
        self.journal = journal
        self.registry = registry
        self.snapshotter = snapshotter
        self.remover = remover
        self.parts = parts
    }

    /// Writes and commits. An error fails the whole commit; errors that concern only one item are in its outcome.
    /// - Parameter outcomes: one for each item; after an error, those of the items before it.
    func write(_ items: ArraySlice<Waiting.Item>, _ outcomes: inout [Outcome], _ db: Database) throws {
        do {
            try inTransaction(db) {
                for item in items { outcomes.append(try store(item, db)) }
                FaultPoint.pass(.beforeCommit)
                for item in items { FaultPoint.pass(item.work.faultPoints.before) }
            }
        } catch {
            registry.restore()
            throw error
        }
        registry.keep()
    }

    /// Number of commits of the namespaces that the items remove.
    func commitsRemoved(by items: ArraySlice<Waiting.Item>) -> UInt64 {
        items.reduce(0) { if case .drop = $1.work { $0 &+ registry.last(of: $1.namespace) } else { $0 } }
    }

    /// Releases the statements; the next commit prepares them again.
    func end() { statements = nil }

    // MARK: Transaction

    /// The statements of every commit, prepared once.
    private struct Statements {
        let begin: RawStatement
        let insert: RawStatement
        let commit: RawStatement

        init(_ db: Database) throws {
            begin = try RawStatement(db, cached: "BEGIN IMMEDIATE TRANSACTION")
            insert = try RawStatement(
                db,
                cached: """
                    INSERT INTO batch (namespace, sequence, previous, checksum, operations, part, more, batch_id, epoch)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                    """)
            commit = try RawStatement(db, cached: "COMMIT TRANSACTION")
        }
    }

    private func statements(_ db: Database) throws -> Statements {
        if let statements { return statements }
        let made = try Statements(db)
        statements = made
        return made
    }

    /// GRDB's own form compiles both statements again for each transaction.
    private func inTransaction(_ db: Database, _ body: () throws -> Void) throws {
        let statements = try statements(db)
        try statements.begin.run()
        do {
            try body()
            try statements.commit.run()
        } catch {
            // After some errors SQLite has rolled back already.
            if db.isInsideTransaction { try? db.rollback() }
            throw error
        }
    }

    // MARK: Items

    /// Stores one item within the transaction. Throws errors that fail the whole commit; returns those that concern only this item.
    private func store(_ item: Waiting.Item, _ db: Database) throws -> Outcome {
        switch item.work {
        case .append(let batch), .seal(let batch): return try store(batch, item.namespace, db)
        case .slice(let staging): return Outcome(bytes: try staging.store(db))
        case .put(let name, let value):
            try SettingRows.store(value, setting: name, of: item.namespace, db)
            return Outcome(bytes: value?.count ?? 0)
        case .step(let step): return Outcome(bytes: try snapshotter.store(step, db))
        case .removal: return Outcome(bytes: try remover.removeNext(db))
        case .taking(let step): return Outcome(bytes: try step.store(in: registry, db))
        case .truncate(let sequence):
            guard let known = registry[item.namespace] else { break }
            // Keep batches after the snapshot: they are stored nowhere else.
            let statement = try db.cachedStatement(sql: "DELETE FROM batch WHERE namespace = ? AND sequence <= ?")
            try statement.execute(arguments: [known.id, Int64(clamping: min(sequence, known.snapshotSequence))])
        case .drop(let setting):
            try SettingRows.removeAll(of: item.namespace, db)
            try SettingRows.store(setting.value, setting: setting.name, of: "", db)
            guard let known = registry[item.namespace] else { break }
            try db.execute(sql: "DELETE FROM snapshot WHERE namespace = ?", arguments: [known.id])
            try db.execute(
                sql: "UPDATE namespace SET name = ? WHERE id = ?", arguments: [Schema.removedName(item.namespace, known.id), known.id])
            registry.drop(item.namespace, known)
        case .snapshot, .close: break
        }
        return Outcome()
    }

    private func store(_ batch: JournalBatch, _ namespace: String, _ db: Database) throws -> Outcome {
        let (last, epoch) = registry[namespace].map { ($0.last, $0.epoch) } ?? (0, 0)
        if batch.id != 0, batch.sequence <= last, let known = registry[namespace], try isStored(batch, known.id, db) {
            return Outcome(isNew: false)
        }
        guard batch.epoch >= epoch else { return Outcome(result: .failure(.superseded(epoch: batch.epoch, newest: epoch))) }
        guard batch.expectedLast == last, batch.sequence > last, batch.sequence <= Int64.max else {
            return Outcome(result: .failure(journal.misplaced(batch, last)))
        }
        var known = try registry.register(namespace, db)
        if batch.epoch > epoch {
            known.epoch = batch.epoch
            try db.execute(sql: "UPDATE namespace SET epoch = ? WHERE id = ?", arguments: [Int64(clamping: batch.epoch), known.id])
        }
        let bytes = batch.staged.isEmpty ? try storeRows(of: batch, known.id, db) : try storeSealed(batch, known.id, db)
        if let setting = batch.setting { try SettingRows.store(setting.value, setting: setting.name, of: namespace, db) }
        known.last = batch.sequence
        registry.set(known, for: namespace)
        return Outcome(bytes: bytes)
    }

    /// Whether a batch that does not follow was stored before, and still is in the log and not only in a snapshot.
    private func isStored(_ batch: JournalBatch, _ namespace: Int64, _ db: Database) throws -> Bool {
        let statement = try db.cachedStatement(
            sql: "SELECT 1 FROM batch WHERE namespace = ? AND sequence = ? AND part = 0 AND previous = ? AND batch_id = ?")
        let id = Int64(bitPattern: batch.id)
        return try Int.fetchOne(
            statement, arguments: [namespace, Int64(clamping: batch.sequence), Int64(clamping: batch.expectedLast), id]) != nil
    }

    /// Stores all rows of a batch. Returns the bytes written.
    private func storeRows(of batch: JournalBatch, _ namespace: Int64, _ db: Database) throws -> Int {
        let statement = try statements(db).insert
        let mark = BatchMark(id: batch.id, epoch: batch.epoch)
        var encoder = BatchEncoder(batch.operations[...], parts, starts: batch.starts[...])
        var (part, written) = (0, 0)
        while let (bytes, isLast) = encoder.next() {
            let row = StoredRow.batch(previous: batch.expectedLast, sequence: batch.sequence, part: part, isLast: isLast, mark: mark)
            let checksum = bytes.withUnsafeBytes(row.checksum)
            try statement.run(
                [namespace, Int64(clamping: batch.sequence), Int64(clamping: batch.expectedLast), Int64(checksum)], blob: bytes,
                [Int64(part), isLast ? 0 : 1, Int64(bitPattern: mark.id), Int64(clamping: mark.epoch)])
            part += 1
            written += bytes.count
        }
        return written
    }

    /// Stores a batch with staged parts: rows that refer to stages, between the rows of unstaged operations.
    /// Returns the bytes written.
    private func storeSealed(_ batch: JournalBatch, _ namespace: Int64, _ db: Database) throws -> Int {
        let statement = try RawStatement(
            db,
            cached: """
                INSERT INTO batch (namespace, sequence, previous, checksum, operations, part, more, stage, parts, batch_id, epoch)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """)
        let mark = BatchMark(id: batch.id, epoch: batch.epoch)
        var (part, written) = (0, 0)
        func store(_ bytes: [UInt8], isLast: Bool, _ stage: JournalStage?) throws {
            var row = StoredRow.batch(previous: batch.expectedLast, sequence: batch.sequence, part: part, isLast: isLast, mark: mark)
            if let stage { row = .seal(row, stage: stage.number, parts: stage.parts) }
            let checksum = Int64(bytes.withUnsafeBytes(row.checksum))
            try statement.run(
                [namespace, Int64(clamping: batch.sequence), Int64(clamping: batch.expectedLast), checksum], blob: bytes,
                [
                    Int64(part), isLast ? 0 : 1, stage?.number ?? 0, Int64(stage?.parts ?? 0), Int64(bitPattern: mark.id),
                    Int64(clamping: mark.epoch),
                ])
            part += 1
            written += bytes.count
        }
        let runs = batch.runs
        for (i, run) in runs.enumerated() {
            let isLastRun = i == runs.count - 1
            if let stage = run.stage {
                var writer = JSONWriter()
                for _ in run.starts { writer.nextCommit() }
                writer.raw(writer.bytes.isEmpty ? "[]" : "]")
                try store(writer.bytes, isLast: isLastRun, stage)
                continue
            }
            var encoder = BatchEncoder(run.operations, parts, starts: run.starts)
            while let (bytes, isLast) = encoder.next() { try store(bytes, isLast: isLast && isLastRun, nil) }
        }
        return written
    }
}
