import DispatchNet
import WireProtocols

/// A WebSocket connection: decodes frames, sends pings, and does the closing handshake.
///
///     received ─► decoder, `turnWork` at most ─► listener           the rest of the read waits behind other connections' turns;
///                    └── the rest: `unread` ─► resume ─┘            until then, and while any hold is set, reading stops
///
/// Created and used on the connection's loop; it is the connection's handler from the upgrade on.
final class WebSocketCarrier: Carrier, ConnectionHandler, LoopMember, @unchecked Sendable {
    // Sendable: everything declared here is used on the connection's loop only.
    let connection: Connection
    let lane: LoopSessions
    /// Receives the socket's messages; retained until the connection ends.
    var listener: (any SocketListener)?
    private var decoder: WebSocketDecoder
    /// The negotiated compression towards the peer; nil sends messages uncompressed.
    private let deflate: DeflateAgreement.Direction?
    /// When the last bytes came from the peer, in the lane's seconds.
    private var lastReceivedAt: Int
    private var hasPinged = false
    /// Bytes that waited for the peer at the last tick: fewer now means that it reads.
    private var waitingBytes = 0
    private var isClosing = false
    /// The lease and the pace of an incomplete message.
    private var incoming = IncomingBytes()
    private var pace = MessagePace()
    private let server: Server
    /// Reasons for which reading is stopped; empty while reading.
    private var holds: Holds = []
    /// The unconsumed rest of a read, and whether its turn is scheduled.
    private var unread = UnreadBytes()
    private var isTurnScheduled = false
    /// The peer closed its sending side behind `unread`.
    private var peerHasFinished = false

    private struct Holds: OptionSet {
        let rawValue: UInt8
        /// Too many requests of the peer are unanswered.
        static let unanswered = Holds(rawValue: 1)
        /// The peer does not read its output.
        static let congested = Holds(rawValue: 2)
        /// A large message is parsed off the loop.
        static let reading = Holds(rawValue: 4)
        /// Too many bytes are posted to a session of another loop.
        static let posted = Holds(rawValue: 8)
        /// A part of the last read is left for later turns.
        static let unread = Holds(rawValue: 16)
    }

    /// - Parameter peer: the connection's peer, or the client that a trusted proxy forwards.
    init(_ connection: Connection, of peer: SocketAddress, server: Server, deflate: DeflateAgreement?) {
        self.connection = connection
        self.peer = peer
        lane = server.lanes[connection.loop.index]
        lastReceivedAt = lane.mark
        self.server = server
        let limits = server.settings.limits
        decoder = WebSocketDecoder(
            role: .server, maxMessageBytes: limits.frameBytes, deflate: deflate,
            inlineBytes: min(limits.largeRequestBytes, limits.frameBytes))
        self.deflate = deflate?.server
        lane.join(self)
    }

    func countSent(with counter: ByteCounter?) { connection.sentBytes = counter }

    func send(_ frames: [UInt8]) {
        guard let deflate else { return connection.send(frames) }
        connection.send(lane.compression.compressed(frames, deflate))
    }

    func send(_ staged: StagedFrame, _ frames: [UInt8]) {
        guard let deflate else { return connection.send(staged) }
        connection.send(lane.compression.compressed(staged, frames, deflate, lane.loop))
    }

    var isTurnFull: Bool { connection.isTurnFull }

    func received(_ bytes: UnsafeMutableRawBufferPointer) {
        lastReceivedAt = lane.mark
        hasPinged = false
        let used = unread.isEmpty ? decode(bytes) : 0
        if used < bytes.count, !isClosing {
            unread.append(bytes[used...])
            hold(.unread, true)
        }
        chargeIncoming()
    }

    /// Decodes more of the last read, as much as one turn allows.
    private func resume() {
        isTurnScheduled = false
        // Removing the last other hold schedules this again.
        guard holds == .unread, connection.isOpen else { return }
        var rest = unread.detach()
        rest.consume { decode($0) }
        if isClosing { return chargeIncoming() }
        unread = rest
        chargeIncoming()
        if unread.isEmpty {
            hold(.unread, false)
            if peerHasFinished { connection.close(.peerClosed) }
        } else {
            scheduleTurn()
        }
    }

    /// Schedules the next turn, behind all current work of the loop.
    private func scheduleTurn() {
        guard !isTurnScheduled else { return }
        isTurnScheduled = true
        lane.loop.postpone { [self] in resume() }
    }

    /// The peer closed its sending side. Bytes from before are still decoded.
    func peerFinishedSending() -> HalfClose {
        guard !unread.isEmpty else { return .close }
        peerHasFinished = true
        return .keepWriting
    }

    /// Charges the budget for the peer's incomplete input.
    private func chargeIncoming() {
        let bytes = isClosing ? 0 : decoder.bufferedBytes + unread.count
        if let refusal = incoming.become(bytes, server.memory, peer) { close(WebSocketCloseCode.tryAgainLater, refusal.text) }
    }

    /// Decodes frames, up to `turnWork`.
    /// - Returns: the number of bytes consumed.
    private func decode(_ bytes: UnsafeMutableRawBufferPointer) -> Int {
        decoder.receive(bytes, work: server.settings.limits.turnWork) { event in
            guard !isClosing else { return }
            switch event {
            case .text(let text): listener?.received(text: text)
            case .large(let message) where message.opcode == .text: receiveLarge(message)
            case .binary, .large:
                listener?.sendWaiting()
                close(WebSocketCloseCode.unsupportedData, "Send text frames: a message is a JSON text, never binary.")
            case .ping, .pong: if let answer = event.answer() { connection.send(answer) }
            case .close:
                listener?.sendWaiting()
                isClosing = true
                if let answer = event.answer() { connection.send(answer) }
                connection.close(.peerClosed)
            case .failure(let error):
                listener?.sendWaiting()
                close(error.closeCode, error.reason)
            }
        }
    }

    /// Passes a large message on, with the lease that was made for it.
    private func receiveLarge(_ message: WebSocketLargeMessage) {
        if let refusal = incoming.become(message.payload.count, server.memory, peer) {
            return close(WebSocketCloseCode.tryAgainLater, refusal.text)
        }
        listener?.received(large: LargeText(message: .socket(message), lease: incoming.detachLease()))
    }

    let peer: SocketAddress

    // MARK: Back-pressure

    func holdInput(_ isHeld: Bool) { hold(.unanswered, isHeld) }
    func holdWhileReading(_ isHeld: Bool) { hold(.reading, isHeld) }
    func holdWhilePosted(_ isHeld: Bool) { hold(.posted, isHeld) }

    private func hold(_ reason: Holds, _ isHeld: Bool) {
        if isHeld { holds.insert(reason) } else { holds.remove(reason) }
        connection.isReading = holds.isEmpty
        if holds == .unread { scheduleTurn() }
        // While reading is stopped, the peer does not count as silent.
        lastReceivedAt = lane.mark
    }

    func reportDrain() {
        // After this turn's flush, which shows what the kernel did not accept; then `outboundDrained` follows.
        lane.loop.execute { [self] in
            if connection.backlogBytes == 0 { listener?.drained() }
        }
    }

    func outboundCongested() {
        hold(.congested, true)
        listener?.congested()
    }

    func outboundDrained() {
        hold(.congested, false)
        listener?.drained()
    }

    // MARK: The end

    /// Sends a close frame with a reason, and ends the connection when the queued output has been sent.
    func close(_ code: UInt16, _ reason: String) {
        guard !isClosing else { return }
        isClosing = true
        connection.send(WebSocketFrame.close(code, reason: reason))
        switch code {
        case WebSocketCloseCode.messageTooBig: connection.close(.limitExceeded(code))
        case WebSocketCloseCode.tryAgainLater: connection.close(.memoryBudget)
        default: connection.close(.protocolError(code))
        }
    }

    func dismiss() { connection.close(.dismissed) }

    /// Sends a normal close frame (1000).
    func finish() {
        guard !isClosing else { return }
        isClosing = true
        connection.send(WebSocketFrame.close(WebSocketCloseCode.normal))
        connection.close(.finished)
    }

    /// Sends 1001, "such as a server going down" (RFC 6455 §7.4.1).
    func serverStops() {
        guard !isClosing else { return }
        isClosing = true
        connection.send(WebSocketFrame.close(WebSocketCloseCode.goingAway))
        connection.close(.serverShutdown)
    }

    func ended(_ reason: CloseReason) {
        server.logEnd(connection, reason)
        lane.leave(self)
        unread = UnreadBytes()
        incoming = IncomingBytes()
        listener?.ended()
        listener = nil
    }

    func tick(seconds: Int, limits: ServerLimits) {
        let waiting = connection.bufferedBytes
        if waiting < waitingBytes || (!holds.isEmpty && !holds.contains(.congested)) { lastReceivedAt = seconds }
        waitingBytes = waiting
        let silence = seconds - lastReceivedAt
        if silence >= limits.silenceSeconds {
            connection.abort(.idle)
        } else if silence >= limits.pingAfterSeconds, !hasPinged {
            hasPinged = true
            connection.send(WebSocketFrame.ping())
        }
        watchPace(seconds, limits)
    }

    /// Closes the connection if an incomplete message arrives too slowly, whatever other frames arrive: its memory is charged to the
    /// budget of all clients.
    private func watchPace(_ seconds: Int, _ limits: ServerLimits) {
        let isInside = decoder.isInsideMessage
        let chunked = listener?.openMessage
        guard isInside || chunked != nil, holds.isEmpty, !isClosing else { return pace.reset() }
        // The chunks of one realtime message are WebSocket messages here.
        let number = chunked.map { ~$0.number } ?? decoder.messages
        let bytes = decoder.openBytes + (chunked?.bytes ?? 0)
        let isTooSlow = pace.isTooSlow(
            number, bytes, seconds: seconds, stretch: limits.requestSeconds, demand: limits.requestSeconds * limits.bodyBytesPerSecond)
        guard isTooSlow else { return }
        isClosing = true
        connection.send(WebSocketFrame.close(
            WebSocketCloseCode.policyViolation, reason: "a message must bring \(limits.bodyBytesPerSecond) bytes a second"))
        connection.close(.requestTimeout)
    }
}
