import struct Foundation.Data
import GRDB
import JSONTree

extension JournalStore {
    /// Replaces a namespace's snapshot and removes the batches it contains. Within a transaction on the journal queue.
    func writeSnapshot(_ snapshot: JournalSnapshot, of known: Registered, _ db: Database, _ written: inout Int) throws -> Registered {
        try db.execute(sql: "DELETE FROM chunk WHERE namespace = ?", arguments: [known.id])
        let insert = try db.cachedStatement(sql: "INSERT INTO chunk (namespace, number, checksum, entries) VALUES (?, ?, ?, ?)")
        var count = 0
        try ChunkWriter.write(snapshot.root, snapshot.pending) { bytes in
            let checksum = bytes.withUnsafeBytes { Self.checksum($0, chunk: count, sequence: snapshot.sequence) }
            try insert.execute(arguments: [known.id, count, Int64(checksum), Data(bytes)])
            count += 1
            written += bytes.count
        }
        guard let sequence = Int64(exactly: snapshot.sequence) else { throw JournalError.conflict(expected: snapshot.sequence, last: known.last) }
        try db.execute(sql: "UPDATE namespace SET snapshot_sequence = ?, snapshot_chunks = ? WHERE id = ?", arguments: [sequence, count, known.id])
        try db.execute(sql: "DELETE FROM batch WHERE namespace = ? AND sequence <= ?", arguments: [known.id, sequence])
        return Registered(id: known.id, last: known.last, snapshotSequence: snapshot.sequence, snapshotChunks: count)
    }

    static func checksum(_ bytes: UnsafeRawBufferPointer, chunk number: Int, sequence: UInt64) -> UInt32 {
        var crc = CRC32()
        crc.add(UInt64(number))
        crc.add(sequence)
        crc.add(bytes)
        return crc.value
    }
}
