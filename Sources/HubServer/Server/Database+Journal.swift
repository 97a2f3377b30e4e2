import HubEngine
import Journal
import JSONTree
import Logging

/// The server's part of its databases' journals: snapshots, closing, and log lines.
extension Database {
    /// Writes a snapshot whenever the journal has grown enough, while commits continue.
    func makeSnapshots(_ logger: Logger) {
        journal.whenSnapshotDue { [weak self] in
            self?.journalSnapshot { [weak self] snapshot in if let snapshot { self?.store(snapshot, "no snapshot", logger) {} } }
        }
    }

    /// Stores a last snapshot behind all requests, if it is small, so that the next start replays nothing, and closes the journal.
    func close(_ logger: Logger, _ done: @escaping @Sendable () -> Void) {
        journalSnapshot(isLast: true) { [self] snapshot in
            guard let snapshot else { return journal.close { _ in done() } }
            store(snapshot, "no snapshot at close", logger) { [journal] in journal.close { _ in done() } }
        }
    }

    private func store(_ snapshot: JournalSnapshot, _ fault: Logger.Message, _ logger: Logger, _ done: @escaping @Sendable () -> Void) {
        journal.store(snapshot) { [name] result in
            switch result {
            case .success: logger.debug("snapshot", metadata: ["namespace": "\(name)", "commits": "\(snapshot.sequence)"])
            case .failure(.closed): logger.debug("no snapshot: the hub stops", metadata: ["namespace": "\(name)"])
            case .failure(let error): logger.error(fault, metadata: ["namespace": "\(name)", "reason": "\(error)"])
            }
            done()
        }
    }
}

extension JournalEvent {
    /// Logs one line per state change, because a full disk fails every write.
    func log(_ namespace: String, _ logger: Logger) {
        switch self {
        case .refuses(.conflict, let error):
            logger.critical(
                "another writer has written to the journal: this hub takes no writes, reads continue",
                metadata: ["namespace": "\(namespace)", "reason": "\(error)"])
        case .refuses(_, .closed): logger.debug("the journal is closed", metadata: ["namespace": "\(namespace)"])
        case .refuses(_, let error):
            logger.error(
                "writes cannot be stored: they are refused until the disk takes them, reads continue",
                metadata: ["namespace": "\(namespace)", "reason": "\(error)"])
        case .takesCommits: logger.notice("writes are stored again", metadata: ["namespace": "\(namespace)"])
        case .followingEnded(let error):
            logger.error(
                "this hub no longer receives the writer's commits: reads show an older state",
                metadata: ["namespace": "\(namespace)", "reason": "\(error)"])
        }
    }
}
