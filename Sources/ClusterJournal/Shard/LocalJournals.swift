import Journal
import SQLiteJournal
import Synchronization

/// The journals in this hub's data folder, which store the content of the cluster's logs and their positions.
final class LocalJournals: Sendable {
    /// The place from which a shard follows its log.
    struct Start {
        /// When the log was created; 0 when none was followed yet.
        var created: Int64 = 0
        /// All messages up to this one are applied.
        var complete = LogPlace()
        var ledger = Ledger()
    }

    let store: JournalStore
    private let starts: [Start]
    private let shards: Int
    private let journals = Mutex<[String: SQLiteJournal]>([:])

    /// Reads the positions of all namespaces. Blocks.
    /// - Throws: `.corrupt`, `.disk`, `.closed`; `.foreign` for content that did not come from a cluster's log.
    init(_ store: JournalStore, shards count: Int) throws(JournalError) {
        self.store = store
        shards = count
        starts = try Self.starts(store, shards: count)
    }

    /// The current place in the folder from which a shard follows its log. Blocks.
    func readStart(ofShard number: Int) throws(JournalError) -> Start { try Self.starts(store, shards: shards)[number] }

    private static func starts(_ store: JournalStore, shards: Int) throws(JournalError) -> [Start] {
        var starts = [Start](repeating: Start(), count: shards)
        var marks = [[String: Ledger.Mark]](repeating: [:], count: shards)
        for (namespace, mark) in store.marks() where mark.last > 0 {
            let shard = shard(of: namespace, among: shards)
            guard let value = try store.settings(of: namespace)[StoredPosition.name] else { throw .foreign(namespace: namespace) }
            guard let position = StoredPosition(value), starts[shard].created == 0 || starts[shard].created == position.created else {
                throw .corrupt(path: namespace, place: "position in the cluster's log")
            }
            starts[shard].created = position.created
            if position.complete.sequence > starts[shard].complete.sequence { starts[shard].complete = position.complete }
            marks[shard][namespace] = Ledger.Mark(last: mark.last, epoch: mark.epoch, position: position.sequence)
        }
        for shard in 0..<shards { starts[shard].ledger = Ledger(marks[shard]) }
        return starts
    }

    func start(ofShard number: Int) -> Start { starts[number] }

    func journal(of namespace: String) -> SQLiteJournal {
        journals.withLock { journals in
            if let known = journals[namespace] { return known }
            let journal = store.journal(for: namespace)
            journals[namespace] = journal
            return journal
        }
    }

    /// The shard of a namespace: the same on all hubs.
    static func shard(of namespace: String, among shards: Int) -> Int {
        var crc = CRC32()
        Array(namespace.utf8).withUnsafeBytes { crc.add($0) }
        return Int(crc.value % UInt32(shards))
    }
}
