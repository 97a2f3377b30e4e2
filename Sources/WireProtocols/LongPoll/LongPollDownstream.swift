/// Responds to polls (contract §1.8, downstream). Responses are numbered without gaps: the client would wait forever for a missing one.
///
/// ```
/// message ─► queue ──┐
/// poll ──► held ─────┴─► flush ─► response: pRTLPCB(number,[message,…]);
///            │ newer poll, or held for too long: respond with the queue, or []
/// ```
/// Tickets are the caller's ids of polls without a response.
public struct LongPollDownstream: Sendable {
    /// A response to a poll: send its script.
    public struct Answer: Sendable, Hashable {
        public var ticket: Int
        /// The script before the messages.
        var preamble: [UInt8] = []
        var messages: [LongPollMessage] = []
        /// The number of this response; nil for an unnumbered one without messages.
        var number: Int?
        /// The script after the messages.
        var closing: [UInt8] = []

        /// Bytes of the messages in memory.
        public var bytes: Int { messages.reduce(0) { $0 + $1.count } }

        /// The whole script. O(bytes)
        public var script: [UInt8] {
            var bytes: [UInt8] = []
            bytes.reserveCapacity(preamble.count + self.bytes + messages.count + closing.count + 32)
            var encoder = encoder
            encoder.write(to: &bytes, atLeast: .max / 2)
            return bytes
        }

        /// Encodes the script in pieces.
        public var encoder: LongPollScriptEncoder {
            guard let number else { return LongPollScriptEncoder(opening: preamble, messages: [], closing: closing) }
            return LongPollScriptEncoder(
                opening: preamble + Array("pRTLPCB(\(number),[".utf8), messages: messages, closing: Array("]);".utf8) + closing)
        }
    }

    private enum State {
        /// Messages are accepted.
        case open
        /// The last message is queued; the next poll gets it.
        case finishing
        /// All messages were sent: each poll gets a close that follows response number `last`.
        case finished(last: Int)
        /// The session has ended: each poll gets an immediate close.
        case closed
    }

    private struct Poll {
        var ticket: Int
        var serial: Int64?
        /// The script before the messages; only the first poll has one.
        var preamble: [UInt8] = []
    }

    private var state = State.open
    private var held: Poll?
    private var queue: [LongPollMessage] = []
    /// The number of the next response.
    private var number = 0
    /// The serials of the last two polls with a response: the client has at most two in flight.
    private var answered: [Int64] = []

    /// Bytes waiting for a poll.
    public private(set) var queuedBytes = 0

    /// - Parameters:
    ///   - opening: the ticket of the request that opened the session; the first flush responds to it.
    ///   - preamble: the script that defines the functions (`LongPollScript.open`).
    public init(opening: Int, preamble: [UInt8]) {
        held = Poll(ticket: opening, serial: nil, preamble: preamble)
    }

    /// Whether the session has ended.
    public var hasClosed: Bool { if case .closed = state { true } else { false } }

    /// Whether a poll is held.
    public var isHolding: Bool { held != nil }

    /// Queues a message, one JSON object, for the next flush.
    public mutating func send(_ message: [UInt8]) { send(.text(message)) }

    public mutating func send(_ message: LongPollMessage) {
        guard case .open = state else { return }
        queuedBytes += message.count
        queue.append(message)
    }

    /// Accepts a poll; the caller processes its requests afterwards. A repeated poll that already got a response ends the session (`hasClosed`):
    /// that response, and with it a number of the sequence, is lost.
    /// - Parameter bringsRequests: holds the poll even if messages are queued, so that it can carry the replies. The caller flushes once they
    ///   are queued, or soon.
    public mutating func poll(_ ticket: Int, serial: Int64?, bringsRequests: Bool = false) -> [Answer] {
        let poll = Poll(ticket: ticket, serial: serial)
        switch state {
        case .finished(let last): return [Answer(ticket: ticket, closing: LongPollScript.close(after: last))]
        case .closed: return [Answer(ticket: ticket, closing: LongPollScript.close)]
        case .finishing: return [lastAnswer(poll)]
        case .open: break
        }
        if let serial, answered.contains(serial) {
            return close() + [Answer(ticket: ticket, closing: LongPollScript.close)]
        }
        guard let older = held else {
            held = poll
            return bringsRequests ? [] : flush()
        }
        if let serial, let known = older.serial, serial < known {
            // The held poll is newer than this one, so requests overtook each other: respond to both.
            held = nil
            return [answer(older), answer(poll)]
        }
        held = poll
        // A browser repeats a request whose connection broke, and never reads the response to the first one.
        if serial != nil, serial == older.serial { return [Answer(ticket: older.ticket)] }
        return [answer(older)]
    }

    /// Responds to the held poll if messages are queued.
    public mutating func flush() -> [Answer] { queue.isEmpty ? [] : release() }

    /// Responds to the held poll, even without messages.
    public mutating func release() -> [Answer] {
        guard let poll = held, case .open = state else { return [] }
        held = nil
        return [answer(poll)]
    }

    /// Queues the last message; the client closes after receiving all of them.
    public mutating func finish(with message: [UInt8]) -> [Answer] {
        guard case .open = state else { return [] }
        send(message)
        state = .finishing
        guard let poll = held else { return [] }
        held = nil
        return [lastAnswer(poll)]
    }

    /// Drops the queued messages. Call `close` next, as the client has missed them.
    public mutating func dropQueue() {
        queue = []
        queuedBytes = 0
    }

    /// Ends the session: the client drops the connection on receipt. The held poll carries the queued messages.
    public mutating func close() -> [Answer] {
        defer {
            state = .closed
            queue = []
            queuedBytes = 0
        }
        guard let poll = held else { return [] }
        held = nil
        if queue.isEmpty { return [Answer(ticket: poll.ticket, closing: LongPollScript.close)] }
        var last = answer(poll)
        last.closing = LongPollScript.close
        return [last]
    }

    private mutating func lastAnswer(_ poll: Poll) -> Answer {
        var last = answer(poll)
        state = .finished(last: number - 1)
        last.closing = LongPollScript.close(after: number - 1)
        return last
    }

    private mutating func answer(_ poll: Poll) -> Answer {
        let answer = Answer(ticket: poll.ticket, preamble: poll.preamble, messages: queue, number: number)
        number += 1
        queue = []
        queuedBytes = 0
        if let serial = poll.serial { answered = answered.suffix(1) + [serial] }
        return answer
    }
}
