import DispatchNet
import HubEngine
import WireProtocols

/// A WebSocket that takes over a long-polling session. The socket belongs to the loop that accepted it, the session to its
/// lane: what either has for the other hops, in order.
final class JoinedSocket: SocketListener, @unchecked Sendable {
    // Sendable: the carrier is touched on its connection's loop only, the session on its lane's.
    let carrier: WebSocketCarrier
    private let session: LongPollCarrier
    /// What is on its way to the session.
    let posted: PostedBytes

    init(_ carrier: WebSocketCarrier, session: LongPollCarrier) {
        self.carrier = carrier
        self.session = session
        let server = session.server
        posted = PostedBytes(server.settings.limits.requestBytes, server.memory.lease(of: carrier.peer, for: .incoming))
    }

    /// Asks the session to take the socket; it is sent away with `r` otherwise.
    func join(host: String) {
        session.lane.loop.execute { [self, session] in
            if !session.join(self) { onSocket { $0.refuse(host: host) } }
        }
    }

    // MARK: On the connection's loop

    func received(text: UnsafeRawBufferPointer) {
        guard post(text.count, isHeldElsewhere: false) else { return }
        let bytes = Array(text)
        session.lane.loop.execute { [self, session] in
            session.received(bytes, on: self)
            took(bytes.count, isHeldElsewhere: false)
        }
    }

    func received(large: LargeText) {
        guard case .socket(let message) = large.message else { return }
        let count = message.payload.count
        guard post(count, isHeldElsewhere: true) else { return }
        session.lane.loop.execute { [self, session] in
            session.received(large, on: self)
            took(count, isHeldElsewhere: true)
        }
    }

    /// Counts what is about to go to the session's loop, which may be busy: the socket is read no more over the limit.
    private func post(_ bytes: Int, isHeldElsewhere: Bool) -> Bool {
        switch posted.add(bytes, isHeldElsewhere: isHeldElsewhere) {
        case .fine: break
        case .tooMuch: carrier.holdWhilePosted(true)
        case .refused(let refusal):
            carrier.close(WebSocketCloseCode.tryAgainLater, refusal.text)
            return false
        }
        return true
    }

    /// On the session's lane.
    private func took(_ bytes: Int, isHeldElsewhere: Bool) {
        guard posted.remove(bytes, isHeldElsewhere: isHeldElsewhere) else { return }
        // Behind the hold, if there is one: that came before what was taken now.
        onSocket { [self] in if !posted.isTooMuch { $0.holdWhilePosted(false) } }
    }

    /// Its messages are put together on the session's lane, which watches them.
    var openMessage: OpenMessage? { nil }

    func congested() {
        session.lane.loop.execute { [self, session] in session.congested(self) }
    }

    func drained() {
        session.lane.loop.execute { [self, session] in session.drained(self) }
    }

    func ended() {
        session.lane.loop.execute { [self, session] in session.lost(self) }
    }

    // MARK: On the session's lane

    func send(_ frames: [UInt8]) { onSocket { $0.send(frames) } }
    func close(_ code: UInt16, _ reason: String) { onSocket { $0.close(code, reason) } }
    func serverStops() { onSocket { $0.serverStops() } }
    func dismiss() { onSocket { $0.dismiss() } }
    func holdInput(_ isHeld: Bool) { onSocket { $0.holdInput(isHeld) } }
    func holdWhileReading(_ isHeld: Bool) { onSocket { $0.holdWhileReading(isHeld) } }
    func reportDrain() { onSocket { $0.reportDrain() } }

    private func onSocket(_ body: @escaping @Sendable (WebSocketCarrier) -> Void) {
        carrier.connection.loop.execute { [carrier] in body(carrier) }
    }
}

extension LongPollCarrier {
    /// False when the session has a socket, or is over.
    func join(_ joining: JoinedSocket) -> Bool {
        guard server.longPolls.find(session: sessionID) === self, let actions = transport.join() else { return false }
        socket = joining
        socketAssembler = RealtimeAssembler(limits: server.settings.limits.realtime)
        perform(actions)
        return true
    }

    func received(_ text: [UInt8], on joined: JoinedSocket) {
        if socket === joined { receive(text, joined) }
    }

    private func receive(_ text: [UInt8], _ joined: JoinedSocket) {
        if aside.isBusy { return keep(text.count) { [self] in if counts(joined) { receive(text, joined) } } }
        var heard: Heard?
        text.withUnsafeBytes { bytes in socketAssembler.receive(bytes) { heard = hear($0) } }
        noteIncoming()
        if let heard { take(heard, onSocket: true) }
    }

    func received(_ large: LargeText, on joined: JoinedSocket) {
        if socket === joined { receive(large, joined) }
    }

    private func receive(_ large: LargeText, _ joined: JoinedSocket) {
        guard case .socket(let message) = large.message else { return }
        if aside.isBusy { return keep(0) { [self] in if counts(joined) { receive(large, joined) } } }
        // A piece of a larger message, or too large for one.
        if socketAssembler.isInsideMessage || message.payload.count > server.settings.limits.realtime.messageBytes {
            return receive(message.payload, joined)
        }
        take(.large(large), onSocket: true)
    }

    /// Whether what was kept of a socket still counts: it is the session's, or was at its end.
    private func counts(_ joined: JoinedSocket) -> Bool { hasEnded ? goneSocket === joined : socket === joined }

    func lost(_ joined: JoinedSocket) {
        guard socket === joined else { return }
        goneSocket = socket
        socket = nil
        perform(transport.socketLost())
    }
}

extension WebSocketCarrier {
    /// The session that the client wants to join is not here: it goes on without this socket (contract §1.8).
    func refuse(host: String) {
        send(RealtimeFraming.frames(for: RealtimeReply.reset(host: host)))
        finish()
    }
}
