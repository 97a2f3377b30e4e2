import Journal

/// One message of a shard's log: a record, or a part of one that is larger than a message may be.
///
///     "VLG1"  crc  id  previous  hub  part  parts  body …            numbers little-endian; the checksum covers everything behind it
///
/// Each names the message before it. So a log that was reset and rewritten can be distinguished from the followed one even when
/// their numbers agree.
struct LogMessage: Equatable {
    /// Unique among all messages; the parts of a record count up. 0 is never used.
    var id: UInt64
    /// The `id` of the message before; 0 before the first, and behind one that does not decode.
    var previous: UInt64
    /// The hub that wrote it.
    var hub: UInt64
    var part: Int
    var parts: Int
    var body: ArraySlice<UInt8>

    private static let magic: UInt32 = 0x3147_4C56
    static let headerBytes = 40

    var encoded: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Self.headerBytes + body.count)
        bytes.append(littleEndian: Self.magic)
        bytes.append(littleEndian: UInt32(0))
        for number in [id, previous, hub] { bytes.append(littleEndian: number) }
        bytes.append(littleEndian: UInt32(part))
        bytes.append(littleEndian: UInt32(parts))
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

extension LogMessage {
    /// Nil for bytes that no hub has written.
    init?(decoding bytes: [UInt8]) {
        let header = bytes.withUnsafeBytes { all -> LogMessage? in
            var reader = ByteReader(all)
            guard reader.integer(UInt32.self) == Self.magic, let checksum = reader.integer(UInt32.self),
                let id = reader.integer(UInt64.self), id != 0, let previous = reader.integer(UInt64.self),
                let hub = reader.integer(UInt64.self), let part = reader.integer(UInt32.self), let parts = reader.integer(UInt32.self),
                part < parts, checksum == Self.checksum(all)
            else { return nil }
            return LogMessage(id: id, previous: previous, hub: hub, part: Int(part), parts: Int(parts), body: [])
        }
        guard let header else { return nil }
        self = header
        body = bytes[Self.headerBytes...]
    }
}

/// Joins the parts of records. A record with interrupted parts is dropped whole: its writer was refused, or has ended.
///
///     [a 1/3][a 2/3][b 1/1]  ─►  b             [a 1/2][a 2/2]  ─►  a
struct RecordAssembler {
    /// The expected next message, and the body so far.
    private var open: (next: LogMessage, body: [UInt8])?

    /// The body of the record that the message completes. Messages come in the order of the log.
    mutating func receive(_ message: LogMessage) -> [UInt8]? {
        if message.parts == 1 {
            open = nil
            return Array(message.body)
        }
        if message.part == 0 {
            open = (message, Array(message.body))
        } else {
            guard let known = open, message.id == known.next.id, message.part == known.next.part, message.parts == known.next.parts,
                message.hub == known.next.hub
            else {
                open = nil
                return nil
            }
            open?.body += message.body
        }
        guard message.part + 1 < message.parts else {
            defer { open = nil }
            return open?.body
        }
        open?.next = LogMessage(
            id: message.id &+ 1, previous: message.id, hub: message.hub, part: message.part + 1, parts: message.parts, body: [])
        return nil
    }

    /// Drops the parts so far, because another message came.
    mutating func interrupt() { open = nil }
}
