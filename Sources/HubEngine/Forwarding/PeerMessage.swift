import Journal
import JSONTree

/// A message between the databases of two hubs: a follower forwards requests, and the writer applies them.
///
/// ```
/// follower                                    writer
/// join ─────────────────────────────────────► commit: the hub joins             (arrives by the log)
/// probe ────────────────────────────────────► state: its term, and how much of the stream has arrived
/// requests, in a stream of messages ────────► commits                           (arrive by the log)
///        ◄─────────────────────────────────── replies: refusals, and outcomes that needed no commit
/// ```
/// All numbers are little-endian. The receiver drops bytes that do not decode.
enum PeerMessage: Equatable {
    /// The position of a message in a follower's stream to the writer.
    struct StreamPosition: Equatable {
        /// Sequence of the commit by which the hub joined.
        var joined: UInt64 = 0
        /// Identifies the writer's term. A random number, new each time that a database becomes the writer.
        var term: UInt64 = 0
        /// Number of the stream. After a loss the follower begins the next stream and repeats all unsettled requests in it.
        var stream: UInt64 = 0
        /// Number of the message in the stream; in a probe, that of the next message.
        var index: UInt64 = 0
        /// All requests of the hub with lower numbers are settled.
        var base: UInt64 = 0
    }

    case join
    case probe(StreamPosition)
    /// Encoded requests, none of them split.
    case requests(StreamPosition, [UInt8])
    /// One part of a request that is larger than a message.
    case part(StreamPosition, number: UInt32, of: UInt32, [UInt8])
    /// The answer to a probe. Its index is that of the message that the writer expects next.
    case state(StreamPosition)
    /// Outcomes in one term; the follower ignores those of earlier terms.
    case replies(term: UInt64, [PeerReply])

    private static let magic: UInt32 = 0x3146_4756
    /// Bytes that the header before requests, or before a part, takes at most.
    static let headerBytes = 64

    // MARK: Encoding

    var encoded: [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(littleEndian: Self.magic)
        switch self {
        case .join: bytes.append(0)
        case .probe(let place):
            bytes.append(1)
            Self.encode(place, &bytes)
        case .requests(let place, let requests):
            bytes.reserveCapacity(Self.headerBytes + requests.count)
            bytes.append(2)
            Self.encode(place, &bytes)
            bytes += requests
        case .part(let place, let number, let parts, let part):
            bytes.reserveCapacity(Self.headerBytes + part.count)
            bytes.append(3)
            Self.encode(place, &bytes)
            bytes.append(littleEndian: number)
            bytes.append(littleEndian: parts)
            bytes += part
        case .state(let place):
            bytes.append(4)
            Self.encode(place, &bytes)
        case .replies(let term, let replies):
            bytes.append(5)
            bytes.append(littleEndian: term)
            for reply in replies { reply.encode(into: &bytes) }
        }
        return bytes
    }

    private static func encode(_ place: StreamPosition, _ bytes: inout [UInt8]) {
        for number in [place.joined, place.term, place.stream, place.index, place.base] { bytes.append(littleEndian: number) }
    }

    // MARK: Decoding

    /// Nil for bytes that no hub encodes.
    init?(decoding bytes: [UInt8]) {
        let read = bytes.withUnsafeBytes { bytes -> PeerMessage? in
            var reader = ByteReader(bytes)
            guard reader.integer(UInt32.self) == Self.magic, let kind = reader.integer(UInt8.self) else { return nil }
            switch kind {
            case 0: return reader.isAtEnd ? .join : nil
            case 5:
                guard let term = reader.integer(UInt64.self) else { return nil }
                var replies: [PeerReply] = []
                while !reader.isAtEnd {
                    guard let reply = PeerReply(&reader) else { return nil }
                    replies.append(reply)
                }
                return .replies(term: term, replies)
            case 1...4: break
            default: return nil
            }
            guard let joined = reader.integer(UInt64.self), let term = reader.integer(UInt64.self), let stream = reader.integer(UInt64.self),
                let index = reader.integer(UInt64.self), let base = reader.integer(UInt64.self)
            else { return nil }
            let place = StreamPosition(joined: joined, term: term, stream: stream, index: index, base: base)
            switch kind {
            case 1: return reader.isAtEnd ? .probe(place) : nil
            case 2: return .requests(place, Array(reader.remainder()))
            case 3:
                guard let number = reader.integer(UInt32.self), let parts = reader.integer(UInt32.self), number < parts else { return nil }
                return .part(place, number: number, of: parts, Array(reader.remainder()))
            default: return reader.isAtEnd ? .state(place) : nil
            }
        }
        guard let read else { return nil }
        self = read
    }
}

/// The outcome of a forwarded request. Most requests that were applied need no reply: the log reports them.
struct PeerReply: Equatable {
    enum Outcome: Equatable {
        case done
        case stale
        case failed(Failure)
    }

    var number: UInt64
    var outcome: Outcome
    /// The follower answers the client after it has applied this commit: that of the request, or the last one that a refusal can depend on.
    var sequence: UInt64

    func encode(into bytes: inout [UInt8]) {
        bytes.append(littleEndian: number)
        bytes.append(littleEndian: sequence)
        switch outcome {
        case .done: bytes.append(0)
        case .stale: bytes.append(1)
        case .failed(let failure):
            bytes.append(2)
            bytes.append(counted: failure.code.rawValue.utf8)
            bytes.append(counted: failure.message.utf8)
            bytes.append(littleEndian: UInt16(clamping: failure.ruleMessages.count))
            for text in failure.ruleMessages.prefix(Int(UInt16.max)) { bytes.append(counted: text.utf8) }
            bytes.append(littleEndian: failure.retryAfterMs ?? -1)
        }
    }
}

extension PeerReply {
    init?(_ reader: inout ByteReader) {
        guard let number = reader.integer(UInt64.self), let sequence = reader.integer(UInt64.self), let kind = reader.integer(UInt8.self)
        else { return nil }
        let outcome: Outcome
        switch kind {
        case 0: outcome = .done
        case 1: outcome = .stale
        case 2:
            guard let name = reader.text(), let code = Failure.Code(rawValue: name), let message = reader.text(),
                let count = reader.integer(UInt16.self)
            else { return nil }
            var failure = Failure(code, message)
            for _ in 0..<count {
                guard let text = reader.text() else { return nil }
                failure.ruleMessages.append(text)
            }
            guard let retry = reader.integer(Int64.self) else { return nil }
            failure.retryAfterMs = retry < 0 ? nil : retry
            outcome = .failed(failure)
        default: return nil
        }
        self.init(number: number, outcome: outcome, sequence: sequence)
    }
}
