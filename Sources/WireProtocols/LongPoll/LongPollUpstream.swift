import JSONTree

/// Puts a client's messages together (contract §1.8, upstream): requests overtake each other, so segments are taken in
/// the order of their numbers, whatever the order of arrival.
///
/// ```
/// request ─► ahead (by number) ─► next in order ─► base64 ─► chunks of a message ─► RealtimeInbound
///               └── seen before: dropped (browsers repeat a GET whose connection broke)
/// ```
public struct LongPollUpstream: Sendable {
    private enum State {
        /// The next segment begins a message.
        case idle
        /// `left` of `pieces` segments of a message are due.
        case inside(pieces: Int, left: Int)
        /// A fault was found; nothing is read any more.
        case failed
    }

    private let limits: LongPollLimits
    private var state = State.idle
    /// Number of the segment that is due.
    private var next = 0
    private var ahead: [Int: LongPollSegment] = [:]
    private var bytesAhead = 0
    private var base64 = LongPollBase64()
    /// Puts the segments of a message together.
    public private(set) var assembler: RealtimeAssembler

    public init(limits: LongPollLimits = LongPollLimits(), realtime: RealtimeLimits = RealtimeLimits()) {
        self.limits = limits
        assembler = RealtimeAssembler(limits: realtime)
    }

    /// Bytes held for messages that are not complete yet.
    public var bufferedBytes: Int { bytesAhead + assembler.bufferedBytes }

    /// Takes the segments of one request and hands over the messages that they complete. Pointers are valid during the
    /// call. After an error nothing is read any more.
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
            do throws(LongPollError) { try take(segment, handle) } catch { throw fail(error) }
        }
        if ahead.count > limits.segmentsAhead || bytesAhead > limits.bytesAhead { throw fail(.tooFarAhead) }
    }

    private mutating func fail(_ error: LongPollError) -> LongPollError {
        state = .failed
        ahead = [:]
        bytesAhead = 0
        return error
    }

    private mutating func take(_ segment: LongPollSegment, _ handle: (RealtimeInbound) -> Void) throws(LongPollError) {
        let left: Int
        switch state {
        case .failed: return
        case .idle:
            guard segment.pieces <= 999_999 else { throw .pieceCount }
            left = segment.pieces
            base64 = LongPollBase64()
            // The same limits as for a message in chunks: a count, then its pieces.
            Array(String(left).utf8).withUnsafeBytes { assembler.receive($0) { _ in } }
        case .inside(let pieces, let due):
            guard segment.pieces == pieces else { throw .pieceCount }
            left = due
        }
        let decoded = try base64.decode(segment.data)
        state = left == 1 ? .idle : .inside(pieces: segment.pieces, left: left - 1)
        decoded.withUnsafeBytes { bytes in
            assembler.receive(bytes) { inbound in
                if case .message(let message) = inbound, !UTF8Validator.isValid(message) {
                    handle(.failure(.malformed(offset: 0)))
                } else {
                    handle(inbound)
                }
            }
        }
    }
}

/// Base64 in the alphabet of URLs with `.` as padding, in pieces that may cut it anywhere.
struct LongPollBase64: Sendable {
    private var bits: UInt32 = 0
    private var held = 0
    private var isPadded = false

    mutating func decode(_ text: [UInt8]) throws(LongPollError) -> [UInt8] {
        var isBase64 = true
        let values = Base64.urlValues
        let bytes = [UInt8](unsafeUninitializedCapacity: text.count * 3 / 4 + 1) { bytes, count in
            for letter in text {
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
                    break
                }
            }
        }
        if !isBase64 { throw .notBase64 }
        return bytes
    }
}
