import Dispatch
import struct Foundation.Data
import GRDB
import Journal
import JSONTree
import Scheduling

extension JournalStore {
    /// The store's own work within a commit.
    enum SnapshotStep: Sendable {
        case chunks(SnapshotRun)
        /// The new list of chunks replaces the old one.
        case replace(SnapshotRun)
        /// Removes some of the data that is no longer needed.
        case remove
    }

    func state(of namespace: String) -> SnapshotState {
        if let state = states[namespace] { return state }
        let state = SnapshotState()
        // A snapshot that was not recovered is replaced as a whole.
        state.sequence = registry[namespace]?.snapshotSequence ?? 0
        states[namespace] = state
        return state
    }

    /// Requests the tree when the log has grown enough. On the journal queue.
    func requestSnapshotIfDue(_ state: SnapshotState) {
        guard let ask = state.whenDue, state.isDue(settings), !isEnding else { return }
        state.isRequested = true
        ask()
    }

    /// Begins a snapshot, or queues it behind the one in progress. On the journal queue, in the order of appends.
    func begin(_ snapshot: JournalSnapshot, of namespace: String, _ completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        dispatchPrecondition(condition: .onQueue(queue))
        let last = registry[namespace]?.last ?? 0
        let state = state(of: namespace)
        if state.isAbandoned || isEnding && !state.isSmall(settings) { return completion(.failure(.closed)) }
        guard snapshot.sequence == last else {
            state.isRequested = state.run != nil
            return completion(.failure(.conflict(expected: snapshot.sequence, last: last)))
        }
        if state.run != nil {
            state.next.append((snapshot, completion))
        } else {
            start(snapshot, of: namespace, state, completion)
        }
    }

    private func start(
        _ snapshot: JournalSnapshot, of namespace: String, _ state: SnapshotState,
        _ completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
    ) {
        // Nothing was ever written, or nothing since the last snapshot.
        guard let known = registry[namespace], known.snapshotSequence < snapshot.sequence else {
            state.isRequested = false
            return completion(.success(()))
        }
        let run = SnapshotRun(
            namespace, snapshot, layout: state.layout, sizes: settings.chunks, pace: SnapshotPace(written), isLast: isEnding,
            completion: completion)
        state.run = run
        snapshotsUnderWay += 1
        state.isRequested = true
        (state.journalBytes, state.journalBatches) = (0, 0)
        // If the snapshot waited and is older than the last commit, the changes since then stay recorded.
        if known.last == snapshot.sequence { state.layout.settle() }
        advance(run)
    }

    /// Encodes the next chunks and enqueues them for a commit.
    private func advance(_ run: SnapshotRun, after pauseNs: Int64 = 0) {
        // Retains the store, also during the pause, so that the completion of the snapshot is called.
        let next = { @Sendable [self] in
            run.pace.beganNs = scheduler.steadyNs
            let step: SnapshotStep = run.encodeNext(most: run.pace.bytes(settings)) ? .chunks(run) : .replace(run)
            enqueue(Waiting.Item(namespace: run.namespace, work: .step(step)) { [self] result in completed(step, result) })
        }
        if pauseNs > 0 { scheduler.after(ns: pauseNs, on: snapshots, next) } else { snapshots.async(execute: next) }
    }

    /// Stores a step within a transaction on the journal queue. Returns the bytes written.
    func store(_ step: SnapshotStep, _ db: Database) throws -> Int {
        switch step {
        case .chunks(let run):
            guard let known = registry[run.namespace] else { return 0 }
            let insert = try RawStatement(db, cached: "INSERT INTO chunk (namespace, entries) VALUES (?, ?)")
            run.stored = []
            for bytes in run.encoded {
                try insert.run([known.id], blob: bytes)
                let checksum = bytes.withUnsafeBytes(StoredChunk.checksum)
                run.stored.append(StoredChunk(id: db.lastInsertedRowID, bytes: bytes.count, checksum: checksum))
            }
            return run.bytes + 4096
        case .replace(let run):
            guard var known = registry[run.namespace], let sequence = Int64(exactly: run.snapshot.sequence) else { return 0 }
            let manifest = run.manifest.encoded()
            try db.execute(
                sql: "INSERT OR REPLACE INTO snapshot (namespace, sequence, checksum, manifest) VALUES (?, ?, ?, ?)",
                arguments: [known.id, sequence, Int64(Self.checksum(manifest, sequence: run.snapshot.sequence)), Data(manifest)])
            known.snapshotSequence = run.snapshot.sequence
            registry.set(known, for: run.namespace)
            return manifest.count + 4096
        case .remove: return try removeNext(db)
        }
    }

    /// Handles the result of a step's commit: durable, or failed. On the journal queue.
    func completed(_ step: SnapshotStep, _ result: Result<Void, JournalError>) {
        if case .failure(.closed) = result { return abandon(step) }
        switch (step, result) {
        case (.chunks(let run), .success):
            let bytes = run.bytes
            run.keepStored()
            if isEnding, !run.isLast { return giveUp(run) }
            advance(run, after: run.pace.pauseNs(after: bytes, written, now: scheduler.steadyNs))
        case (.replace(let run), .success):
            let state = state(of: run.namespace)
            var layout = ChunkLayout(run.manifest.tree)
            layout.recordChanges(of: state.layout)
            (state.layout, state.sequence, state.snapshotBytes) = (layout, run.snapshot.sequence, run.manifest.bytes)
            finish(run, state, result)
            removeLeftovers(of: run.namespace, keeping: run.manifest)
        case (.chunks(let run), .failure), (.replace(let run), .failure):
            let state = state(of: run.namespace)
            state.layout.restore(run.before)
            finish(run, state, result)
            removeLeftovers(of: run.namespace, keeping: nil)
        case (.remove, _): completedRemoval(result)
        }
    }

    /// The store was closed; the next start removes the chunks of the incomplete snapshot. Calls the completions of this snapshot and of the
    /// queued ones, not on the journal queue.
    private func abandon(_ step: SnapshotStep) {
        switch step {
        case .chunks(let run), .replace(let run):
            Self.refusals.async { [self] in
                let behind = queue.sync {
                    let state = state(of: run.namespace)
                    defer { (state.next, state.isAbandoned) = ([], true) }
                    return state.next
                }
                for completion in [run.completion] + behind.map(\.completion) { completion(.failure(.closed)) }
            }
        case .remove: return
        }
    }

    /// Abandons a snapshot because the process is about to end: the next start replays the log, and removes these chunks.
    private func giveUp(_ run: SnapshotRun) {
        let state = state(of: run.namespace)
        state.layout.restore(run.before)
        state.isAbandoned = true
        let behind = state.next
        state.next = []
        finish(run, state, .failure(.closed))
        for (_, completion) in behind { completion(.failure(.closed)) }
    }

    private func finish(_ run: SnapshotRun, _ state: SnapshotState, _ result: Result<Void, JournalError>) {
        state.run = nil
        snapshotsUnderWay -= 1
        state.isRequested = false
        run.completion(result)
        // A snapshot without changes ends at once, so that the next one may start.
        while state.run == nil, !state.next.isEmpty {
            let (snapshot, completion) = state.next.removeFirst()
            start(snapshot, of: run.namespace, state, completion)
        }
    }

    /// The stored snapshot's list of chunks; nil when there is no snapshot.
    /// - Throws: `PlaceFault`.
    static func storedManifest(of namespace: Int64, _ db: Database) throws -> (manifest: SnapshotManifest, sequence: UInt64)? {
        guard let row = try Row.fetchOne(
            db, sql: "SELECT sequence, checksum, manifest FROM snapshot WHERE namespace = ?", arguments: [namespace])
        else { return nil }
        let fault = PlaceFault(place: "list of the snapshot's parts")
        guard let stored = Int64.fromDatabaseValue(row[0]), let sequence = UInt64(exactly: stored) else { throw fault }
        let bytes = try row.withBytes(2) { Array($0) }
        guard Int64.fromDatabaseValue(row[1]) == Int64(checksum(bytes, sequence: sequence)) else { throw fault }
        let manifest = bytes.withUnsafeBytes { bytes in try? SnapshotManifest(bytes) }
        guard let manifest else { throw fault }
        return (manifest, sequence)
    }

    static func checksum(_ manifest: [UInt8], sequence: UInt64) -> UInt32 {
        var crc = CRC32()
        crc.add(sequence)
        manifest.withUnsafeBytes { crc.add($0) }
        return crc.value
    }
}
