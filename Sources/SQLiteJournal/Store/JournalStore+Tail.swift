import Dispatch
import GRDB
import Journal
import Synchronization

/// One follower of a journal. Confined to the journal queue.
final class Follower: @unchecked Sendable {
    // Sendable: confined to the journal queue.
    let handle = JournalTail()
    private let receiver: @Sendable (TailEvent) -> Void
    /// The last commit that the follower has received.
    private(set) var position: UInt64

    init(from position: UInt64, _ receiver: @escaping @Sendable (TailEvent) -> Void) {
        self.position = position
        self.receiver = receiver
    }

    func receive(_ batch: JournalBatch) {
        if handle.isCancelled { return }
        position = batch.sequence
        receiver(.batch(batch))
    }

    func end(_ error: JournalError) {
        if !handle.isCancelled { receiver(.end(error)) }
    }
}

extension JournalStore {
    /// Most stored bytes that are read for a follower in one step.
    private static let tailBytes = 1 << 20

    func tail(_ namespace: String, from position: UInt64, _ receive: @escaping @Sendable (TailEvent) -> Void) -> JournalTail {
        let follower = Follower(from: position, receive)
        let isClosed = waiting.withLock { $0.isClosed || $0.closed.contains(namespace) }
        if isClosed {
            Self.refusals.async { follower.end(.closed) }
        } else {
            queue.async { [self] in proceed(follower, namespace) }
        }
        return follower.handle
    }

    /// Reads the next batches, or joins the live followers after the last stored batch. On the journal queue.
    private func proceed(_ follower: Follower, _ namespace: String) {
        if follower.handle.isCancelled { return }
        if waiting.withLock({ $0.isClosed || $0.closed.contains(namespace) }) { return follower.end(.closed) }
        let last = registry[namespace]?.last ?? 0
        guard follower.position < last, let known = registry[namespace] else {
            if follower.position > last { return follower.end(.conflict(expected: follower.position, last: last)) }
            tails[namespace, default: []].removeAll { $0.handle.isCancelled }
            tails[namespace, default: []].append(follower)
            return
        }
        let position = follower.position
        reader.asyncWriteWithoutTransaction { [self] db in
            let read = Result<[JournalBatch], any Error> { try Self.reading(db) { try batches(of: known, namespace, after: position, db) } }
            queue.async { [self] in
                switch read {
                case .success(let batches):
                    for batch in batches { follower.receive(batch) }
                    proceed(follower, namespace)
                case .failure(let error): follower.end(JournalError(error, opening: path))
                }
            }
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
                if bytes >= Self.tailBytes { throw StopReading() }
            }
        } catch is StopReading {
        } catch let fault as PlaceFault {
            guard batches.isEmpty else { return batches }
            // The batches were removed, never existed, or are damaged.
            let first = try Int64.fetchOne(
                db, sql: "SELECT previous FROM batch WHERE namespace = ? AND sequence > ? ORDER BY sequence LIMIT 1",
                arguments: [known.id, Int64(clamping: position)])
            let snapshot = (try? Self.storedManifest(of: known.id, db))?.sequence ?? 0
            if position < snapshot { throw JournalError.truncated(upTo: snapshot) }
            if let first, first < Int64(clamping: position) { throw JournalError.conflict(expected: position, last: known.last) }
            throw JournalError.corrupt(path: path, place: "\(fault.place) of namespace \(namespace)")
        }
        if batches.isEmpty { throw JournalError.truncated(upTo: known.snapshotSequence) }
        return batches
    }
}
