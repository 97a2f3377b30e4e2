import Dispatch
import HubEngine
import Journal
import JSONTree
import Logging
import Scheduling
import Synchronization

/// The durable side of a server: one journal for each namespace in one data folder.
final class DataStore: Sendable {
    private let store: JournalStore
    private let logger: Logger

    init(folder: String, durability: Durability, acceptsLoss: Bool, scheduler: Scheduler, logger: Logger) throws(ServerError) {
        self.logger = logger
        if durability == .normal { logger.notice("durability normal: a power cut may take the last moments of acknowledged writes") }
        let settings = JournalStore.Settings(durability: durability, acceptsLoss: acceptsLoss)
        do {
            store = try JournalStore.open(folder: folder, settings: settings, scheduler: scheduler)
        } catch { throw .cannotOpen("\(error)") }
        if let finding = store.finding { logger.error("the data was damaged", metadata: ["finding": "\(finding)"]) }
    }

    /// Rules, secrets and other settings that outlive the process.
    var settings: any SettingStore { store }

    /// Recovers a namespace's content and opens its journal. Blocks while it reads; call once for each namespace.
    func open(_ name: String) throws(JournalError) -> (recovered: Recovered, log: CommitJournal) {
        let recovered = try store.recover(name)
        if recovered.sequence > 0 {
            logger.info("recovered", metadata: [
                "namespace": "\(name)", "commits": "\(recovered.sequence)", "replayed": "\(recovered.replayed)",
                "disconnects": "\(recovered.pending.count)"])
        }
        return (recovered, CommitJournal(store.journal(for: name), namespace: name, logger: logger))
    }

    /// Closes the store behind everything appended before, and unlocks its folder. Calls back on a queue of its own.
    func close(_ done: @escaping @Sendable () -> Void) {
        // Not on the journal queue, which the store waits for.
        DispatchQueue.global().async { [store, logger] in
            do { try store.close() } catch { logger.error("the data could not be closed", metadata: ["reason": "\(error)"]) }
            done()
        }
    }
}

/// Writes a database's commits to its journal: one batch of commits is one row.
final class CommitJournal: CommitLog {
    private let journal: SQLiteJournal
    private let namespace: String
    private let logger: Logger
    /// Whether the last append failed. Only changes are logged: a full disk fails every write.
    private let isFailing = Atomic<Bool>(false)

    init(_ journal: SQLiteJournal, namespace: String, logger: Logger) {
        self.journal = journal
        self.namespace = namespace
        self.logger = logger
    }

    var isImmediate: Bool { false }

    func append(_ commits: [Commit], completion: @escaping @Sendable (Result<Void, CommitRefusal>) -> Void) {
        guard let first = commits.first, let last = commits.last else { return completion(.success(())) }
        var operations: [JournalOperation] = []
        var staged: [JournalBatch.StagedRange] = []
        for commit in commits {
            let start = operations.count
            for operation in commit.operations { operations.append(JournalOperation(operation)) }
            if let stage = commit.stage as? Staged { staged.append(.init(start..<operations.count, stage.stage)) }
            for change in commit.pending { operations.append(.pending(change)) }
        }
        let batch = JournalBatch(sequence: last.sequence, after: first.sequence - 1, operations: operations, staged: staged)
        journal.append(batch) { [self] result in
            logOutcome(result)
            completion(result.mapError(CommitRefusal.init))
        }
    }

    var stagedBytes: Int { journal.stagedBytes }

    func stage(
        _ operations: [(path: Path, part: TreeWrite.Part, value: Node)],
        completion: @escaping @Sendable (Result<any StagedOperations, CommitRefusal>) -> Void
    ) {
        // Not on the database queue, whose place it is to go on with others: there may be many of them.
        DispatchQueue.global().async { [journal] in
            journal.stage(operations.map(JournalOperation.init)) { result in
                completion(result.map { Staged($0) }.mapError(CommitRefusal.init))
            }
        }
    }

    private final class Staged: StagedOperations {
        let stage: JournalStage
        init(_ stage: JournalStage) { self.stage = stage }
    }

    private func logOutcome(_ result: Result<Void, JournalError>) {
        switch result {
        case .success:
            guard isFailing.exchange(false, ordering: .relaxed) else { return }
            logger.notice("writes are stored again", metadata: ["namespace": "\(namespace)"])
        case .failure(let error):
            guard !isFailing.exchange(true, ordering: .relaxed) else { return }
            logger.error(
                "writes cannot be stored: they are refused until the disk takes them, reads go on",
                metadata: ["namespace": "\(namespace)", "reason": "\(error)"])
        }
    }

    /// Makes a snapshot of the database whenever the log has grown enough, while commits go on.
    func makeSnapshots(of database: Database) {
        journal.whenSnapshotDue { [weak database, weak self] in
            guard let self, let database else { return }
            database.snapshot { root, sequence, pending in
                self.store(JournalSnapshot(root: root, sequence: sequence, pending: pending), "no snapshot") {}
            }
        }
    }

    /// Stores a last snapshot, so that the next start replays nothing, and closes the journal.
    func close(_ snapshot: JournalSnapshot, _ done: @escaping @Sendable () -> Void) {
        store(snapshot, "no snapshot at close") { [journal] in journal.close { _ in done() } }
    }

    private func store(_ snapshot: JournalSnapshot, _ fault: Logger.Message, _ done: @escaping @Sendable () -> Void) {
        journal.store(snapshot) { [logger, namespace] result in
            switch result {
            case .success: logger.debug("snapshot", metadata: ["namespace": "\(namespace)", "commits": "\(snapshot.sequence)"])
            case .failure(let error): logger.error(fault, metadata: ["namespace": "\(namespace)", "reason": "\(error)"])
            }
            done()
        }
    }
}

extension JournalOperation {
    fileprivate init(_ operation: (path: Path, part: TreeWrite.Part, value: Node)) {
        self = operation.part == .priority ? .priority(operation.path, operation.value) : .set(operation.path, operation.value)
    }
}

extension CommitRefusal {
    init(_ error: JournalError) {
        switch error {
        case .diskFull: self = .diskFull
        case .closed: self = .stopping
        case .unknown: self = .outcomeUnknown
        default: self = .diskFailed
        }
    }
}
