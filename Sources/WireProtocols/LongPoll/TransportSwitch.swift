/// Moves a session from long polling to a WebSocket without losing, doubling or reordering a message (contract §1.8).
///
/// ```
/// polling ── socket joins: say `a` on it ──► joining ── client's `n` by poll ──► moved
///    ▲                                          │        say `n` by poll; requests that waited, then those that come
///    └──────────── socket lost ─────────────────┘
/// ```
/// All requests sent by polls have arrived when the client's `n` has; only then may requests from the socket be carried out.
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
        /// Carry out.
        case submit(RealtimeRequest)
        /// More waits than may: end the session.
        case overflow
        /// The client's transport is gone: end the session.
        case end
    }

    public private(set) var state = State.polling
    private let maxBytes: Int

    /// Whether both directions use the socket.
    public var hasMoved: Bool { if case .moved = state { true } else { false } }

    /// Bytes of requests from the socket that wait.
    public var waitingBytes: Int { if case .joining(_, let bytes) = state { bytes } else { 0 } }

    public init(limits: LongPollLimits = LongPollLimits()) { maxBytes = limits.joiningBytes }

    /// A socket asks to join; nil when it must be refused, because there is one already.
    public mutating func join() -> [Action]? {
        guard case .polling = state else { return nil }
        state = .joining(waiting: [], bytes: 0)
        return [.acknowledgeOnSocket]
    }

    /// A message came by poll, in order.
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

    /// A message came on the socket. `bytes` is its size.
    public mutating func receiveOnSocket(_ message: RealtimeMessage, bytes: Int) -> [Action] {
        switch (state, message) {
        case (.polling, _): return []
        case (_, .control(.ping)): return [.pongOnSocket]
        case (_, .control): return []
        case (.moved, .request(let request)): return [.submit(request)]
        case (.joining(var waiting, let held), .request(let request)):
            guard held + bytes <= maxBytes else { return [.overflow] }
            state = .polling  // so that the array has one owner while it grows
            waiting.append(request)
            state = .joining(waiting: waiting, bytes: held + bytes)
            return []
        }
    }

    /// The socket is gone. Before the switch the session goes on by polls; requests that waited cannot come again.
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
