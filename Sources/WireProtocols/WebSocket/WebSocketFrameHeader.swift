/// The header of one frame (RFC 6455 §5.2).
///
/// ```
/// byte 0   FIN RSV RSV RSV  opcode(4)
/// byte 1   MASK  length(7): 0...125 | 126 → 2 more bytes | 127 → 8 more bytes, highest bit 0; always the shortest form
///          then the 4 bytes of the mask, if MASK
/// ```
struct WebSocketFrameHeader: Sendable {
    /// RSV1 in the first byte.
    static let compressedBit: UInt8 = 0x40

    var isFinal = true
    /// RSV1 on the first frame of a message: its payload is compressed (RFC 7692 §6).
    var isCompressed = false
    var opcode = WebSocketOpcode.text
    var length = 0
    var mask: WebSocketMask?

    /// Parses a header at the start of `bytes` and returns its size (2...14); nil if more bytes are needed. Refuses an invalid header without
    /// waiting for its rest.
    /// - Parameter mayCompress: whether permessage-deflate was negotiated.
    mutating func parse(
        _ bytes: UnsafeRawBufferPointer, role: WebSocketDecoder.Role, mayCompress: Bool = false
    ) throws(WebSocketError) -> Int? {
        guard let first = bytes.first else { return nil }
        if first & 0x30 != 0 { throw .reservedBits }
        guard let opcode = WebSocketOpcode(rawValue: first & 0x0F) else { throw .unknownOpcode }
        self.opcode = opcode
        isCompressed = first & Self.compressedBit != 0
        // RFC 7692 §6.1: never on a control frame, and only on the first frame of a message.
        if isCompressed && !(mayCompress && (opcode == .text || opcode == .binary)) { throw .reservedBits }
        isFinal = first & 0x80 != 0
        if opcode.isControl && !isFinal { throw .fragmentedControlFrame }

        guard bytes.count >= 2 else { return nil }
        let isMasked = bytes[1] & 0x80 != 0
        if isMasked != (role == .server) { throw .wrongMasking }
        let short = bytes[1] & 0x7F
        if opcode.isControl && short > 125 { throw .longControlFrame }

        var size = 2
        switch short {
        case 126:
            size = 4
            guard bytes.count >= size else { return nil }
            length = Int(UInt16(bigEndian: bytes.loadUnaligned(fromByteOffset: 2, as: UInt16.self)))
            if length < 126 { throw .impossibleLength }
        case 127:
            if bytes.count > 2 && bytes[2] & 0x80 != 0 { throw .impossibleLength }
            size = 10
            guard bytes.count >= size else { return nil }
            length = Int(UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 2, as: UInt64.self)))
            if length < 65_536 { throw .impossibleLength }
        default:
            length = Int(short)
        }
        mask = nil
        if isMasked {
            guard bytes.count >= size + 4 else { return nil }
            mask = WebSocketMask(memoryOrder: bytes.loadUnaligned(fromByteOffset: size, as: UInt32.self))
            size += 4
        }
        return size
    }
}
