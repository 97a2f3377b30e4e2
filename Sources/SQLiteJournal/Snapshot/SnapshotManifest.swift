import struct Foundation.Data
import GRDB
import Journal
import JSONTree

/// The list of a snapshot's chunks: one row, so that a new snapshot replaces the old one atomically.
///
///     {"tree":[[17,262201,3735928559,""],[18,91244,195948557,"posts/k7"]],"pending":[[21,120,4207849484]]}
///
/// Each entry is a row's id, its bytes and their checksum; in the tree followed by the first place that it covers.
struct SnapshotManifest: Sendable, Equatable {
    var tree: [ChunkLayout.Part] = []
    /// Chunks of the data outside the tree: pending onDisconnect writes, write times, and pending rows.
    var pending: [StoredChunk] = []
    /// Whether the chunks' places are known. Formats before 4 store none, so that the next snapshot writes all chunks.
    var hasPlaces = true

    var bytes: Int { tree.reduce(0) { $0 + $1.chunk.bytes } + pending.reduce(0) { $0 + $1.bytes } }
    /// All chunks in the order in which they are applied.
    var chunks: [StoredChunk] { tree.map(\.chunk) + pending }

    func encoded() -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 64 + tree.count * 64)
        writer.raw("{\"tree\":[")
        for (i, part) in tree.enumerated() {
            if i > 0 { writer.raw(",") }
            writer.chunk(part.chunk)
            if hasPlaces {
                writer.raw(",")
                writer.path(part.start.keys)
            }
            writer.raw("]")
        }
        writer.raw("],\"pending\":[")
        for (i, chunk) in pending.enumerated() {
            if i > 0 { writer.raw(",") }
            writer.chunk(chunk)
            writer.raw("]")
        }
        writer.raw("]}")
        return writer.bytes
    }

    /// - Throws: when the bytes are not a manifest.
    init(_ bytes: UnsafeRawBufferPointer) throws(EntryFault) {
        var reader = JSONReader(bytes)
        do throws(JSONError) {
            try reader.beginObject()
            while let name = try reader.nextName() {
                try reader.beginArray()
                while try reader.nextElement() {
                    let (chunk, start) = try reader.chunk()
                    if name == "pending" {
                        pending.append(chunk)
                    } else {
                        if start == nil { hasPlaces = false }
                        tree.append(ChunkLayout.Part(start: start ?? .root, chunk: chunk))
                    }
                }
            }
            try reader.expectEnd()
        } catch { throw EntryFault(offset: error.offset) }
    }

    init() {}
}

extension SnapshotManifest {
    /// The manifest of the stored snapshot; nil when there is no snapshot.
    /// - Throws: `PlaceFault`.
    static func stored(of namespace: Int64, _ db: Database) throws -> (manifest: SnapshotManifest, sequence: UInt64)? {
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

    /// Stores it as the namespace's snapshot, in place of an earlier one. Returns the bytes written.
    func store(of namespace: Int64, sequence: Int64, _ db: Database) throws -> Int {
        let bytes = encoded()
        try db.execute(
            sql: "INSERT OR REPLACE INTO snapshot (namespace, sequence, checksum, manifest) VALUES (?, ?, ?, ?)",
            arguments: [namespace, sequence, Int64(Self.checksum(bytes, sequence: UInt64(sequence))), Data(bytes)])
        return bytes.count
    }

    private static func checksum(_ manifest: [UInt8], sequence: UInt64) -> UInt32 {
        var crc = CRC32()
        crc.add(sequence)
        manifest.withUnsafeBytes { crc.add($0) }
        return crc.value
    }
}

extension JSONWriter {
    /// Without the closing bracket.
    fileprivate mutating func chunk(_ chunk: StoredChunk) {
        raw("[")
        int(chunk.id)
        raw(",")
        int(Int64(chunk.bytes))
        raw(",")
        int(Int64(chunk.checksum))
    }
}

extension JSONReader {
    fileprivate mutating func chunk() throws(JSONError) -> (StoredChunk, Path?) {
        let start = offset
        try beginArray()
        var numbers: [Int64] = []
        var place: Path?
        while try nextElement() {
            if numbers.count < 3 { numbers.append(try int()) } else { place = try storedPath() }
        }
        guard numbers.count == 3, let bytes = Int(exactly: numbers[1]), let checksum = UInt32(exactly: numbers[2])
        else { throw .malformed(offset: start) }
        return (StoredChunk(id: numbers[0], bytes: bytes, checksum: checksum), place)
    }
}
