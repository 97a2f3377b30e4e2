import Dispatch
import GRDB
import Journal

/// The followers of all journals: each first reads the stored batches after its position, then receives new ones with their commits.
/// Confined to the journal queue, except `tail`.
///
///     tail ─► proceed ─► read up to 1 MiB ─► proceed … ─► no more: live, receives each batch that is appended
final class Tails: @unchecked Sendable {
    // Sendable: the variables are confined to the journal queue; the rest is immutable.

    /// Most stored bytes that are read for a follower in one step.
    private static let bytesAtOnce = 1 << 20

    private let journal: JournalQueue
    let registry: Registry
    private let reader: DatabaseQueue
    /// The followers of each namespace that have received all stored batches.
    private(set) var live: [String: [Follower]] = [:]

    init(_ journal: JournalQueue, _ registry: Registry, reader: DatabaseQueue) {
        self.journal = journal
        self.registry = registry
        self.reader = reader
    }

    /// Follows a journal. From any thread.
    func tail(_ namespace: String, from position: UInt64, _ receive: @escaping @Sendable (TailEvent) -> Void) -> JournalTail {
        let follower = Follower(from: position, receive)
        if journal.isClosed(namespace) {
            JournalQueue.refusals.async { follower.end(.closed) }
        } else {
            journal.queue.async(execute: journal.retaining { [self] in proceed(follower, namespace) })
        }
        return follower.handle
    }

    /// Passes a batch that has become durable to the live followers.
    func appended(_ batch: JournalBatch, to namespace: String) {
        for follower in live[namespace] ?? [] { follower.receive(batch) }
    }

    /// Ends the live followers of a journal that is closed.
    func close(_ namespace: String) {
        journal.assertCurrent()
        for follower in live.removeValue(forKey: namespace) ?? [] { follower.end(.closed) }
    }

    func closeAll() {
        journal.assertCurrent()
        for follower in live.values.joined() { follower.end(.closed) }
        live = [:]
    }

    /// Reads the next batches, or joins the live followers after the last stored batch.
    private func proceed(_ follower: Follower, _ namespace: String) {
        journal.assertCurrent()
        if follower.handle.isCancelled { return }
        if journal.isClosed(namespace) { return follower.end(.closed) }
        let last = registry.last(of: namespace)
        guard follower.position < last, let known = registry[namespace] else {
            if follower.position > last { return follower.end(.conflict(expected: follower.position, last: last)) }
            live[namespace, default: []].removeAll { $0.handle.isCancelled }
            live[namespace, default: []].append(follower)
            return
        }
        let position = follower.position
        reader.asyncWriteWithoutTransaction { [self] db in
            let read = Result<[JournalBatch], any Error> {
                try db.inReadTransaction { try batches(of: known, namespace, after: position, db) }
            }
            journal.queue.async(execute: journal.retaining { [self] in
                switch read {
                case .success(let batches):
                    for batch in batches { follower.receive(batch) }
                    proceed(follower, namespace)
                case .failure(let error): follower.end(JournalError(error, opening: journal.path))
                }
            })
        }
    }

    /// Reads some batches after a position, at least one.
    private func batches(of known: Registry.Row, _ namespace: String, after position: UInt64, _ db: Database) throws -> [JournalBatch] {
        struct StopReading: Error {}
        var batches: [JournalBatch] = []
        var (operations, starts): ([JournalOperation], [Int]) = ([], [])
        var bytes = 0
        do {
            try StoredBatches(namespace: known.id, after: position).forEach(db) { part in
                guard part.isIntact, (try? operations.append(entries: part.operations, starts: &starts)) != nil,
                    UInt64(starts.count) < part.sequence - part.previous
                else {
                    throw PlaceFault(place: part.check.place)
                }
                bytes += part.operations.count
                guard part.isLast else { return }
                batches.append(JournalBatch(
                    sequence: part.sequence, after: part.previous, operations: operations, starts: starts, id: part.mark.id,
                    epoch: part.mark.epoch))
                (operations, starts) = ([], [])
                if bytes >= Self.bytesAtOnce { throw StopReading() }
            }
        } catch is StopReading {
        } catch let fault as PlaceFault {
            guard batches.isEmpty else { return batches }
            // The batches were removed, never existed, or are damaged.
            let first = try Int64.fetchOne(
                db, sql: "SELECT previous FROM batch WHERE namespace = ? AND sequence > ? ORDER BY sequence LIMIT 1",
                arguments: [known.id, Int64(clamping: position)])
            let snapshot = (try? SnapshotManifest.stored(of: known.id, db))?.sequence ?? 0
            if position < snapshot { throw JournalError.truncated(upTo: snapshot) }
            if let first, first < Int64(clamping: position) { throw JournalError.conflict(expected: position, last: known.last) }
            throw JournalError.corrupt(path: journal.path, place: "\(fault.place) of namespace \(namespace)")
        }
        if batches.isEmpty { throw JournalError.truncated(upTo: known.snapshotSequence) }
        return batches
    }
}
