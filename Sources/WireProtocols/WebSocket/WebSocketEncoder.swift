/// Encodes messages as frames (RFC 6455 §5.2), compressed if negotiated and if that makes them smaller (RFC 7692 §7.2.1).
///
/// One encoder serves one connection. Without context takeover it may serve all connections with equal parameters, so that a broadcast is
/// compressed once. A copy would share the state of compression.
public struct WebSocketEncoder: Sendable {
    private let deflater: Deflater?
    private let thresholdBytes: Int

    /// - Parameters:
    ///   - direction: the negotiated compression for sending; nil never compresses.
    public init(_ direction: DeflateAgreement.Direction? = nil, settings: DeflateSettings = DeflateSettings()) {
        deflater = direction.map { Deflater($0, settings) }
        thresholdBytes = max(1, settings.thresholdBytes)
    }

    /// Whether a compressor is allocated (`DeflateSettings.memoryLevel`), which happens at the first message above the threshold.
    public var holdsDeflater: Bool { deflater?.isAllocated ?? false }

    /// Frees the compressor until the next message; for idle connections.
    public func release() { deflater?.release() }

    /// One message as a final frame. Clients pass a fresh random `mask` for each, servers none (RFC 6455 §5.1).
    public func frame(_ opcode: WebSocketOpcode, _ payload: UnsafeRawBufferPointer, mask: WebSocketMask? = nil) -> [UInt8] {
        var bytes: [UInt8] = []
        append(opcode, payload, mask: mask, to: &bytes)
        return bytes
    }

    public func append(
        _ opcode: WebSocketOpcode, _ payload: UnsafeRawBufferPointer, mask: WebSocketMask? = nil, to bytes: inout [UInt8]
    ) {
        if let deflater, !opcode.isControl, payload.count >= thresholdBytes, let compressed = deflater.compress(payload) {
            let start = bytes.count
            compressed.withUnsafeBytes { WebSocketFrame.append(opcode, $0, mask: mask, to: &bytes) }
            bytes[start] |= WebSocketFrameHeader.compressedBit
            return
        }
        WebSocketFrame.append(opcode, payload, mask: mask, to: &bytes)
    }

    /// Compresses the messages in complete server frames if that makes them smaller. Nil if none becomes smaller: send `frames` then.
    public func compressed(_ frames: [UInt8]) -> [UInt8]? {
        guard deflater != nil, frames.count >= thresholdBytes else { return nil }
        var result: [UInt8] = []
        var hasChanged = false
        frames.withUnsafeBytes { bytes in
            var at = 0
            var header = WebSocketFrameHeader()
            while at < bytes.count {
                let rest = UnsafeRawBufferPointer(rebasing: bytes[at...])
                guard let size = try? header.parse(rest, role: .client), header.length <= rest.count - size else { break }
                let start = result.count
                append(header.opcode, UnsafeRawBufferPointer(rebasing: rest[size..<size + header.length]), to: &result)
                if result[start] & WebSocketFrameHeader.compressedBit != 0 { hasChanged = true }
                at += size + header.length
            }
            // The input did not consist of complete frames.
            if at < bytes.count { hasChanged = false }
        }
        return hasChanged ? result : nil
    }
}
