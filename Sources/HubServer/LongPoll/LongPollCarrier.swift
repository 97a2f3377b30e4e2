import Cryptography
import DispatchNet
import HTTPTypes
import HubEngine
import JSONTree
import Logging
import WireProtocols

/// Carries a browser's session by long polling (contract §1.8), and by the WebSocket that replaces it.
///
/// ```
///  any connection, any loop                    the session's lane
///  GET /.lp ── PendingResponse ── execute ──►  poll ─► downstream ─► answers ── execute ──► connection
///                                              └───► upstream ──► switch ──► RealtimeSession ─► Database
///  WebSocket ── text ────────── execute ──►  assembler ────────────┘
/// ```
final class LongPollCarrier: Carrier, LoopMember, ReservationMaker, @unchecked Sendable {
    // Sendable: mutable state is used on the lane's loop only; entry points from other threads hop to it.
    let key: LongPollKey
    let sessionID: String
    /// The network address of the client that opened the session.
    let network: SocketAddress
    let lane: LoopSessions
    let database: Database
    let server: Server
    let limits: LongPollLimits

    /// Nil after the end, once the messages that were being parsed at that time are processed.
    private var session: RealtimeSession?
    private(set) var hasEnded = false
    private var upstream: LongPollUpstream
    private var downstream: LongPollDownstream
    private var unwrapper = FrameUnwrapper()
    private var mustFlush = false
    /// When the bytes waiting for a poll went over the soft limit, in the lane's seconds; nil while they are under it.
    private var congestedSince: Int?

    /// Polls without a response, by ticket.
    private var answers: [Int: PendingResponse] = [:]
    private var nextTicket = 1
    /// When the client's last request came, and when the held poll came, in the lane's seconds.
    private var lastRequestAt: Int
    private var heldSince: Int

    var transport: TransportSwitch
    /// The WebSocket that replaced the polls, and the assembler of its chunks.
    var socket: JoinedSocket?
    /// The socket that closed last: its messages from before the session's end are still processed.
    var closedSocket: JoinedSocket?
    var socketAssembler: RealtimeAssembler

    /// Reads large messages, from polls and from the socket.
    private(set) lazy var largeReader = LargeMessageReader(lane.loop, server, network) { [weak self] in self?.holdWhileReading($0) }
    /// Limits with the lane's node allowance.
    private var realtime: RealtimeLimits
    /// Leases for incomplete messages, and for messages that wait for polls.
    private var incoming = IncomingBytes()
    private var queued: MemoryLease?
    /// Counts the bytes sent to the session's user.
    private(set) var sentBytes: ByteCounter?
    /// The pace of incomplete messages, by polls and on the socket.
    private var paces = (polls: MessagePace(), socket: MessagePace())

    /// Call `begin` next.
    /// - Parameter callback: see `LongPollRequest.open`.
    init(callback: String, from address: SocketAddress, lane: LoopSessions, database: Database, server: Server) {
        let key = LongPollKey(id: SecureRandom.text(16), password: SecureRandom.text(24))
        self.key = key
        sessionID = database.sessionPrefix + SecureRandom.text(32)
        network = address.network
        self.lane = lane
        self.database = database
        self.server = server
        limits = server.settings.limits.longPoll
        upstream = LongPollUpstream(limits: limits, realtime: server.settings.limits.realtime)
        downstream = LongPollDownstream(opening: 0, preamble: LongPollScript.open(callback: callback, key: key))
        transport = TransportSwitch(limits: limits)
        realtime = server.settings.limits.realtime
        realtime.write.allowance = lane.allowance
        socketAssembler = RealtimeAssembler(limits: realtime)
        lastRequestAt = lane.mark
        heldSince = lane.mark
    }

    /// Answers the opening request: the script's functions, the key, and the session's hello.
    /// - Parameter address: the address that the observers of a signed-out session are charged to.
    func begin(_ answer: PendingResponse, host: String, replacing previous: String?, address: String?) {
        answers[0] = answer
        lane.join(self)
        let session = RealtimeSession(
            self, id: sessionID, host: host, replacing: previous, lane: lane.index, database: database, server: server)
        session.address = address
        self.session = session
    }

    // MARK: Requests

    func poll(_ answer: PendingResponse, serial: Int64?, segments: [LongPollSegment]) {
        lane.loop.assertOnLoop()
        lastRequestAt = lane.mark
        let ticket = nextTicket
        nextTicket += 1
        answers[ticket] = answer
        respond(downstream.poll(ticket, serial: serial, bringsRequests: !segments.isEmpty))
        heldSince = lane.mark
        if downstream.hasClosed { return end() }
        if let session, session.unanswered.bytes > limits.unansweredBytes { return fail(LongPollError.tooMuchUnanswered.reason) }
        receive(segments)
        guard !hasEnded, downstream.isHolding, downstream.queuedBytes > 0, !mustFlush else { return }
        _ = lane.loop.schedule(afterMs: limits.answerMs, everyMs: nil) { [weak self] in
            guard let self, !self.hasEnded else { return }
            self.respond(self.downstream.flush())
        }
    }

    /// The client's page was unloaded (contract check 26, 27).
    func pageUnloaded() {
        if !transport.hasMoved { end() }
    }

    private func receive(_ segments: [LongPollSegment]) {
        var parsed: [ParsedInbound] = []
        do throws(LongPollError) {
            try upstream.receive(segments) { inbound in
                if let one = parse(inbound) { parsed.append(one) }
            }
        } catch { return fail(error.reason) }
        chargeIncoming()
        for one in parsed where !hasEnded { process(one, onSocket: false) }
    }

    /// A parsed message, before it is carried out.
    enum ParsedInbound {
        case message(RealtimeMessage, bytes: Int)
        case failure(RealtimeError)
        case large(LargeText)
    }

    func parse(_ inbound: RealtimeInbound) -> ParsedInbound? {
        let bytes = inbound.bytes
        if bytes > server.settings.limits.largeRequestBytes {
            let lease = server.memory.lease(of: network, for: .incoming)
            guard lease.become(bytes) else {
                abandon { fail((lease.refusal ?? .process).text) }
                return nil
            }
            if let source = inbound.source { return .large(LargeText(message: source, lease: lease)) }
        }
        do throws(RealtimeError) {
            return try inbound.message(limits: realtime, payer: self).map { .message($0, bytes: bytes) }
        } catch { return .failure(error) }
    }

    /// Carries a message out. After the end, this still processes messages that came before it.
    func process(_ parsed: ParsedInbound, onSocket: Bool) {
        guard session != nil else { return }
        if largeReader.isBusy {
            var bytes = 0
            if case .message(let message, let size) = parsed { bytes = message.cost(size) }
            return enqueue(bytes) { [self] in process(parsed, onSocket: onSocket) }
        }
        switch parsed {
        case .message(let message, let bytes):
            perform(onSocket ? transport.receiveOnSocket(message, bytes: message.cost(bytes)) : transport.receiveByPoll(message))
            chargeIncoming()
        case .failure(let error): abandon { onSocket ? close(error.closeCode, error.reason) : fail(error.reason) }
        case .large(let text):
            guard let session else { return }
            largeReader.read(text, session.largeMessageParser()) { [self] outcome in
                switch outcome.value {
                case .success(.success(let message)):
                    process(.message(message.costing(outcome.bytes, outcome.hold), bytes: outcome.bytes), onSocket: onSocket)
                case .success(.failure(let error)): process(.failure(error), onSocket: onSocket)
                case .failure(.memory(let refusal)): abandon { close(WebSocketCloseCode.tryAgainLater, refusal.text) }
                case .failure(.message(let error)): abandon { close(error.closeCode, error.reason) }
                }
            }
        }
    }

    /// A message cannot be processed: the messages behind it are dropped.
    private func abandon(_ close: () -> Void) {
        let isBehindTheEnd = hasEnded
        close()
        if isBehindTheEnd { session = nil }
    }

    func enqueue(_ bytes: Int, _ arrival: @escaping () -> Void) {
        if let refusal = largeReader.enqueue(bytes, arrival) { close(WebSocketCloseCode.tryAgainLater, refusal.text) }
    }

    /// Charges the budget for incomplete messages, and for requests that wait for the end of polling.
    func chargeIncoming() {
        if hasEnded { return }
        let bytes = upstream.bufferedBytes + socketAssembler.bufferedBytes + transport.waitingBytes
        if let refusal = incoming.become(bytes, server.memory, network) { close(WebSocketCloseCode.tryAgainLater, refusal.text) }
    }

    func perform(_ actions: [TransportSwitch.Action]) {
        for action in actions {
            if hasEnded {
                if case .submit(let request) = action { session?.submit(request) }
                continue
            }
            switch action {
            case .acknowledgeOnSocket: socket?.send(RealtimeFraming.frames(for: RealtimeReply.switchAck))
            case .pongOnSocket: socket?.send(RealtimeFraming.frames(for: RealtimeReply.pong))
            case .pongByPoll: queue(.text(RealtimeReply.pong))
            case .endPolling:
                respond(downstream.finish(with: RealtimeReply.endTransmission))
                // Polls cannot be held back; the socket can.
                if session?.unanswered.isHolding == true { socket?.holdInput(true) }
                if largeReader.isBusy { socket?.holdWhileReading(true) }
            case .submit(let request): session?.submit(request)
            case .overflow: fail("too much waits for the end of polling")
            case .end: end()
            }
        }
    }

    // MARK: Output

    func send(_ frames: [UInt8]) {
        if transport.hasMoved {
            socket?.send(frames)
        } else if frames.count > RESTExchange.inlineBytes {
            queue(.frames(frames))
        } else {
            for message in unwrapper.messages(in: frames) { queue(.text(message)) }
        }
    }

    func send(_ staged: StagedFrame, _ frames: [UInt8]) { send(frames) }

    /// Nothing is copied before a poll is answered.
    var isTurnFull: Bool { false }

    /// Queues a message. All messages of one turn leave in one response at its end.
    private func queue(_ message: LongPollMessage) {
        downstream.send(message)
        if downstream.queuedBytes > limits.queuedBytes { return fail(LongPollError.tooMuchQueued.reason) }
        chargeQueued()
        if hasEnded { return }
        if congestedSince == nil, downstream.queuedBytes > server.settings.limits.net.outboundSoftBytes {
            congestedSince = lane.mark
            session?.congested()
        }
        guard !mustFlush else { return }
        mustFlush = true
        lane.loop.execute { [self] in
            mustFlush = false
            respond(downstream.flush())
        }
    }

    /// Charges the budget for messages that wait for polls.
    private func chargeQueued() {
        let bytes = downstream.queuedBytes
        if bytes == 0 {
            queued = nil
        } else if bytes > IncomingBytes.freeBytes || queued != nil {
            let lease = queued ?? server.memory.lease(of: network, for: .answers)
            queued = lease
            guard !lease.become(bytes) else { return }
            // The budget refuses: drop the queue, and close with the last response.
            downstream.dropQueue()
            fail((lease.refusal ?? .process).text)
        }
    }

    private func respond(_ given: [LongPollDownstream.Answer]) {
        for answer in given { respond(answer) }
        guard !given.isEmpty, downstream.queuedBytes == 0 else { return }
        queued = nil
        congestedSince = nil
        session?.drained()
    }

    private func respond(_ answer: LongPollDownstream.Answer) {
        guard let poll = answers.removeValue(forKey: answer.ticket) else { return }
        poll.sentBytes = sentBytes
        if answer.bytes <= RESTExchange.inlineBytes { return poll.send(.ok, Self.scriptFields, answer.script) }
        // A large script is encoded as the peer reads it; its lease lasts until then.
        var body = ResponseBody(answer.encoder)
        body.hold = queued.map { BodyHold($0, lane.loop) }
        queued = nil
        poll.send(.ok, Self.scriptFields, body)
    }

    // MARK: Back-pressure

    /// Polls cannot be held back one by one; a client that keeps sending is closed (`tooMuchUnanswered`).
    func holdInput(_ isHeld: Bool) { socket?.holdInput(isHeld) }
    func holdWhileReading(_ isHeld: Bool) { socket?.holdWhileReading(isHeld) }
    var peer: SocketAddress { network }

    func countSent(with counter: ByteCounter?) {
        sentBytes = counter
        socket?.countSent(with: counter)
    }

    func reportDrain() {
        if let socket, transport.hasMoved { return socket.reportDrain() }
        // After this turn's messages have left with a poll.
        lane.loop.execute { [self] in
            if downstream.queuedBytes == 0, !transport.hasMoved { session?.drained() }
        }
    }

    func congested(_ joined: JoinedSocket) {
        if socket === joined { session?.congested() }
    }

    func drained(_ joined: JoinedSocket) {
        if socket === joined { session?.drained() }
    }

    // MARK: The end

    func close(_ code: UInt16, _ reason: String) {
        if transport.hasMoved { socket?.close(code, reason) }
        fail(reason)
    }

    func dismiss() { end() }

    /// Stops the session with the server: a joined WebSocket gets 1001, like any other.
    func stop() {
        socket?.serverStops()
        end()
    }

    func fail(_ reason: String) {
        server.logger.debug("long polling ended", metadata: ["reason": "\(reason)", "namespace": "\(database.name)"])
        end()
    }

    /// Ends the session: notifies the client to drop the connection, and commits its onDisconnect writes.
    func end() {
        lane.loop.assertOnLoop()
        guard !hasEnded else { return }
        hasEnded = true
        congestedSince = nil
        respond(downstream.close())
        socket?.dismiss()
        if let socket { closedSocket = socket }
        socket = nil
        incoming = IncomingBytes()
        queued = nil
        lane.leave(self)
        server.network.longPolls.remove(self)
        session?.ended(behind: largeReader)
        if largeReader.isBusy { _ = largeReader.enqueue(0) { [self] in release() } } else { release() }
    }

    private func release() {
        session = nil
        closedSocket = nil
        // Many sessions may end at once, so incomplete messages are freed in the background.
        guard upstream.bufferedBytes + socketAssembler.bufferedBytes > IncomingBytes.freeBytes else { return }
        Retired((upstream, socketAssembler)).retire()
        upstream = LongPollUpstream(limits: limits, realtime: realtime)
        socketAssembler = RealtimeAssembler(limits: realtime)
    }

    /// Whether a message that spans several requests, or several texts on the socket, comes too slowly.
    private func isTooSlow(_ seconds: Int, _ limits: ServerLimits) -> Bool {
        func check(_ pace: inout MessagePace, _ assembler: RealtimeAssembler, _ perSecond: Int) -> Bool {
            guard assembler.isInsideMessage, !largeReader.isBusy, session?.unanswered.isHolding != true else {
                pace.reset()
                return false
            }
            return pace.isTooSlow(
                assembler.messages, assembler.openBytes, seconds: seconds, stretch: limits.requestSeconds,
                demand: limits.requestSeconds * perSecond)
        }
        return check(&paces.polls, upstream.assembler, limits.longPoll.bytesPerSecond)
            || check(&paces.socket, socketAssembler, limits.bodyBytesPerSecond)
    }

    func tick(seconds: Int, limits: ServerLimits) {
        if isTooSlow(seconds, limits) {
            return close(WebSocketCloseCode.policyViolation, "a message that has begun must come whole, and not too slowly")
        }
        // A WebSocket has its own ping.
        if transport.hasMoved { return }
        if let congestedSince, (seconds - congestedSince) * 1000 >= limits.net.outboundSoftMs { return fail("too much waits for a poll") }
        if downstream.isHolding {
            if seconds - heldSince >= limits.longPoll.holdSeconds { respond(downstream.release()) }
        } else if seconds - lastRequestAt >= limits.longPoll.silenceSeconds {
            fail("no poll for \(seconds - lastRequestAt) s")
        }
    }

    func makeReservation() -> any MemoryReservation { server.memory.lease(of: network, for: .parsing) }

    /// `no-store`: each response is for one request.
    static let scriptFields: HTTPFields = [
        .contentType: LongPollScript.scriptType, .cacheControl: "no-store", .xContentTypeOptions: "nosniff",
    ]
}
