/// Answers polls (contract §1.8, downstream). Every answer that brings messages, or none, has the next number; the client
/// waits for a missing one for ever.
///
/// ```
/// message ─► queue ──┐
/// poll ──► held ─────┴─► flush ─► answer: pRTLPCB(number,[message,…]);
///            │ newer poll, or held for too long: answer with what there is, or []
/// ```
/// Tickets are the caller's names for polls that it has not answered yet.
public struct LongPollDownstream: Sendable {
    /// Send its script as the answer to a poll.
    public struct Answer: Sendable, Hashable {
        public var ticket: Int
        /// What stands before the messages.
        var preamble: [UInt8] = []
        var messages: [LongPollMessage] = []
        /// Of this answer; nil for one without messages, which has none.
        var number: Int?
        /// What stands behind them.
        var closing: [UInt8] = []

        /// Bytes of its messages, as they are held.
        public var bytes: Int { messages.reduce(0) { $0 + $1.count } }

        /// All of the script. O(bytes)
        public var script: [UInt8] {
            var bytes: [UInt8] = []
            bytes.reserveCapacity(preamble.count + self.bytes + messages.count + closing.count + 32)
            var encoder = encoder
            encoder.write(to: &bytes, atLeast: .max / 2)
            return bytes
        }

        /// Writes the script in pieces.
        public var encoder: LongPollScriptEncoder {
            guard let number else { return LongPollScriptEncoder(opening: preamble, messages: [], closing: closing) }
            return LongPollScriptEncoder(
                opening: preamble + Array("pRTLPCB(\(number),[".utf8), messages: messages, closing: Array("]);".utf8) + closing)
        }
    }

    private enum State {
        /// Messages are passed on.
        case open
        /// The last message is in the queue, and no poll was there to take it: the next one does.
        case finishing
        /// Everything was said: each poll is told so, with the number of the last answer that the client must wait for.
        case finished(last: Int)
        /// The session is over, whatever the client still waits for.
        case closed
    }

    private struct Poll {
        var ticket: Int
        var serial: Int64?
        /// What stands before the answer; only the first one has something.
        var preamble: [UInt8] = []
    }

    private var state = State.open
    private var held: Poll?
    private var queue: [LongPollMessage] = []
    /// Number of the next answer.
    private var number = 0
    /// Serials of the last answered polls; two can be under way.
    private var answered: [Int64] = []

    /// Bytes that wait for a poll.
    public private(set) var queuedBytes = 0

    /// - Parameters:
    ///   - opening: the ticket of the request that opened the session; the first flush answers it.
    ///   - preamble: the script that defines the functions (`LongPollScript.open`).
    public init(opening: Int, preamble: [UInt8]) {
        held = Poll(ticket: opening, serial: nil, preamble: preamble)
    }

    /// Whether the session is over: every poll is told so.
    public var hasClosed: Bool { if case .closed = state { true } else { false } }

    /// Whether a poll waits for an answer.
    public var isHolding: Bool { held != nil }

    /// Queues a message, one JSON object, for the next flush.
    public mutating func send(_ message: [UInt8]) { send(.text(message)) }

    public mutating func send(_ message: LongPollMessage) {
        guard case .open = state else { return }
        queuedBytes += message.count
        queue.append(message)
    }

    /// A poll has come; what it brings must be handed on after this. A poll that was answered before ends the session
    /// (`hasClosed`): its answer is lost, and with it a number of the sequence.
    /// - Parameter bringsRequests: it is held although messages wait, so that it takes the answers along; flush when they have
    ///   come, or soon.
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
            // It was overtaken by the one that is held: neither waits.
            held = nil
            return [answer(older), answer(poll)]
        }
        held = poll
        // A browser repeats a request whose connection broke: nobody reads the answer to the first.
        if serial != nil, serial == older.serial { return [Answer(ticket: older.ticket)] }
        return [answer(older)]
    }

    /// Answers the held poll if there is something to say.
    public mutating func flush() -> [Answer] { queue.isEmpty ? [] : release() }

    /// Answers the held poll in any case: it has waited long enough.
    public mutating func release() -> [Answer] {
        guard let poll = held, case .open = state else { return [] }
        held = nil
        return [answer(poll)]
    }

    /// Sends `message` as the last one and lets the client go when it has everything.
    public mutating func finish(with message: [UInt8]) -> [Answer] {
        guard case .open = state else { return [] }
        send(message)
        state = .finishing
        guard let poll = held else { return [] }
        held = nil
        return [lastAnswer(poll)]
    }

    /// Forgets what waits for a poll: nobody is told of it. To be followed by `close`.
    public mutating func forget() {
        queue = []
        queuedBytes = 0
    }

    /// Ends everything: the client drops the connection when it hears this. The poll that is held brings what is queued.
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
