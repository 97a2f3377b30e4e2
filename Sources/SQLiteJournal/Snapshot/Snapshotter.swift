import Dispatch
import GRDB
import Journal
import Scheduling

/// A snapshot's part of a commit.
enum SnapshotStep: Sendable {
    case chunks(SnapshotRun)
    /// The new list of chunks replaces the old one.
    case replace(SnapshotRun)
}

/// Stores snapshots while commits continue, one at a time for each namespace. Confined to the journal queue.
///
/// ```
/// appended ─► the log has grown: the database is asked for its tree ─► begin ─► start
///     start ─► advance: encode, commit some chunks, pause … ─► the new list replaces the old one ─► removeLeftovers (Remover)
///                         └─ a failure: the stored snapshot stays, and its changes are recorded again
/// ```
final class Snapshotter: @unchecked Sendable {
    // Sendable: the variables are confined to the journal queue; the rest is immutable.

    typealias Completion = @Sendable (Result<Void, JournalError>) -> Void

    /// Queue on which snapshots are encoded.
    let encoding: DispatchQueue
    private let journal: JournalQueue
    private let registry: Registry
    private let remover: Remover
    private let totals: WrittenTotals
    private let scheduler: Scheduler
    private let settings: JournalStore.Settings
    private var states: [String: SnapshotState] = [:]
    /// Number of namespaces with a snapshot in progress.
    private var runs = 0
    /// Whether the process is about to end: snapshots in progress are abandoned, and only small ones begin.
    private var isEnding = false

    init(
        _ journal: JournalQueue, _ registry: Registry, _ remover: Remover, _ totals: WrittenTotals, _ scheduler: Scheduler,
        encoding: DispatchQueue, _ settings: JournalStore.Settings
    ) {
        self.journal = journal
        self.registry = registry
        self.remover = remover
        self.totals = totals
        self.scheduler = scheduler
        self.encoding = encoding
        self.settings = settings
    }

    /// Whether a snapshot is in progress.
    var isUnderWay: Bool { runs > 0 }

    /// The process is about to end.
    func prepareToClose() {
        journal.assertCurrent()
        isEnding = true
    }

    /// Takes over the state that a recovery has read.
    /// - Parameter hasLeftovers: whether a kill has left unused rows.
    func recovered(_ state: SnapshotState, of namespace: String, hasLeftovers: Bool) {
        journal.assertCurrent()
        // A state that this store has created while writing is newer.
        if states[namespace] == nil { states[namespace] = state }
        if hasLeftovers { removeLeftovers(of: namespace, keeping: nil) }
    }

    /// Keeps chunks that an import stores, which no list contains yet.
    func beginImport(of namespace: String) {
        journal.assertCurrent()
        state(of: namespace).isImporting = true
    }

    /// - Parameter isCommitted: whether the imported chunks have replaced the namespace's content. If not, they are removed.
    func endImport(of namespace: String, isCommitted: Bool) {
        journal.assertCurrent()
        // Changes recorded for the previous content no longer apply.
        if isCommitted { states[namespace] = nil } else { state(of: namespace).isImporting = false }
        removeLeftovers(of: namespace, keeping: nil)
    }

    private func state(of namespace: String) -> SnapshotState {
        if let state = states[namespace] { return state }
        let state = SnapshotState()
        // A snapshot that was not recovered is replaced as a whole.
        state.sequence = registry[namespace]?.snapshotSequence ?? 0
        states[namespace] = state
        return state
    }

    /// For tests: bytes that a snapshot of the namespace would write.
    func unsavedBytes(of namespace: String) -> Int? { states[namespace]?.unsavedBytes }

    // MARK: When a snapshot is due

    /// Sets what is called when a snapshot is due, and calls it if one is.
    func whenDue(_ namespace: String, _ ask: @escaping @Sendable () -> Void) {
        journal.assertCurrent()
        let state = state(of: namespace)
        state.whenDue = ask
        requestIfDue(state)?()
    }

    /// Records a batch that has become durable.
    /// - Returns: what must be called, as the log has grown enough for a snapshot.
    func appended(_ batch: JournalBatch, to namespace: String, bytes: Int) -> (@Sendable () -> Void)? {
        let state = state(of: namespace)
        state.record(batch, bytes: batch.staged.reduce(bytes) { $0 + $1.stage.bytes })
        return requestIfDue(state)
    }

    private func requestIfDue(_ state: SnapshotState) -> (@Sendable () -> Void)? {
        guard let ask = state.whenDue, state.isDue(settings), !isEnding else { return nil }
        state.isRequested = true
        return ask
    }

    // MARK: A snapshot

    /// Begins a snapshot, or queues it behind the one in progress. In the order of appends.
    func begin(_ snapshot: JournalSnapshot, of namespace: String, _ completion: @escaping Completion) {
        journal.assertCurrent()
        let last = registry.last(of: namespace)
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

    private func start(_ snapshot: JournalSnapshot, of namespace: String, _ state: SnapshotState, _ completion: @escaping Completion) {
        // Nothing was ever written, or nothing since the last snapshot.
        guard let known = registry[namespace], known.snapshotSequence < snapshot.sequence else {
            state.isRequested = false
            return completion(.success(()))
        }
        let run = SnapshotRun(
            namespace, snapshot, layout: state.layout, sizes: settings.chunks, pace: SnapshotPace(totals.operations), isLast: isEnding,
            completion: completion)
        state.run = run
        runs += 1
        state.isRequested = true
        (state.journalBytes, state.journalBatches) = (0, 0)
        // If the snapshot waited and is older than the last commit, the changes since then stay recorded.
        if known.last == snapshot.sequence { state.layout.settle() }
        advance(run)
    }

    /// Encodes the next chunks and enqueues them for a commit.
    private func advance(_ run: SnapshotRun, after pauseNs: Int64 = 0) {
        // Retains the store, also during the pause, so that the completion of the snapshot is called.
        let next = journal.retaining { [self] in
            run.pace.beganNs = scheduler.steadyNs
            let step: SnapshotStep = run.encodeNext(most: run.pace.bytes(settings)) ? .chunks(run) : .replace(run)
            journal.enqueue(Waiting.Item(namespace: run.namespace, work: .step(step)) { [self] result in completed(step, run, result) })
        }
        if pauseNs > 0 { scheduler.after(ns: pauseNs, on: encoding, next) } else { encoding.async(execute: next) }
    }

    /// Stores a step within a transaction. Returns the bytes written.
    func store(_ step: SnapshotStep, _ db: Database) throws -> Int {
        journal.assertCurrent()
        switch step {
        case .chunks(let run), .replace(let run): if run.isDropped { return 0 }
        }
        switch step {
        case .chunks(let run):
            guard let known = registry[run.namespace] else { return 0 }
            let insert = try RawStatement(db, cached: "INSERT INTO chunk (namespace, entries) VALUES (?, ?)")
            try run.store { chunk in
                try insert.run([known.id], blob: chunk)
                return db.lastInsertedRowID
            }
            return run.bytes + 4096
        case .replace(let run):
            guard var known = registry[run.namespace], let sequence = Int64(exactly: run.snapshot.sequence) else { return 0 }
            let bytes = try run.manifest.store(of: known.id, sequence: sequence, db)
            known.snapshotSequence = run.snapshot.sequence
            registry.set(known, for: run.namespace)
            return bytes + 4096
        }
    }

    /// Handles the result of a step's commit: durable, or failed.
    private func completed(_ step: SnapshotStep, _ run: SnapshotRun, _ result: Result<Void, JournalError>) {
        if case .failure(.closed) = result { return abandon(run) }
        journal.assertCurrent()
        if run.isDropped {
            runs -= 1
            return run.completion(.failure(.closed))
        }
        let state = state(of: run.namespace)
        switch (step, result) {
        case (.chunks, .success):
            let bytes = run.bytes
            run.keepStored()
            if isEnding, !run.isLast { return giveUp(run, state) }
            advance(run, after: run.pace.pauseNs(after: bytes, totals.operations, now: scheduler.steadyNs))
        case (.replace, .success):
            var layout = ChunkLayout(run.manifest.tree)
            layout.recordChanges(of: state.layout)
            (state.layout, state.sequence, state.snapshotBytes) = (layout, run.snapshot.sequence, run.manifest.bytes)
            finish(run, state, result)
            removeLeftovers(of: run.namespace, keeping: run.manifest)
        case (_, .failure):
            state.layout.restore(run.before)
            finish(run, state, result)
            removeLeftovers(of: run.namespace, keeping: nil)
        }
    }

    private func finish(_ run: SnapshotRun, _ state: SnapshotState, _ result: Result<Void, JournalError>) {
        state.run = nil
        runs -= 1
        state.isRequested = false
        run.completion(result)
        // A snapshot without changes ends at once, so that the next one may start.
        while state.run == nil, !state.next.isEmpty {
            let (snapshot, completion) = state.next.removeFirst()
            start(snapshot, of: run.namespace, state, completion)
        }
    }

    // MARK: Abandoned snapshots

    /// Abandons the snapshots of a namespace that was removed, and removes its rows.
    func drop(_ namespace: String) {
        journal.assertCurrent()
        if let state = states.removeValue(forKey: namespace) {
            state.run?.isDropped = true
            for (_, completion) in state.next { completion(.failure(.closed)) }
        }
        removeDropped()
    }

    /// Removes the rows of removed namespaces, between later commits.
    func removeDropped() {
        journal.run { [registry, remover] db in
            for known in registry.removed.values {
                // After a failed read the next start removes the rows.
                guard let chunks = try? SnapshotTrim.chunks(of: known.id, db) else { continue }
                remover.remove(SnapshotTrim(namespace: known.id, sequence: .max, chunks: chunks[...], isOfRemoved: true))
            }
        }
    }

    /// The store was closed; the next start removes the chunks of the incomplete snapshot. Calls the completions of this snapshot and of
    /// the queued ones, not on the journal queue.
    private func abandon(_ run: SnapshotRun) {
        JournalQueue.refusals.async { [self] in
            let behind = journal.queue.sync {
                let state = state(of: run.namespace)
                defer { (state.next, state.isAbandoned) = ([], true) }
                return state.next
            }
            for completion in [run.completion] + behind.map(\.completion) { completion(.failure(.closed)) }
        }
    }

    /// Abandons a snapshot because the process is about to end: the next start replays the log, and removes these chunks.
    private func giveUp(_ run: SnapshotRun, _ state: SnapshotState) {
        state.layout.restore(run.before)
        state.isAbandoned = true
        let behind = state.next
        state.next = []
        finish(run, state, .failure(.closed))
        for (_, completion) in behind { completion(.failure(.closed)) }
    }

    /// Removes the batches that the snapshot contains and the chunks that it does not list.
    /// - Parameter manifest: nil to keep the stored one's chunks.
    private func removeLeftovers(of namespace: String, keeping manifest: SnapshotManifest?) {
        guard let known = registry[namespace], states[namespace]?.hasUnlistedChunks != true else { return }
        journal.run { [self] db in
            // After a failed read the leftovers are removed after the next snapshot or at the next start.
            guard registry[namespace]?.id == known.id,
                let kept = try? manifest ?? SnapshotManifest.stored(of: known.id, db)?.manifest ?? SnapshotManifest(),
                let all = try? SnapshotTrim.chunks(of: known.id, db)
            else { return }
            // A snapshot that has begun meanwhile stores chunks that no manifest lists yet; it removes the leftovers when it ends.
            guard states[namespace]?.hasUnlistedChunks != true else { return }
            let listed = Set(kept.chunks.map(\.id))
            let chunks = all.filter { !listed.contains($0.id) }
            remover.remove(SnapshotTrim(namespace: known.id, sequence: known.snapshotSequence, chunks: chunks[...]))
        }
    }
}
