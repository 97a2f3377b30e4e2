/// A message for a long-polling client.
public enum LongPollMessage: Sendable, Hashable {
    /// One JSON object.
    case text([UInt8])
    /// Messages in complete server frames, as created by `RealtimeFraming`. Large ones are unwrapped while sending, without a second copy in
    /// memory.
    case frames([UInt8])

    /// The size of its content in bytes.
    public var count: Int {
        switch self {
        case .text(let bytes), .frames(let bytes): bytes.count
        }
    }
}

/// Encodes the script of a response piece by piece, so that a large one does not block the event loop.
///
///     preamble  pRTLPCB(number,[message,…]);  closing
public struct LongPollScriptEncoder: Sendable {
    private var opening: [UInt8]
    private let messages: [LongPollMessage]
    private let closing: [UInt8]
    /// The current message, and the position in it.
    private var index = 0
    private var at = 0
    /// The remaining bytes of the frame, and the remaining frames of its message.
    private var frameBytes = 0
    private var segments = 0
    private var isFirst = true
    private var escaper = ScriptEscaper()
    /// Whether everything is encoded.
    public private(set) var isDone = false

    /// Bytes processed between two checks of the output's size.
    private static let stepBytes = 16 << 10

    init(opening: [UInt8], messages: [LongPollMessage], closing: [UInt8]) {
        (self.opening, self.messages, self.closing) = (opening, messages, closing)
    }

    /// Appends the next piece: at least `count` bytes, or the rest. O(bytes written)
    public mutating func write(to bytes: inout [UInt8], atLeast count: Int) {
        guard !isDone else { return }
        let end = bytes.count + count
        bytes += opening
        opening = []
        while index < messages.count {
            if bytes.count >= end { return }
            let isLast: Bool
            switch messages[index] {
            case .text(let text):
                beginIfNeeded(at == 0, &bytes)
                isLast = step(text, upTo: text.count, endsMessage: { $0 == text.count }, &bytes)
            case .frames(let frames):
                guard let isAtEnd = stepFrames(frames, &bytes) else {
                    isLast = true
                    break
                }
                isLast = isAtEnd
            }
            if isLast { (index, at, frameBytes, segments) = (index + 1, 0, 0, 0) }
        }
        bytes += closing
        isDone = true
    }

    private mutating func beginIfNeeded(_ isBeginning: Bool, _ bytes: inout [UInt8]) {
        guard isBeginning else { return }
        if !isFirst { bytes.append(UInt8(ascii: ",")) }
        isFirst = false
        escaper = ScriptEscaper()
    }

    /// Writes a part of a message.
    /// - Returns: whether all of `source` is written.
    private mutating func step(_ source: [UInt8], upTo end: Int, endsMessage: (Int) -> Bool, _ bytes: inout [UInt8]) -> Bool {
        let next = min(end, at + Self.stepBytes)
        source.withUnsafeBytes { source in
            escaper.append(UnsafeRawBufferPointer(rebasing: source[at..<next]), isLast: endsMessage(next), to: &bytes)
        }
        at = next
        return at == source.count
    }

    /// Reads the next frame header, or writes a part of its payload. Returns whether all frames are written; nil if `frames` is malformed.
    private mutating func stepFrames(_ frames: [UInt8], _ bytes: inout [UInt8]) -> Bool? {
        if frameBytes > 0 {
            let end = at + frameBytes
            let begun = at
            let isLastSegment = segments == 1
            let isAtEnd = step(frames, upTo: end, endsMessage: { isLastSegment && $0 == end }, &bytes)
            frameBytes -= at - begun
            if frameBytes == 0 { segments -= 1 }
            return isAtEnd
        }
        guard at < frames.count else { return true }
        var header = WebSocketFrameHeader()
        let size = frames.withUnsafeBytes { try? header.parse(UnsafeRawBufferPointer(rebasing: $0[at...]), role: .client) }
        guard let size, at + size + header.length <= frames.count, header.length > 0 else { return nil }
        at += size
        if segments == 0 {
            if frames[at] != UInt8(ascii: "{") {
                // The number of frames of the next message.
                guard let count = Int(String(decoding: frames[at..<(at + header.length)], as: UTF8.self)), count > 0 else { return nil }
                at += header.length
                segments = count
                beginIfNeeded(true, &bytes)
                return at == frames.count
            }
            segments = 1
            beginIfNeeded(true, &bytes)
        }
        frameBytes = header.length
        return false
    }
}

/// Converts JSON into an equivalent script expression that cannot end the script or a line of it. `</` becomes `<\/`, U+2028 and U+2029 are
/// escaped, and a member named `__proto__`, which would set a prototype, becomes a computed name.
struct ScriptEscaper: Sendable {
    /// The unwritten end of the input, which may contain the start of a sequence to replace.
    private var tail: [UInt8] = []
    /// The byte before `tail`.
    private var before: UInt8 = 0

    private static let prototypeName: StaticString = "\"__proto__\":"
    /// The length in bytes of the longest replaced sequence.
    private static let longest = 12

    /// Appends a piece of one message.
    mutating func append(_ piece: UnsafeRawBufferPointer, isLast: Bool, to script: inout [UInt8]) {
        if tail.isEmpty { return write(piece, isLast, &script) }
        let whole = tail + piece
        whole.withUnsafeBytes { write($0, isLast, &script) }
    }

    private mutating func write(_ json: UnsafeRawBufferPointer, _ isLast: Bool, _ script: inout [UInt8]) {
        let end = isLast ? json.count : max(0, json.count - (Self.longest - 1))
        var clean = 0
        var at = 0
        while at < end {
            let (replaced, text) = Self.replacement(json, at, before: at > 0 ? json[at - 1] : before)
            if let text {
                script.append(contentsOf: UnsafeRawBufferPointer(rebasing: json[clean..<at]))
                script.append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
                at += replaced
                clean = at
            } else {
                at += 1
            }
        }
        script.append(contentsOf: UnsafeRawBufferPointer(rebasing: json[clean..<max(clean, at)]))
        if at > 0 { before = json[at - 1] }
        tail = at < json.count ? Array(json[at...]) : []
    }

    /// The replacement at a position and the number of bytes replaced; nil for an unchanged byte.
    @inline(__always)
    private static func replacement(_ json: UnsafeRawBufferPointer, _ at: Int, before: UInt8) -> (Int, StaticString?) {
        let byte = json[at]
        guard byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "<") || byte == 0xE2 else { return (0, nil) }
        func next(_ offset: Int) -> UInt8 { at + offset < json.count ? json[at + offset] : 0 }
        switch byte {
        case UInt8(ascii: "<"): return next(1) == UInt8(ascii: "/") ? (2, "<\\/") : (0, nil)
        case 0xE2:
            guard next(1) == 0x80 else { return (0, nil) }
            return next(2) == 0xA8 ? (3, "\\u2028") : next(2) == 0xA9 ? (3, "\\u2029") : (0, nil)
        default:
            // After a backslash the quote is part of a longer name.
            guard next(1) == UInt8(ascii: "_"), before != UInt8(ascii: "\\") else { return (0, nil) }
            for offset in 2..<longest where next(offset) != (prototypeName.utf8Start + offset).pointee { return (0, nil) }
            return (longest, "[\"__proto__\"]:")
        }
    }
}
