import DispatchNet
import WireProtocols

/// A WebSocket connection: frames in, sign of life, closing handshake.
///
///     received ─► decoder, `turnWork` at most ─► listener        what is left of the read has its turn after the others;
///                    └── the rest: `unread` ─► goOn ─┘           until then, and while anything holds, nothing is read
///
/// Made and used on the connection's loop.
final class WebSocketCarrier: Carrier, LaneMember, @unchecked Sendable {
    // Sendable: everything declared here is used on the connection's loop only.
    let connection: Connection
    let lane: Lane
    /// Whoever speaks through the socket; held until the connection ends.
    var listener: (any SocketListener)?
    private var decoder: WebSocketDecoder
    /// How messages to this peer may be compressed; nil sends them as they are.
    private let deflate: DeflateAgreement.Direction?
    /// When the peer was last heard, in the lane's seconds.
    private var heardAt: Int
    private var isAsked = false
    /// What waited for the peer at the last look: less than before means that it reads.
    private var waitingBytes = 0
    private var isClosing = false
    /// What is held of a message that has not come whole, and whether it comes fast enough.
    private var incoming = IncomingBytes()
    private var pace = MessagePace()
    private let memory: ServerMemory
    /// Why nothing is read now.
    private var holds: Holds = []
    /// What is left of what was read, and whether it has its turn soon.
    private var unread = UnreadBytes()
    private var isNext = false
    /// The peer has said that nothing more comes behind that.
    private var peerHasFinished = false
    private let turnWork: Int

    private struct Holds: OptionSet {
        let rawValue: UInt8
        /// Too much of what the peer asked is not answered yet.
        static let unanswered = Holds(rawValue: 1)
        /// The peer does not take what it was sent.
        static let congested = Holds(rawValue: 2)
        /// A large message is read off the loop.
        static let reading = Holds(rawValue: 4)
        /// Too much is on its way to a session of another loop.
        static let posted = Holds(rawValue: 8)
        /// Some of what was read is left for the next turns.
        static let unread = Holds(rawValue: 16)
    }

    /// - Parameter peer: who has connected, or whom a known proxy asks for.
    init(_ connection: Connection, of peer: SocketAddress, server: Server, deflate: DeflateAgreement?) {
        self.connection = connection
        self.peer = peer
        lane = server.lanes[connection.loop.index]
        heardAt = lane.mark
        memory = server.memory
        let limits = server.settings.limits
        turnWork = limits.turnWork
        decoder = WebSocketDecoder(
            role: .server, maxMessageBytes: limits.frameBytes, deflate: deflate, inlineBytes: min(limits.largeRequestBytes, limits.frameBytes))
        self.deflate = deflate?.server
        lane.join(self)
    }

    func send(_ frames: [UInt8]) {
        guard let deflate else { return connection.send(frames) }
        connection.send(lane.compression.compressed(frames, deflate))
    }

    func send(_ staged: StagedFrame, _ frames: [UInt8]) {
        guard let deflate else { return connection.send(staged) }
        connection.send(lane.compression.compressed(staged, frames, deflate, lane.loop))
    }

    func received(_ bytes: UnsafeMutableRawBufferPointer) {
        heardAt = lane.mark
        isAsked = false
        let used = unread.isEmpty ? use(bytes) : 0
        if used < bytes.count, !isClosing {
            unread.append(bytes[used...])
            hold(.unread, true)
        }
        count()
    }

    /// Reads what is left, as much as one turn may.
    private func goOn() {
        isNext = false
        // Who lets go of the last hold comes here again.
        guard holds == .unread, connection.isOpen else { return }
        var rest = unread.take()
        rest.use { use($0) }
        if isClosing { return count() }
        unread = rest
        count()
        if unread.isEmpty {
            hold(.unread, false)
            if peerHasFinished { connection.close(.peerClosed) }
        } else {
            haveNextTurn()
        }
    }

    /// Behind all that the loop has to do now: what others sent, and what is to be sent to them.
    private func haveNextTurn() {
        guard !isNext else { return }
        isNext = true
        lane.loop.execute { [self] in goOn() }
    }

    /// The peer says nothing more. What it said before is still read.
    func peerFinishedSending() -> HalfClose {
        guard !unread.isEmpty else { return .close }
        peerHasFinished = true
        return .keepWriting
    }

    /// Has what is held of the peer counted.
    private func count() {
        let bytes = isClosing ? 0 : decoder.bufferedBytes + unread.count
        if let refusal = incoming.become(bytes, memory, peer) { close(WebSocketCloseCode.tryAgainLater, refusal.text) }
    }

    /// - Returns: the bytes used. The others are for later.
    private func use(_ bytes: UnsafeMutableRawBufferPointer) -> Int {
        decoder.receive(bytes, work: turnWork) { event in
            guard !isClosing else { return }
            switch event {
            case .text(let text): listener?.received(text: text)
            case .large(let message) where message.opcode == .text: take(message)
            case .binary, .large: close(WebSocketCloseCode.unsupportedData, "Send text frames.")
            case .ping, .pong: if let answer = event.answer() { connection.send(answer) }
            case .close:
                isClosing = true
                if let answer = event.answer() { connection.send(answer) }
                connection.close(.peerClosed)
            case .failure(let error): close(error.closeCode, error.reason)
            }
        }
    }

    /// The message takes along what was held of it.
    private func take(_ message: WebSocketLargeMessage) {
        if let refusal = incoming.become(message.payload.count, memory, peer) { return close(WebSocketCloseCode.tryAgainLater, refusal.text) }
        listener?.received(large: LargeText(message: .socket(message), lease: incoming.take()))
    }

    let peer: SocketAddress

    // MARK: Back-pressure

    func holdInput(_ isHeld: Bool) { hold(.unanswered, isHeld) }
    func holdWhileReading(_ isHeld: Bool) { hold(.reading, isHeld) }
    func holdWhilePosted(_ isHeld: Bool) { hold(.posted, isHeld) }

    private func hold(_ reason: Holds, _ isHeld: Bool) {
        if isHeld { holds.insert(reason) } else { holds.remove(reason) }
        connection.isReading = holds.isEmpty
        if holds == .unread { haveNextTurn() }
        // Who is not listened to has not fallen silent.
        heardAt = lane.mark
    }

    func reportDrain() {
        // After this turn's flush, which says what the kernel has not taken; `outboundDrained` follows then.
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

    /// Says why with a close frame and ends the connection when all that is queued has been sent.
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

    /// Says that nothing more will come, with a close frame.
    func finish() {
        guard !isClosing else { return }
        isClosing = true
        connection.send(WebSocketFrame.close(WebSocketCloseCode.normal))
        connection.close(.finished)
    }

    /// RFC 6455 §7.4.1: 1001, "such as a server going down".
    func serverStops() {
        guard !isClosing else { return }
        isClosing = true
        connection.send(WebSocketFrame.close(WebSocketCloseCode.goingAway))
        connection.close(.serverShutdown)
    }

    func ended(_ reason: CloseReason) {
        lane.leave(self)
        unread = UnreadBytes()
        incoming = IncomingBytes()
        listener?.ended()
        listener = nil
    }

    func tick(seconds: Int, limits: ServerLimits) {
        let waiting = connection.bufferedBytes
        if waiting < waitingBytes || (!holds.isEmpty && !holds.contains(.congested)) { heardAt = seconds }
        waitingBytes = waiting
        let silence = seconds - heardAt
        if silence >= limits.silenceSeconds {
            connection.abort(.idle)
        } else if silence >= limits.pingAfterSeconds, !isAsked {
            isAsked = true
            connection.send(WebSocketFrame.ping())
        }
        watchPace(seconds, limits)
    }

    /// A message that has begun must go on, whatever the peer sends beside it: what is held of it is held for all others, too.
    private func watchPace(_ seconds: Int, _ limits: ServerLimits) {
        let isInside = decoder.isInsideMessage
        let chunked = listener?.openMessage
        guard isInside || chunked != nil, holds.isEmpty, !isClosing else { return pace.reset() }
        // Chunks of one message are messages here.
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
