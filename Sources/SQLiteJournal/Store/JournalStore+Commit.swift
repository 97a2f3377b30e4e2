import Dispatch
import GRDB
import Journal
import JSONTree
import Scheduling
import Synchronization

extension JournalStore {
    /// Queue on which appends to a closed store are refused. Not the journal queue: a completion may release the last reference to the store, and the
    /// deinit of GRDB's connection waits for its own queue, which targets the journal queue.
    static let refusals = DispatchQueue(label: "vigla.journal.refusals")

    /// Adds an item to the next commit.
    /// - Parameter isHeld: whether the caller calls `commitHeld` next, on the same thread.
    func enqueue(_ item: Waiting.Item, isHeld: Bool = false) {
        let verdict: (isClosed: Bool, mustSchedule: Bool) = waiting.withLock { waiting in
            let work = item.work
            let isRefused = waiting.isClosed && !work.survivesStoreClose(isLate: waiting.isLate)
                || !work.survivesJournalClose && waiting.closed.contains(item.namespace)
            if isRefused { return (true, false) }
            if case .close = item.work { waiting.closed.insert(item.namespace) }
            waiting.items.append(item)
            if waiting.isScheduled { return (false, false) }
            (waiting.isScheduled, waiting.isHeld) = (true, isHeld)
            return (false, !isHeld)
        }
        if verdict.isClosed {
            Self.refusals.async { item.completion(.failure(.closed)) }
        } else if verdict.mustSchedule {
            onQueue { [self] db in commitWaiting(db) }
        }
    }

    /// Commits the waiting items that fit one transaction, and calls the completions in order.
    func commitWaiting(_ db: Database) {
        dispatchPrecondition(condition: .onQueue(queue))
        waiting.withLock { waiting in
            pendingItems.add(waiting.items)
            (waiting.items, waiting.isScheduled) = ([], false)
        }
        let items = takeNext()
        var rest = items[...]
        while let first = rest.first {
            let stored = first.work.needsOwnTransaction ? rest.prefix(1) : rest.prefix { $0.work.isStored && !$0.work.needsOwnTransaction }
            if stored.isEmpty {
                perform(first)
                rest = rest.dropFirst()
            } else {
                commit(stored, db)
                rest = rest.dropFirst(stored.count)
            }
        }
        if items.isEmpty { return }
        if !pendingItems.isEmpty { onQueue { [self] db in commitWaiting(db) } }
        if removal.mayHaveUnusedParts { removeUnusedParts() }
        checkpointIfDue()
    }

    /// Commits until no item can be committed; returns whether nothing waits for a large batch.
    func commitAll(_ db: Database) -> Bool {
        var before = -1
        while before != pendingItems.count || waiting.withLock({ !$0.items.isEmpty }) {
            before = pendingItems.count
            commitWaiting(db)
        }
        return pendingItems.isEmpty && staging.isEmpty
    }

    /// Takes the items of the next transaction from the backlog: nearly always all of them. If they are larger than a slice, some remain.
    /// Each namespace keeps its order, remaining items come first the next time, and none waits longer than a slice takes.
    private func takeNext() -> [Waiting.Item] {
        if staging.isEmpty, let all = pendingItems.takeAll(within: settings.sliceBytes) { return all }
        var (taken, slice): ([Waiting.Item], Waiting.Item?) = ([], nil)
        var room = settings.sliceBytes
        pendingItems.serve { item, lane, isServed in
            // Items behind a large batch wait for it.
            if staging.contains(lane) { return .leave }
            if item.work.needsOwnTransaction {
                // Not while the log is being copied: the disk is busy, and the log must not grow meanwhile. The slice goes behind the other items,
                // which are small.
                if slice != nil || isCheckpointing { return .leave }
                slice = item
                return .takeLast
            }
            var rest = room
            if item.takes(from: &rest) || taken.isEmpty && !isLarge(item) {
                room = max(0, rest)
                taken.append(item)
                return .take
            }
            guard case .append(let batch) = item.work, !isServed, isLarge(item) else { return .leave }
            return begin(batch, item) ? .takeLast : .take
        }
        if let slice { taken.append(slice) }
        return taken
    }

    private func isLarge(_ item: Waiting.Item) -> Bool {
        // Refuse a batch that does not follow the last one before storing it in slices.
        guard case .append(let batch) = item.work, batch.expectedLast == registry[item.namespace]?.last ?? 0 else { return false }
        return isLarge(batch)
    }

    /// Processes an item that needs no transaction.
    private func perform(_ item: Waiting.Item) {
        switch item.work {
        case .snapshot(let snapshot): begin(snapshot, of: item.namespace, item.completion)
        case .close:
            for tail in tails.removeValue(forKey: item.namespace) ?? [] { tail.end(.closed) }
            item.completion(.success(()))
        default: return
        }
    }

    /// The result of an item within a transaction, and the bytes that it wrote.
    private typealias Outcome = (result: Result<Void, JournalError>, bytes: Int, isNew: Bool)

    /// Commits the items in one transaction and calls their completions.
    private func commit(_ items: ArraySlice<Waiting.Item>, _ db: Database) {
        var outcomes: [Outcome] = []
        let (begin, pages, isDisturbed) = (scheduler.steadyNs, log.pages, isDiskBusy)
        do {
            // A failing disk may take long to report the error, so count failed commits too.
            defer {
                let isSeveral = items.count > 1 || items.first?.work.batch.map { $0.commitCount > 1 } == true
                if !isDisturbed { inlineBudget.committed(from: begin, to: scheduler.steadyNs, isSeveral: isSeveral, settings) }
            }
            try inTransaction(db) {
                for item in items { outcomes.append(try store(item, db)) }
                FaultPoint.pass(.beforeCommit)
                for item in items { FaultPoint.pass(item.work.faultPoints.before) }
            }
            FaultPoint.pass(.afterCommit)
            for item in items { FaultPoint.pass(item.work.faultPoints.after) }
            registry.keep()
            for (item, outcome) in zip(items, outcomes) where outcome.isNew {
                if case .success = outcome.result { commits &+= item.work.commits }
            }
            log.acknowledge(commits: commits)
        } catch {
            registry.restore()
            // Items that were not refused themselves failed with the transaction.
            let failure = JournalError(error, storing: path, isDiscarded: log.discardFailedCommit())
            for i in outcomes.indices { if case .success = outcomes[i].result { outcomes[i] = (.failure(failure), 0, true) } }
            while outcomes.count < items.count { outcomes.append((.failure(failure), 0, true)) }
        }
        logBytes += (log.pages - pages) * 4096
        for (item, outcome) in zip(items, outcomes) {
            switch item.work {
            case .append, .seal, .slice: written.bytes += outcome.bytes
            case .step(.chunks), .taking: chunkBytes += outcome.bytes
            default: break
            }
            if let batch = item.work.batch, case .success = outcome.result, outcome.isNew {
                appended(batch, to: item.namespace, bytes: outcome.bytes)
            }
            item.completion(outcome.result)
        }
    }

    /// The statements of every commit, prepared once.
    struct CommitStatements {
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

    private func statements(_ db: Database) throws -> CommitStatements {
        if let commitStatements { return commitStatements }
        let made = try CommitStatements(db)
        commitStatements = made
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

    /// Applies a batch that has become durable.
    private func appended(_ batch: JournalBatch, to namespace: String, bytes: Int) {
        let state = state(of: namespace)
        state.record(batch, bytes: batch.staged.reduce(bytes) { $0 + $1.stage.bytes })
        written.batches += 1
        for part in batch.staged {
            part.stage.isSealed.store(true, ordering: .relaxed)
            // From now on the batch keeps its parts alive.
            openStages.remove(part.stage.number)
        }
        for tail in tails[namespace] ?? [] { tail.receive(batch) }
        requestSnapshotIfDue(state)
        if removal.hasFailed { startRemoval() }
    }

    /// Stores one item within the transaction. Throws errors that fail the whole commit; returns those that concern only this item.
    private func store(_ item: Waiting.Item, _ db: Database) throws -> Outcome {
        switch item.work {
        case .append(let batch), .seal(let batch):
            let (last, epoch) = registry[item.namespace].map { ($0.last, $0.epoch) } ?? (0, 0)
            if batch.id != 0, batch.sequence <= last, let known = registry[item.namespace], try isStored(batch, known.id, db) {
                return (.success(()), 0, false)
            }
            guard batch.epoch >= epoch else { return (.failure(.superseded(epoch: batch.epoch, newest: epoch)), 0, true) }
            guard batch.expectedLast == last, batch.sequence > last, batch.sequence <= Int64.max else {
                return (.failure(misplaced(batch, last)), 0, true)
            }
            var known = try register(item.namespace, db)
            if batch.epoch > epoch {
                known.epoch = batch.epoch
                try db.execute(sql: "UPDATE namespace SET epoch = ? WHERE id = ?", arguments: [Int64(clamping: batch.epoch), known.id])
            }
            let written = batch.staged.isEmpty ? try storeRows(of: batch, known.id, db) : try storeSealed(batch, known.id, db)
            if let setting = batch.setting { try store(setting.value, setting: setting.name, of: item.namespace, db) }
            known.last = batch.sequence
            registry.set(known, for: item.namespace)
            return (.success(()), written, true)
        case .slice(let staging): return (.success(()), try store(staging, db), true)
        case .put(let name, let value):
            try store(value, setting: name, of: item.namespace, db)
            return (.success(()), value?.count ?? 0, true)
        case .step(let step): return (.success(()), try store(step, db), true)
        case .taking(let step): return (.success(()), try store(step, db), true)
        case .truncate(let sequence):
            guard let known = registry[item.namespace] else { break }
            // Keep batches after the snapshot: they are stored nowhere else.
            let statement = try db.cachedStatement(sql: "DELETE FROM batch WHERE namespace = ? AND sequence <= ?")
            try statement.execute(arguments: [known.id, Int64(clamping: min(sequence, known.snapshotSequence))])
        case .snapshot, .close: break
        }
        return (.success(()), 0, true)
    }

    /// The error for a batch that does not follow the last one: another writer has written, or the batch before was abandoned at the end.
    func misplaced(_ batch: JournalBatch, _ last: UInt64) -> JournalError {
        waiting.withLock(\.isLate) ? .closed : .conflict(expected: batch.expectedLast, last: last)
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
        var encoder = BatchEncoder(batch.operations[...], settings.batches, starts: batch.starts[...])
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

    func register(_ namespace: String, _ db: Database) throws -> Registry.Row {
        if let known = registry[namespace] { return known }
        try db.execute(sql: "INSERT INTO namespace (name) VALUES (?)", arguments: [namespace])
        return Registry.Row(id: db.lastInsertedRowID, last: 0, snapshotSequence: 0, epoch: 0)
    }
}
