/// Splits the server's messages into WebSocket text frames (contract §1.6).
///
/// ```
/// ≤ 16384 UTF-16 code units:   [message]
/// longer:                      ["3"] [16384 units] [16384 units] [rest]
/// ≥ 9999 segments:             [message]          (iOS reads at most four digits)
/// ```
/// A split never divides a code point. Only a count is ever numeric or empty (contract §1.5). A payload that does not begin with `{` is not a
/// message of this protocol and yields no frame.
public enum RealtimeFraming {
    /// UTF-16 code units in one segment.
    public static let segmentUnits = 16_384
    /// From this many segments on, the message is sent as one large frame.
    public static let tooManySegments = 9_999

    /// Frames ready to send for one message, in UTF-8. O(n).
    public static func frames(for payload: [UInt8]) -> [UInt8] {
        payload.withUnsafeBytes { frames(for: $0) }
    }

    static func frames(for payload: UnsafeRawBufferPointer) -> [UInt8] {
        frames(for: payload, segmentUnits: segmentUnits, tooManySegments: tooManySegments)
    }

    /// Appends the frames for one message.
    public static func appendFrames(for payload: [UInt8], to bytes: inout [UInt8]) {
        payload.withUnsafeBytes { appendFrames(for: $0, segmentUnits: segmentUnits, tooManySegments: tooManySegments, to: &bytes) }
    }

    static func frames(for payload: [UInt8], segmentUnits: Int, tooManySegments: Int) -> [UInt8] {
        payload.withUnsafeBytes { frames(for: $0, segmentUnits: segmentUnits, tooManySegments: tooManySegments) }
    }

    private static func frames(for payload: UnsafeRawBufferPointer, segmentUnits: Int, tooManySegments: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(payload.count + 16 + payload.count / max(1, segmentUnits) * 10)
        appendFrames(for: payload, segmentUnits: segmentUnits, tooManySegments: tooManySegments, to: &bytes)
        return bytes
    }

    private static func appendFrames(
        for payload: UnsafeRawBufferPointer, segmentUnits: Int, tooManySegments: Int, to bytes: inout [UInt8]
    ) {
        guard payload.first == UInt8(ascii: "{") else { return }
        let ends = payload.count <= segmentUnits ? [] : segmentEnds(payload, segmentUnits)
        if ends.count <= 1 || ends.count >= tooManySegments { return WebSocketFrame.append(.text, payload, to: &bytes) }
        bytes += WebSocketFrame.text(Array(String(ends.count).utf8))
        var start = 0
        for end in ends {
            WebSocketFrame.append(.text, UnsafeRawBufferPointer(rebasing: payload[start..<end]), to: &bytes)
            start = end
        }
    }

    /// The ends of the segments, each as long as possible without dividing a code point.
    private static func segmentEnds(_ payload: UnsafeRawBufferPointer, _ segmentUnits: Int) -> [Int] {
        var ends: [Int] = []
        var units = 0
        for at in 0..<payload.count {
            let byte = payload[at]
            // Continuation bytes belong to the scalar before; four-byte scalars are two code units.
            if byte & 0xC0 == 0x80 { continue }
            let size = byte >= 0xF0 ? 2 : 1
            if units + size > segmentUnits {
                ends.append(at)
                units = 0
            }
            units += size
        }
        ends.append(payload.count)
        return ends
    }
}
