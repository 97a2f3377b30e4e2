/// Encodes frames (RFC 6455 §5.2): always final, with lengths in their shortest form.
///
/// Without `mask` a frame goes from server to client; clients must pass a fresh random mask for each frame.
public enum WebSocketFrame {
    /// A text message. `payload` must be UTF-8.
    public static func text(_ payload: [UInt8], mask: WebSocketMask? = nil) -> [UInt8] {
        frame(.text, payload, mask)
    }

    public static func binary(_ payload: [UInt8], mask: WebSocketMask? = nil) -> [UInt8] {
        frame(.binary, payload, mask)
    }

    /// A ping; the payload is cut at 125 bytes (§5.5).
    public static func ping(_ payload: [UInt8] = [], mask: WebSocketMask? = nil) -> [UInt8] {
        frame(.ping, Array(payload.prefix(125)), mask)
    }

    /// A pong; the payload is cut at 125 bytes (§5.5).
    public static func pong(_ payload: [UInt8] = [], mask: WebSocketMask? = nil) -> [UInt8] {
        frame(.pong, Array(payload.prefix(125)), mask)
    }

    /// A pong with the payload of a ping event.
    public static func pong(echoing payload: UnsafeRawBufferPointer, mask: WebSocketMask? = nil) -> [UInt8] {
        frame(.pong, Array(payload.prefix(125)), mask)
    }

    /// A close frame. The payload is empty without a code, or with a code that must not be sent (§7.4.1). The reason is cut at a scalar boundary
    /// to fit 123 bytes.
    public static func close(_ code: UInt16?, reason: String = "", mask: WebSocketMask? = nil) -> [UInt8] {
        guard let code, WebSocketCloseCode.maySend(code) else { return frame(.close, [], mask) }
        var payload = [UInt8(code >> 8), UInt8(code & 0xFF)]
        for scalar in reason.unicodeScalars {
            let encoded = Array(String(scalar).utf8)
            if payload.count + encoded.count > 125 { break }
            payload += encoded
        }
        return frame(.close, payload, mask)
    }

    /// The close frame for a protocol failure.
    public static func close(_ error: WebSocketError, mask: WebSocketMask? = nil) -> [UInt8] {
        close(error.closeCode, reason: error.reason, mask: mask)
    }

    /// Appends the header of a final frame. The caller appends the payload of `payloadLength` bytes, in any number of pieces: so many connections
    /// share one encoded event.
    public static func appendHeader(
        _ opcode: WebSocketOpcode, payloadLength: Int, mask: WebSocketMask? = nil, to bytes: inout [UInt8]
    ) {
        let maskBit: UInt8 = mask == nil ? 0 : 0x80
        bytes.append(0x80 | opcode.rawValue)
        switch payloadLength {
        case ..<126:
            bytes.append(maskBit | UInt8(max(0, payloadLength)))
        case ..<65_536:
            bytes.append(maskBit | 126)
            withUnsafeBytes(of: UInt16(payloadLength).bigEndian) { bytes.append(contentsOf: $0) }
        default:
            bytes.append(maskBit | 127)
            withUnsafeBytes(of: UInt64(payloadLength).bigEndian) { bytes.append(contentsOf: $0) }
        }
        if let mask { withUnsafeBytes(of: mask.bytes) { bytes.append(contentsOf: $0) } }
    }

    /// Bytes that `appendHeader` adds: 2...14.
    public static func headerLength(payloadLength: Int, isMasked: Bool = false) -> Int {
        (payloadLength < 126 ? 2 : payloadLength < 65_536 ? 4 : 10) + (isMasked ? 4 : 0)
    }

    /// Appends a whole final frame around `payload`.
    public static func append(
        _ opcode: WebSocketOpcode, _ payload: UnsafeRawBufferPointer, mask: WebSocketMask? = nil, to bytes: inout [UInt8]
    ) {
        appendHeader(opcode, payloadLength: payload.count, mask: mask, to: &bytes)
        let start = bytes.count
        bytes.append(contentsOf: payload)
        if let mask {
            bytes.withUnsafeMutableBytes { mask.apply(to: UnsafeMutableRawBufferPointer(rebasing: $0[start...])) }
        }
    }

    private static func frame(_ opcode: WebSocketOpcode, _ payload: [UInt8], _ mask: WebSocketMask?) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(payload.count + headerLength(payloadLength: payload.count, isMasked: mask != nil))
        payload.withUnsafeBytes { append(opcode, $0, mask: mask, to: &bytes) }
        return bytes
    }
}
