import JSONTree

/// Assembles a client's messages (contract §1.8, upstream). Requests overtake each other, so segments are processed in numeric order.
///
/// ```
/// request ─► ahead (by number) ─► next in order ─► base64 ─► chunks of a message ─► RealtimeInbound
///               └── seen before: dropped (browsers repeat a GET whose connection broke)
/// ```
public struct LongPollUpstream: Sendable {
    private enum State {
        /// The next segment begins a message.
        case idle
        /// `left` of `pieces` segments of a message are missing.
        case inside(pieces: Int, left: Int)
        /// An error was found; further segments are ignored.
        case failed
    }

    private let limits: LongPollLimits
    private var state = State.idle
    /// The number of the next expected segment.
    private var next = 0
    private var ahead: [Int: LongPollSegment] = [:]
    private var bytesAhead = 0
    private var base64 = LongPollBase64()
    /// Validates the message's text incrementally, so that its last segment costs no more than the others.
    private var utf8 = UTF8Validator()
    private var isText = true
    public private(set) var assembler: RealtimeAssembler

    public init(limits: LongPollLimits = LongPollLimits(), realtime: RealtimeLimits = RealtimeLimits()) {
        self.limits = limits
        assembler = RealtimeAssembler(limits: realtime)
    }

    /// Bytes buffered for incomplete messages.
    public var bufferedBytes: Int { bytesAhead + assembler.bufferedBytes }

    /// Processes the segments of one request and delivers the messages that they complete. Pointers are valid only during the call. After an
    /// error further segments are ignored.
    public mutating func receive(
        _ segments: [LongPollSegment], _ handle: (RealtimeInbound) -> Void
    ) throws(LongPollError) {
        if case .failed = state { return }
        for segment in segments where segment.number >= next && ahead[segment.number] == nil {
            ahead[segment.number] = segment
            bytesAhead += segment.data.count
        }
        while let segment = ahead.removeValue(forKey: next) {
            next += 1
            bytesAhead -= segment.data.count
            do throws(LongPollError) { try process(segment, handle) } catch { throw fail(error) }
        }
        if ahead.count > limits.segmentsAhead || bytesAhead > limits.bytesAhead { throw fail(.tooFarAhead) }
    }

    private mutating func fail(_ error: LongPollError) -> LongPollError {
        state = .failed
        ahead = [:]
        bytesAhead = 0
        return error
    }

    private mutating func process(_ segment: LongPollSegment, _ handle: (RealtimeInbound) -> Void) throws(LongPollError) {
        let left: Int
        switch state {
        case .failed: return
        case .idle:
            guard segment.pieces <= 999_999 else { throw .pieceCount }
            left = segment.pieces
            base64 = LongPollBase64()
            utf8 = UTF8Validator()
            isText = true
            // Passed as a chunk count, so that the same limits apply as for a message in chunks.
            Array(String(left).utf8).withUnsafeBytes { assembler.receive($0) { _ in } }
        case .inside(let pieces, let due):
            guard segment.pieces == pieces else { throw .pieceCount }
            left = due
        }
        let decoded = try base64.decode(segment.data)
        state = left == 1 ? .idle : .inside(pieces: segment.pieces, left: left - 1)
        decoded.withUnsafeBytes { bytes in
            if isText { isText = utf8.consume(bytes) }
            let isText = isText && utf8.isAtBoundary
            assembler.receive(bytes) { inbound in
                switch inbound {
                case .message, .blocks: handle(isText ? inbound : .failure(.malformed(offset: 0)))
                case .keepAlive, .oversized, .failure: handle(inbound)
                }
            }
        }
    }
}

/// Decodes URL-safe base64 with `.` as padding, in pieces split anywhere.
struct LongPollBase64: Sendable {
    private var bits: UInt32 = 0
    private var held = 0
    private var isPadded = false

    mutating func decode(_ text: [UInt8]) throws(LongPollError) -> [UInt8] {
        var isBase64 = true
        let bytes = [UInt8](unsafeUninitializedCapacity: text.count * 3 / 4 + 1) { bytes, count in
            text.withUnsafeBufferPointer { text in
                Base64.urlValues.withUnsafeBufferPointer { values in
                    var at = 0
                    while at < text.count {
                        if held == 0, !isPadded { at += Self.decodeGroups(text[at...], values, to: bytes, &count) }
                        guard at < text.count else { return }
                        let letter = text[at]
                        let value = values[Int(letter)]
                        if value < 64, !isPadded {
                            bits = bits << 6 | UInt32(value)
                            held += 6
                            if held >= 8 {
                                held -= 8
                                bytes[count] = UInt8(truncatingIfNeeded: bits >> UInt32(held))
                                count += 1
                            }
                        } else if letter == UInt8(ascii: ".") {
                            isPadded = true
                        } else {
                            isBase64 = false
                            return
                        }
                        at += 1
                    }
                }
            }
        }
        if !isBase64 { throw .notBase64 }
        return bytes
    }
    /// Decodes whole groups of four letters, up to the first group with another character.
    /// - Returns: the number of letters consumed.
    private static func decodeGroups(
        _ text: Slice<UnsafeBufferPointer<UInt8>>, _ values: UnsafeBufferPointer<UInt8>, to bytes: UnsafeMutableBufferPointer<UInt8>,
        _ count: inout Int
    ) -> Int {
        let letters = UnsafeBufferPointer(rebasing: text)
        var at = 0
        while at + 4 <= letters.count {
            let (first, second) = (UInt32(values[Int(letters[at])]), UInt32(values[Int(letters[at + 1])]))
            let (third, fourth) = (UInt32(values[Int(letters[at + 2])]), UInt32(values[Int(letters[at + 3])]))
            guard (first | second | third | fourth) < 64 else { break }
            let group = first << 18 | second << 12 | third << 6 | fourth
            bytes[count] = UInt8(truncatingIfNeeded: group >> 16)
            bytes[count + 1] = UInt8(truncatingIfNeeded: group >> 8)
            bytes[count + 2] = UInt8(truncatingIfNeeded: group)
            (count, at) = (count + 3, at + 4)
        }
        return at
    }
}
