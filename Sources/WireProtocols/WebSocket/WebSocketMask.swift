/// The masking key of one frame (RFC 6455 §5.3): byte `i` of the payload is XORed with byte `i mod 4` of the key.
///
/// The key is stored in memory order, so that four or eight payload bytes can be processed at once on either byte order.
public struct WebSocketMask: Sendable, Hashable {
    /// The four key bytes in the order of the wire.
    public let bytes: UInt32

    /// `bytes` in memory order, as loaded from the wire.
    init(memoryOrder bytes: UInt32) {
        self.bytes = bytes
    }

    /// The key whose first wire byte is the most significant byte of `bigEndian`.
    public init(bigEndian: UInt32) {
        bytes = UInt32(bigEndian: bigEndian)
    }

    /// A fresh key. RFC 6455 §10.3 requires it to be unpredictable, so pass a cryptographic generator outside tests.
    public static func random(using generator: inout some RandomNumberGenerator) -> WebSocketMask {
        WebSocketMask(memoryOrder: generator.next())
    }

    /// Masks or unmasks in place; both are the same operation. `offset` is the position of the first byte in the frame's payload.
    func apply(to payload: UnsafeMutableRawBufferPointer, offset: Int = 0) {
        let key = rotated(by: offset)
        let wide = UInt64(key) | UInt64(key) << 32
        var at = 0
        while at + 8 <= payload.count {
            let word = payload.loadUnaligned(fromByteOffset: at, as: UInt64.self)
            payload.storeBytes(of: word ^ wide, toByteOffset: at, as: UInt64.self)
            at += 8
        }
        withUnsafeBytes(of: key) { key in
            while at < payload.count {
                payload[at] ^= key[at & 3]
                at += 1
            }
        }
    }

    /// The key rotated to start at payload byte `offset`.
    private func rotated(by offset: Int) -> UInt32 {
        let shift = UInt32(offset & 3) * 8
        if shift == 0 { return bytes }
        let little = UInt32(littleEndian: bytes)
        return UInt32(littleEndian: little >> shift | little << (32 - shift))
    }
}
