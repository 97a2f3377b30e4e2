/// Moves a session from long polling to a WebSocket without losing, duplicating or reordering messages (contract §1.8).
///
/// ```
/// polling ── socket joins: send `a` on it ──► joining ── client's `n` by poll ──► moved
///    ▲                                           │        send `n` by poll; waiting requests, then new ones
///    └──────────── socket lost ──────────────────┘
/// ```
/// When the client's `n` arrives, all requests sent by polls have arrived. Only then may requests from the socket run.
public struct TransportSwitch: Sendable {
    public enum State: Sendable {
        /// Both directions use polls.
        case polling
        /// A socket has joined; both directions still use polls. Requests from the socket wait, oldest first.
        case joining(waiting: [RealtimeRequest], bytes: Int)
        /// Both directions use the socket.
        case moved
    }

    public enum Action: Sendable {
        /// Send `RealtimeReply.switchAck` on the socket.
        case acknowledgeOnSocket
        /// Send `RealtimeReply.pong` on the socket.
        case pongOnSocket
        /// Send `RealtimeReply.pong` by poll.
        case pongByPoll
        /// Send `RealtimeReply.endTransmission` as the last message by poll; everything later goes by the socket.
        case endPolling
        /// Run the request.
        case submit(RealtimeRequest)
        /// Too many bytes are waiting: end the session.
        case overflow
        /// The client's transport is lost: end the session.
        case end
    }

    public private(set) var state = State.polling
    private let maxBytes: Int

    /// Whether both directions use the socket.
    public var hasMoved: Bool { if case .moved = state { true } else { false } }

    /// Bytes of waiting requests from the socket.
    public var waitingBytes: Int { if case .joining(_, let bytes) = state { bytes } else { 0 } }

    public init(limits: LongPollLimits = LongPollLimits()) { maxBytes = limits.joiningBytes }

    /// A socket wants to join; nil if it must be refused, because one has joined already.
    public mutating func join() -> [Action]? {
        guard case .polling = state else { return nil }
        state = .joining(waiting: [], bytes: 0)
        return [.acknowledgeOnSocket]
    }

    /// Receives a message by poll; messages arrive in order.
    public mutating func receiveByPoll(_ message: RealtimeMessage) -> [Action] {
        switch (state, message) {
        case (.moved, _): return []
        case (_, .request(let request)): return [.submit(request)]
        case (.joining(let waiting, _), .control(.endTransmission)):
            state = .moved
            return [.endPolling] + waiting.map { .submit($0) }
        case (.polling, .control(.endTransmission)): return [.end]
        case (_, .control(.ping)): return [.pongByPoll]
        case (_, .control): return []
        }
    }

    /// Receives a message on the socket. `bytes` is its size.
    public mutating func receiveOnSocket(_ message: RealtimeMessage, bytes: Int) -> [Action] {
        switch (state, message) {
        case (.polling, _): return []
        case (_, .control(.ping)): return [.pongOnSocket]
        case (_, .control): return []
        case (.moved, .request(let request)): return [.submit(request)]
        case (.joining(var waiting, let held), .request(let request)):
            guard held + bytes <= maxBytes else { return [.overflow] }
            state = .polling  // gives the array a single owner while it grows
            waiting.append(request)
            state = .joining(waiting: waiting, bytes: held + bytes)
            return []
        }
    }

    /// The socket is lost. Before the switch the session continues by polls; waiting requests are lost for good.
    public mutating func socketLost() -> [Action] {
        switch state {
        case .polling: return []
        case .joining(let waiting, _):
            state = .polling
            return waiting.isEmpty ? [] : [.end]
        case .moved: return [.end]
        }
    }
}
