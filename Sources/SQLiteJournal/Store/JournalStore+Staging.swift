import Dispatch
import GRDB
import Journal
import JSONTree
import Synchronization

/// Stores operations that are too many for one transaction, or must not be committed yet: a stage. Its rows are stored
/// outside the log, a slice at a time, while other commits continue; then one small row in the log makes them part of a batch.
/// Until that row is durable the parts have no effect: a start finds parts without it and removes them.
///
///     encoding queue    encode ──┐        encode ──┐                 │
///     journal queue        store slice 1     store slice 2   …    the stage ─► kept until its batch is known
///                                                                  └► for a waiting batch: the row in the log
///
/// A part's checksum identifies its stage and number, but nothing of the log: the commit before the batch is not known yet.
final class Staging: @unchecked Sendable {
    // Sendable: passed between two queues, which never use it at the same time.
    let number: Int64
    /// Whether an appended batch waits for it: then it completes even when the store is about to close.
    let isOfBatch: Bool
    let completion: @Sendable (Result<JournalStage, JournalError>) -> Void
    private var encoder: BatchEncoder
    private let sliceBytes: Int
    /// The rows to be stored next.
    private(set) var rows: [(number: Int, checksum: UInt32, bytes: [UInt8])] = []
    /// Bytes of those rows.
    private(set) var bytes = 0
    /// Bytes of all rows so far.
    private(set) var total = 0
    /// Rows so far.
    private(set) var count = 0

    init(
        _ operations: ArraySlice<JournalOperation>, starts: ArraySlice<Int>, number: Int64, sliceBytes: Int, isOfBatch: Bool,
        _ completion: @escaping @Sendable (Result<JournalStage, JournalError>) -> Void
    ) {
        (self.number, self.sliceBytes, self.isOfBatch, self.completion) = (number, sliceBytes, isOfBatch, completion)
        encoder = BatchEncoder(operations, BatchParts(fullBytes: sliceBytes / 4, largeBytes: sliceBytes / 4), starts: starts)
    }

    /// Encodes the next slice; false when none is left. On the encoding queue.
    func encodeNext() -> Bool {
        (rows, bytes) = ([], 0)
        while bytes < sliceBytes, let (row, _) = encoder.next() {
            let stored = StoredRow.part(stage: number, number: count)
            rows.append((count, row.withUnsafeBytes(stored.checksum), row))
            bytes += row.count
            count += 1
        }
        total += bytes
        return !rows.isEmpty
    }
}

extension JournalStore {
    /// Stores operations outside the log. On the journal queue.
    /// - Parameters:
    ///   - starts: where commits begin between the operations.
    ///   - completion: on the journal queue or, when the store is closed, on another.
    func stage(
        _ operations: ArraySlice<JournalOperation>, starts: ArraySlice<Int> = [], isOfBatch: Bool,
        _ completion: @escaping @Sendable (Result<JournalStage, JournalError>) -> Void
    ) {
        dispatchPrecondition(condition: .onQueue(queue))
        let staging = Staging(
            operations, starts: starts, number: nextStage, sliceBytes: settings.sliceBytes, isOfBatch: isOfBatch, completion)
        nextStage += 1
        openStages.insert(staging.number)
        advance(staging)
    }

    /// Runs `body` on the journal queue, in order with the commits. A block put on that queue directly could wait for ever while
    /// commits keep arriving.
    func afterCommits(_ body: @escaping @Sendable () -> Void) { onQueue { _ in body() } }

    /// Encodes the next slice and enqueues it for a commit.
    private func advance(_ staging: Staging) {
        encoding.async { [self] in
            guard staging.encodeNext() else {
                let (number, parts, bytes) = (staging.number, staging.count, staging.total)
                let stage = JournalStage(number: number, parts: parts, bytes: bytes) { [weak self] isSealed in
                    self?.end(stage: number, isUsed: isSealed)
                }
                return afterCommits { staging.completion(.success(stage)) }
            }
            enqueue(Waiting.Item(namespace: "", work: .slice(staging)) { [self] result in
                guard case .failure(let error) = result else { return advance(staging) }
                end(stage: staging.number, isUsed: false)
                // On a late close the store refuses the slice on another queue and waits for the end of the batch.
                if staging.isOfBatch, error == .closed { return afterCommits { staging.completion(.failure(error)) } }
                staging.completion(.failure(error))
            })
        }
    }

    /// Ends a released stage. On any queue.
    private func end(stage number: Int64, isUsed: Bool) {
        afterCommits { [weak self] in
            guard let self else { return }
            openStages.remove(number)
            if !isUsed, !waiting.withLock({ $0.isClosed }) { removeUnusedParts() }
        }
    }

    // MARK: Large batches

    /// Whether a batch is stored in slices. O(`sliceBytes`)
    func isLarge(_ batch: JournalBatch) -> Bool {
        var room = settings.sliceBytes
        return !batch.takes(from: &room)
    }

    /// Begins to store a large batch once everything of its namespace before it is durable; false when the batch does not follow it.
    /// On the journal queue.
    func begin(_ batch: JournalBatch, _ item: Waiting.Item) -> Bool {
        let last = registry[item.namespace]?.last ?? 0
        guard batch.expectedLast == last, batch.sequence > last, Int64(exactly: batch.sequence) != nil else {
            item.completion(.failure(misplaced(batch, last)))
            return false
        }
        staging.insert(item.namespace)
        staged.enter()
        stageRest(of: batch, item)
        return true
    }

    /// Stages the unstored runs one by one until the rest is small; then the batch goes to the log.
    private func stageRest(of batch: JournalBatch, _ item: Waiting.Item) {
        guard isLarge(batch), let run = batch.runs.first(where: { $0.stage == nil && !$0.operations.isEmpty }) else {
            return enqueue(Waiting.Item(namespace: item.namespace, work: .seal(batch)) { [self] result in finish(item, result) })
        }
        // The rows before and after the run contain the commits that begin at its ends.
        let starts = run.starts.drop { $0 <= run.operations.startIndex }.prefix { $0 < run.operations.endIndex }
        stage(run.operations, starts: starts, isOfBatch: true) { [self] result in
            switch result {
            case .success(let stage):
                var batch = batch
                batch.staged.append(.init(run.operations.indices, stage))
                batch.staged.sort { $0.range.lowerBound < $1.range.lowerBound }
                stageRest(of: batch, item)
            case .failure(let error): finish(item, .failure(error))
            }
        }
    }

    /// Completes a large batch. On the journal queue.
    private func finish(_ item: Waiting.Item, _ result: Result<Void, JournalError>) {
        staging.remove(item.namespace)
        if case .failure = result { removal.mayHaveUnusedParts = true }
        item.completion(result)
        staged.leave()
    }

    /// Stores the rows of a slice within a transaction on the journal queue. Returns the bytes written.
    func store(_ staging: Staging, _ db: Database) throws -> Int {
        let insert = try RawStatement(db, cached: "INSERT INTO part (stage, number, checksum, operations) VALUES (?, ?, ?, ?)")
        for row in staging.rows { try insert.run([staging.number, Int64(row.number), Int64(row.checksum)], blob: row.bytes) }
        return staging.bytes
    }

    /// Stores a batch with staged parts: rows that refer to stages, between the rows of unstaged operations. Within a
    /// transaction on the journal queue. Returns the bytes written.
    func storeSealed(_ batch: JournalBatch, _ namespace: Int64, _ db: Database) throws -> Int {
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
            var encoder = BatchEncoder(run.operations, settings.batches, starts: run.starts)
            while let (bytes, isLast) = encoder.next() { try store(bytes, isLast: isLast && isLastRun, nil) }
        }
        return written
    }
}
