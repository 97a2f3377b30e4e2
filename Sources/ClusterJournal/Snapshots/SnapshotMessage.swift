import Journal
import SQLiteJournal

/// One message of a shard's snapshots. A snapshot is one `begin`, any number of `data`, one `end`, without messages of another between them.
///
///     "VSN1"  crc  snapshot  number  kind  body …            numbers little-endian; the checksum covers everything behind it
struct SnapshotMessage: Equatable {
    enum Kind: UInt8 { case begin, data, end }

    /// Unique among all snapshots.
    var snapshot: UInt64
    /// Counts up from 0.
    var number: UInt32
    var kind: Kind
    var body: ArraySlice<UInt8>

    private static let magic: UInt32 = 0x314E_5356
    static let headerBytes = 21

    var encoded: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Self.headerBytes + body.count)
        bytes.append(littleEndian: Self.magic)
        bytes.append(littleEndian: UInt32(0))
        bytes.append(littleEndian: snapshot)
        bytes.append(littleEndian: number)
        bytes.append(kind.rawValue)
        bytes += body
        let checksum = bytes.withUnsafeBytes { Self.checksum($0) }
        bytes.withUnsafeMutableBytes { $0.storeBytes(of: checksum.littleEndian, toByteOffset: 4, as: UInt32.self) }
        return bytes
    }

    private static func checksum(_ bytes: UnsafeRawBufferPointer) -> UInt32 {
        var crc = CRC32()
        crc.add(UnsafeRawBufferPointer(rebasing: bytes[8...]))
        return crc.value
    }
}

extension SnapshotMessage {
    /// Nil for bytes that no hub has written.
    init?(decoding bytes: [UInt8]) {
        guard bytes.count >= Self.headerBytes else { return nil }
        let header = bytes.withUnsafeBytes { all -> SnapshotMessage? in
            var reader = ByteReader(all)
            guard reader.integer(UInt32.self) == Self.magic, reader.integer(UInt32.self) == Self.checksum(all),
                let snapshot = reader.integer(UInt64.self), let number = reader.integer(UInt32.self),
                let kind = reader.integer(UInt8.self).flatMap(Kind.init)
            else { return nil }
            return SnapshotMessage(snapshot: snapshot, number: number, kind: kind, body: [])
        }
        guard let header else { return nil }
        self = header
        body = bytes[Self.headerBytes...]
    }
}

/// A snapshot's place in a shard's log: it contains everything up to there. The body of `begin` and of `end`.
struct SnapshotPlace: Equatable, Sendable {
    /// When the log was created.
    var created: Int64
    var complete: LogPlace

    var encoded: [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(littleEndian: created)
        bytes.append(littleEndian: complete.sequence)
        bytes.append(littleEndian: complete.id)
        return bytes
    }

    init(created: Int64, complete: LogPlace) { (self.created, self.complete) = (created, complete) }

    init?(_ body: ArraySlice<UInt8>) {
        let read = body.withUnsafeBytes { bytes -> SnapshotPlace? in
            var reader = ByteReader(bytes)
            guard let created = reader.integer(Int64.self), let sequence = reader.integer(UInt64.self), let id = reader.integer(UInt64.self),
                reader.isAtEnd
            else { return nil }
            return SnapshotPlace(created: created, complete: LogPlace(sequence: sequence, id: id))
        }
        guard let read else { return nil }
        self = read
    }
}

/// Reads the parts of an export from the bodies of `data`, which contain them in sequence, split anywhere.
///
///     bytes of the part (4)  kind  namespace: name, last, epoch, setting        or  entries
struct PartReader {
    private var bytes: [UInt8] = []
    private var start = 0

    static func encode(_ part: ExportedPart, into bytes: inout [UInt8]) {
        var body: [UInt8] = []
        switch part {
        case .namespace(let namespace):
            body.append(1)
            body.append(counted: Array(namespace.name.utf8))
            body.append(littleEndian: namespace.last)
            body.append(littleEndian: namespace.epoch)
            body.append(optional: namespace.setting)
        case .entries(let entries):
            bytes.append(littleEndian: UInt32(entries.count + 1))
            bytes.append(2)
            bytes += entries
            return
        }
        bytes.append(counted: body)
    }

    mutating func add(_ more: some Collection<UInt8>) {
        if start > 0 {
            bytes.removeFirst(start)
            start = 0
        }
        bytes += more
    }

    var isAtEnd: Bool { start == bytes.count }

    struct Malformed: Error {}

    /// The next complete part.
    mutating func next() throws(Malformed) -> ExportedPart? {
        guard bytes.count - start >= 4 else { return nil }
        let count = (0..<4).reduce(0) { $0 | Int(bytes[start + $1]) << (8 * $1) }
        guard bytes.count - start - 4 >= count else { return nil }
        let body = bytes[(start + 4)..<(start + 4 + count)]
        start += 4 + count
        guard let part = Self.part(body) else { throw Malformed() }
        return part
    }

    private static func part(_ body: ArraySlice<UInt8>) -> ExportedPart? {
        if body.first == 2 { return .entries(Array(body.dropFirst())) }
        return body.withUnsafeBytes { bytes -> ExportedPart? in
            var reader = ByteReader(bytes)
            guard reader.integer(UInt8.self) == 1, let name = reader.text(), !name.isEmpty, let last = reader.integer(UInt64.self),
                Int64(exactly: last) != nil, let epoch = reader.integer(UInt64.self), Int64(exactly: epoch) != nil,
                let value = reader.optional({ $0.counted().map { Array($0) } }), reader.isAtEnd
            else { return nil }
            return .namespace(ExportedNamespace(name: name, last: last, epoch: epoch, setting: value))
        }
    }
}
