import DispatchNet
import HubEngine
import WireProtocols

/// A WebSocket that replaces the polls of a session. The socket belongs to the loop that accepted it, the session to its lane: calls
/// between them hop loops, in order.
final class JoinedSocket: SocketListener, @unchecked Sendable {
    // Sendable: the carrier is touched on its connection's loop only, the session on its lane's.
    let carrier: WebSocketCarrier
    private let session: LongPollCarrier
    /// Bytes that were handed to the session's loop and not processed yet.
    let posted: PostedBytes

    init(_ carrier: WebSocketCarrier, session: LongPollCarrier) {
        self.carrier = carrier
        self.session = session
        let server = session.server
        posted = PostedBytes(server.settings.limits.requestBytes, server.memory.lease(of: carrier.peer, for: .incoming))
    }

    /// Attaches the socket to the session. If the session refuses, the socket gets a reset (`r`).
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
            processed(bytes.count, isHeldElsewhere: false)
        }
    }

    func received(large: LargeText) {
        guard case .socket(let message) = large.message else { return }
        let count = message.payload.count
        guard post(count, isHeldElsewhere: true) else { return }
        session.lane.loop.execute { [self, session] in
            session.received(large, on: self)
            processed(count, isHeldElsewhere: true)
        }
    }

    /// Counts bytes before they hop to the session's loop, which may be busy. Over the limit, reading from the socket stops.
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
    private func processed(_ bytes: Int, isHeldElsewhere: Bool) {
        guard posted.remove(bytes, isHeldElsewhere: isHeldElsewhere) else { return }
        // Runs behind a hold that was set for these bytes.
        onSocket { [self] in if !posted.isTooMuch { $0.holdWhilePosted(false) } }
    }

    /// The session's lane assembles its messages and watches their pace.
    var openMessage: OpenMessage? { nil }

    func congested() {
        session.lane.loop.execute { [self, session] in session.congested(self) }
    }

    func drained() {
        session.lane.loop.execute { [self, session] in session.drained(self) }
    }

    func ended() {
        session.lane.loop.execute { [self, session] in session.socketEnded(self) }
    }

    // MARK: On the session's lane

    func send(_ frames: [UInt8]) { onSocket { $0.send(frames) } }
    func close(_ code: UInt16, _ reason: String) { onSocket { $0.close(code, reason) } }
    func serverStops() { onSocket { $0.serverStops() } }
    func dismiss() { onSocket { $0.dismiss() } }
    func holdInput(_ isHeld: Bool) { onSocket { $0.holdInput(isHeld) } }
    func holdWhileReading(_ isHeld: Bool) { onSocket { $0.holdWhileReading(isHeld) } }
    func countSent(with counter: ByteCounter?) { onSocket { $0.countSent(with: counter) } }
    func reportDrain() { onSocket { $0.reportDrain() } }

    private func onSocket(_ body: @escaping @Sendable (WebSocketCarrier) -> Void) {
        carrier.connection.loop.execute { [carrier] in body(carrier) }
    }
}

extension LongPollCarrier {
    /// Attaches a WebSocket; false when the session already has one, or has ended.
    func join(_ joining: JoinedSocket) -> Bool {
        guard server.network.longPolls.find(session: sessionID) === self, let actions = transport.join() else { return false }
        socket = joining
        joining.countSent(with: sentBytes)
        socketAssembler = RealtimeAssembler(limits: server.settings.limits.realtime)
        perform(actions)
        return true
    }

    func received(_ text: [UInt8], on joined: JoinedSocket) {
        if socket === joined { receive(text, joined) }
    }

    private func receive(_ text: [UInt8], _ joined: JoinedSocket) {
        if largeReader.isBusy { return enqueue(text.count) { [self] in if isCurrent(joined) { receive(text, joined) } } }
        var parsed: ParsedInbound?
        text.withUnsafeBytes { bytes in socketAssembler.receive(bytes) { parsed = parse($0) } }
        chargeIncoming()
        if let parsed { process(parsed, onSocket: true) }
    }

    func received(_ large: LargeText, on joined: JoinedSocket) {
        if socket === joined { receive(large, joined) }
    }

    private func receive(_ large: LargeText, _ joined: JoinedSocket) {
        guard case .socket(let message) = large.message else { return }
        if largeReader.isBusy { return enqueue(0) { [self] in if isCurrent(joined) { receive(large, joined) } } }
        // A piece of a larger message, or too large for one.
        if socketAssembler.isInsideMessage || message.payload.count > server.settings.limits.realtime.messageBytes {
            return receive(message.payload, joined)
        }
        process(.large(large), onSocket: true)
    }

    /// Whether a queued message of a socket is still processed: the socket is the session's, or was at its end.
    private func isCurrent(_ joined: JoinedSocket) -> Bool { hasEnded ? closedSocket === joined : socket === joined }

    func socketEnded(_ joined: JoinedSocket) {
        guard socket === joined else { return }
        closedSocket = socket
        socket = nil
        perform(transport.socketLost())
    }
}

extension WebSocketCarrier {
    /// Tells the client that the session does not exist: it stays on long polling, without this socket (contract §1.8).
    func refuse(host: String) {
        send(RealtimeFraming.frames(for: RealtimeReply.reset(host: host)))
        finish()
    }
}
