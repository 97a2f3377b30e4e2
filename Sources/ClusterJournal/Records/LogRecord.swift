import Journal
import JSONTree

/// One append of one writer to a shard's log: batches of its namespaces, in order. The batches of one namespace are
/// consecutive and of one epoch, so that they are applied together or not at all.
///
///     [bytes of the name][name][sequence][expectedLast][id][epoch][bytes of the entries][entries] …
///
/// Entries have their stored form.
struct LogRecord: Equatable {
    struct Entry: Equatable {
        var namespace: String
        var batch: JournalBatch
    }

    var entries: [Entry] = []

    /// Maximum bytes of a namespace's name.
    static let nameBytes = 1024
}

extension LogRecord {
    /// Adds an entry to the encoded body of a record.
    static func encode(_ entry: Entry, into body: inout [UInt8]) {
        let batch = entry.batch
        let name = Array(entry.namespace.utf8)
        body.append(littleEndian: UInt16(name.count))
        body += name
        for number in [batch.sequence, batch.expectedLast, batch.id, batch.epoch] { body.append(littleEndian: number) }
        let entries = encode(batch)
        body.append(littleEndian: UInt32(entries.count))
        body += entries
    }

    private static func encode(_ batch: JournalBatch) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 64 + min(batch.operations.count, 4096) * 128)
        var starts = batch.starts[...]
        for (i, operation) in batch.operations.enumerated() {
            while starts.first == i {
                writer.nextCommit()
                starts.removeFirst()
            }
            writer.entry(operation)
        }
        for _ in starts { writer.nextCommit() }
        writer.raw(writer.bytes.isEmpty ? "[]" : "]")
        return writer.bytes
    }

    /// Reads the body of a record.
    /// - Returns: nil for bytes that no writer has written; then all hubs ignore the whole record.
    init?(decoding body: [UInt8]) {
        let entries = body.withUnsafeBytes { Self.entries($0) }
        guard let entries, !entries.isEmpty else { return nil }
        self.entries = entries
    }

    private static func entries(_ body: UnsafeRawBufferPointer) -> [Entry]? {
        var reader = ByteReader(body)
        var entries: [Entry] = []
        var marks: [String: (last: UInt64, epoch: UInt64)] = [:]
        while !reader.isAtEnd {
            guard let count = reader.integer(UInt16.self), count > 0, count <= nameBytes, let name = reader.bytes(Int(count)),
                let namespace = String(validating: name, as: UTF8.self),
                let sequence = reader.integer(UInt64.self), let expectedLast = reader.integer(UInt64.self),
                let id = reader.integer(UInt64.self), let epoch = reader.integer(UInt64.self), Int64(exactly: epoch) != nil,
                sequence > expectedLast, Int64(exactly: sequence) != nil,
                let length = reader.integer(UInt32.self), let stored = reader.bytes(Int(length))
            else { return nil }
            if let mark = marks[namespace] { guard mark == (expectedLast, epoch) else { return nil } }
            marks[namespace] = (sequence, epoch)
            var (operations, starts): ([JournalOperation], [Int]) = ([], [])
            guard (try? operations.append(entries: stored, starts: &starts)) != nil, UInt64(starts.count) < sequence - expectedLast else {
                return nil
            }
            entries.append(Entry(namespace: namespace, batch: JournalBatch(
                sequence: sequence, after: expectedLast, operations: operations, starts: starts, id: id, epoch: epoch)))
        }
        return entries
    }
}
