import Journal

/// One message of a shard's log: a record, or a part of one that is larger than a message may be.
///
///     "VLG1"  crc  id  previous  hub  part  parts  body …            numbers little-endian; the checksum is of all behind it
///
/// Each names the message before it, so that a log that was set back and written anew is told from the one that was followed, also when
/// their numbers agree.
struct LogMessage: Equatable {
    /// Of its own among all messages; the parts of a record count up. 0 is no message's.
    var id: UInt64
    /// The `id` of the message before; 0 in front of the first, and behind one that does not decode.
    var previous: UInt64
    /// Who wrote it.
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
    /// Nil for anything that no hub has written.
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

/// Joins the parts of records. A record whose parts are interrupted is dropped whole: its writer was refused, or has ended.
///
///     [a 1/3][a 2/3][b 1/1]  ─►  b             [a 1/2][a 2/2]  ─►  a
struct RecordAssembler {
    /// The message that comes next, and what came before.
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

    /// Forgets the parts so far: something else came.
    mutating func interrupt() { open = nil }
}
