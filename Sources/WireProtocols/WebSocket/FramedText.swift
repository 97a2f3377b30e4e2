import JSONTree

/// A server message, written once into the buffer that is sent.
///
/// ```
/// [ 2 bytes ][ text … ]   ─► frame: the header takes the space in front; a longer one, from 126 bytes of text on, moves the text
/// ```
public struct FramedText: Sendable {
    /// The text in one frame.
    public let frame: [UInt8]
    /// Bytes of the text.
    public let count: Int

    /// Bytes reserved before the text while it is written: a header of the smallest size.
    private static let room = 2

    /// - Parameters:
    ///   - capacity: the approximate bytes of the text.
    ///   - write: appends the text.
    init(reservingCapacity capacity: Int = 126, _ write: (inout JSONWriter) -> Void) {
        var writer = JSONWriter(reservingCapacity: Self.room + capacity)
        for _ in 0..<Self.room { writer.bytes.append(0) }
        write(&writer)
        count = writer.bytes.count - Self.room
        if count < 126 {
            writer.bytes[0] = 0x80 | WebSocketOpcode.text.rawValue
            writer.bytes[1] = UInt8(count)
        } else {
            var header: [UInt8] = []
            WebSocketFrame.appendHeader(.text, payloadLength: count, to: &header)
            writer.bytes.replaceSubrange(0..<Self.room, with: header)
        }
        frame = writer.bytes
    }

    /// The text alone.
    public var text: ArraySlice<UInt8> { frame.suffix(count) }

    /// The text in frames of the realtime protocol, which splits long messages.
    public var realtimeFrames: [UInt8] {
        // UTF-8 never has fewer bytes than UTF-16 has code units, so a short message is never split.
        count <= RealtimeFraming.segmentUnits ? frame : text.withUnsafeBytes { RealtimeFraming.frames(for: $0) }
    }
}
