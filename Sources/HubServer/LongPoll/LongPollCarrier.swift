import Cryptography
import DispatchNet
import HTTPTypes
import HubEngine
import JSONTree
import Logging
import WireProtocols

/// Carries a browser's session by long polling (contract §1.8), and by the WebSocket that takes over.
///
/// ```
///  any connection, any loop                    the session's lane
///  GET /.lp ── PendingAnswer ── execute ──►  poll ─► downstream ─► answers ── execute ──► connection
///                                              └───► upstream ──► switch ──► RealtimeSession ─► Database
///  WebSocket ── text ────────── execute ──►  assembler ────────────┘
/// ```
final class LongPollCarrier: Carrier, LaneMember, NodePayer, @unchecked Sendable {
    // Sendable: all that changes is used on the lane's loop only, which entries from elsewhere hop to.
    let key: LongPollKey
    let sessionID: String
    /// Where the session began from.
    let network: SocketAddress
    let lane: Lane
    let database: Database
    unowned let server: Server
    let limits: LongPollLimits

    /// Nil as soon as nothing more is asked of it: at the end, or behind the messages that were being read then.
    private var session: RealtimeSession?
    private(set) var hasEnded = false
    private var upstream: LongPollUpstream
    private var downstream: LongPollDownstream
    private var unwrapper = FrameUnwrapper()
    private var mustFlush = false
    /// When more than the soft limit began to wait for a poll, in the lane's seconds; nil while it does not.
    private var congestedSince: Int?

    /// Polls without an answer, by ticket.
    private var answers: [Int: PendingAnswer] = [:]
    private var nextTicket = 1
    /// When the client last asked for something, and when the poll that is held came, in the lane's seconds.
    private var heardAt: Int
    private var heldSince: Int

    var transport: TransportSwitch
    /// The WebSocket that has joined, and what puts its chunks together.
    var socket: JoinedSocket?
    /// The one that has gone last: what came on it before the session's end still counts.
    var goneSocket: JoinedSocket?
    var socketAssembler: RealtimeAssembler

    /// Large messages, whichever way they came.
    private(set) lazy var aside = Aside(lane.loop, server, network) { [weak self] in self?.holdWhileReading($0) }
    /// With the allowance of the lane.
    private var realtime: RealtimeLimits
    /// What is held of messages that have not come whole, and what waits for polls.
    private var incoming = IncomingBytes()
    private var queued: MemoryLease?
    /// Whether such a message comes fast enough, by polls and on the socket.
    private var paces = (polls: MessagePace(), socket: MessagePace())

    /// Call `begin` next.
    /// - Parameter callback: see `LongPollRequest.open`.
    init(callback: String, from address: SocketAddress, lane: Lane, database: Database, server: Server) {
        let key = LongPollKey(id: SecureRandom.text(16), password: SecureRandom.text(24))
        self.key = key
        sessionID = SecureRandom.text(32)
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
        heardAt = lane.mark
        heldSince = lane.mark
    }

    /// Answers the opening request: the functions, the key, and the session's hello.
    /// - Parameter address: whom the session's observers count for while nobody is signed in.
    func begin(_ answer: PendingAnswer, host: String, replacing previous: String?, address: String?) {
        answers[0] = answer
        lane.join(self)
        let session = RealtimeSession(
            self, id: sessionID, host: host, replacing: previous, lane: lane.index, database: database, server: server)
        session.address = address
        self.session = session
    }

    // MARK: What the client asks

    func poll(_ answer: PendingAnswer, serial: Int64?, segments: [LongPollSegment]) {
        lane.loop.assertOnLoop()
        heardAt = lane.mark
        let ticket = nextTicket
        nextTicket += 1
        answers[ticket] = answer
        give(downstream.poll(ticket, serial: serial, bringsRequests: !segments.isEmpty))
        heldSince = lane.mark
        if downstream.hasClosed { return end() }
        if let session, session.intake.bytes > limits.askedBytes { return fail(LongPollError.tooMuchAsked.reason) }
        receive(segments)
        guard !hasEnded, downstream.isHolding, downstream.queuedBytes > 0, !mustFlush else { return }
        _ = lane.loop.schedule(afterMs: limits.answerMs, everyMs: nil) { [weak self] in
            guard let self, !self.hasEnded else { return }
            self.give(self.downstream.flush())
        }
    }

    /// The page was left (contract check 26, 27).
    func leave() {
        if !transport.hasMoved { end() }
    }

    private func receive(_ segments: [LongPollSegment]) {
        var heard: [Heard] = []
        do throws(LongPollError) {
            try upstream.receive(segments) { inbound in
                if let one = hear(inbound) { heard.append(one) }
            }
        } catch { return fail(error.reason) }
        noteIncoming()
        for one in heard where !hasEnded { take(one, onSocket: false) }
    }

    /// What came, before it is carried out.
    enum Heard {
        case message(RealtimeMessage, bytes: Int)
        case failure(RealtimeError)
        case large(LargeText)
    }

    func hear(_ inbound: RealtimeInbound) -> Heard? {
        var bytes = 0
        if case .message(let text) = inbound { bytes = text.count }
        if case .message(let text) = inbound, bytes > server.settings.limits.largeRequestBytes {
            let lease = server.memory.lease(of: network, for: .incoming)
            guard lease.become(bytes) else {
                breakOff { fail((lease.refusal ?? .process).text) }
                return nil
            }
            return .large(LargeText(message: .text(Array(text)), lease: lease))
        }
        do throws(RealtimeError) {
            return try inbound.message(limits: realtime, payer: self).map { .message($0, bytes: bytes) }
        } catch { return .failure(error) }
    }

    /// Also behind the end, for what came before it.
    func take(_ heard: Heard, onSocket: Bool) {
        guard session != nil else { return }
        if aside.isBusy {
            var bytes = 0
            if case .message(let message, let size) = heard { bytes = message.cost(size) }
            return keep(bytes) { [self] in take(heard, onSocket: onSocket) }
        }
        switch heard {
        case .message(let message, let bytes):
            perform(onSocket ? transport.receiveOnSocket(message, bytes: message.cost(bytes)) : transport.receiveByPoll(message))
            noteIncoming()
        case .failure(let error): breakOff { onSocket ? close(error.closeCode, error.reason) : fail(error.reason) }
        case .large(let text):
            guard let session else { return }
            aside.read(text, session.reading()) { [self] outcome in
                switch outcome.value {
                case .success(.success(let message)):
                    take(.message(message.costing(outcome.bytes, outcome.hold), bytes: outcome.bytes), onSocket: onSocket)
                case .success(.failure(let error)): take(.failure(error), onSocket: onSocket)
                case .failure(.memory(let refusal)): breakOff { close(WebSocketCloseCode.tryAgainLater, refusal.text) }
                case .failure(.message(let error)): breakOff { close(error.closeCode, error.reason) }
                }
            }
        }
    }

    /// A message cannot be taken: nothing that came behind it is.
    private func breakOff(_ close: () -> Void) {
        let isBehindTheEnd = hasEnded
        close()
        if isBehindTheEnd { session = nil }
    }

    func keep(_ bytes: Int, _ arrival: @escaping () -> Void) {
        if let refusal = aside.keep(bytes, arrival) { close(WebSocketCloseCode.tryAgainLater, refusal.text) }
    }

    /// Tells what is held of messages that have not come whole, and of requests that wait for the end of polling.
    func noteIncoming() {
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
                give(downstream.finish(with: RealtimeReply.endTransmission))
                // What could not be held back by polls is from here on.
                if session?.intake.isHolding == true { socket?.holdInput(true) }
                if aside.isBusy { socket?.holdWhileReading(true) }
            case .submit(let request): session?.submit(request)
            case .overflow: fail("too much waits for the end of polling")
            case .end: end()
            }
        }
    }

    // MARK: What the session says

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

    /// What is queued in one turn leaves in one answer at its end.
    private func queue(_ message: LongPollMessage) {
        downstream.send(message)
        if downstream.queuedBytes > limits.queuedBytes { return fail(LongPollError.tooMuchQueued.reason) }
        noteQueued()
        if hasEnded { return }
        if congestedSince == nil, downstream.queuedBytes > server.settings.limits.net.outboundSoftBytes {
            congestedSince = lane.mark
            session?.congested()
        }
        guard !mustFlush else { return }
        mustFlush = true
        lane.loop.execute { [self] in
            mustFlush = false
            give(downstream.flush())
        }
    }

    /// Tells what waits for polls.
    private func noteQueued() {
        let bytes = downstream.queuedBytes
        if bytes == 0 {
            queued = nil
        } else if bytes > IncomingBytes.freeBytes || queued != nil {
            let lease = queued ?? server.memory.lease(of: network, for: .answers)
            queued = lease
            guard !lease.become(bytes) else { return }
            // There is no memory for it, so the last answer goes without it.
            downstream.forget()
            fail((lease.refusal ?? .process).text)
        }
    }

    private func give(_ given: [LongPollDownstream.Answer]) {
        for answer in given { give(answer) }
        guard !given.isEmpty, downstream.queuedBytes == 0 else { return }
        queued = nil
        congestedSince = nil
        session?.drained()
    }

    private func give(_ answer: LongPollDownstream.Answer) {
        guard let poll = answers.removeValue(forKey: answer.ticket) else { return }
        if answer.bytes <= RESTExchange.inlineBytes { return poll.send(.ok, Self.scriptFields, answer.script) }
        // A large script is made as the peer takes it, and counts until it has.
        var body = OutgoingBody(answer.encoder)
        body.hold = queued.map { BodyHold($0, lane.loop) }
        queued = nil
        poll.send(.ok, Self.scriptFields, body)
    }

    // MARK: Back-pressure

    /// Polls cannot be held back one by one; a client that goes on regardless ends (`tooMuchAsked`).
    func holdInput(_ isHeld: Bool) { socket?.holdInput(isHeld) }
    func holdWhileReading(_ isHeld: Bool) { socket?.holdWhileReading(isHeld) }
    var peer: SocketAddress { network }

    func reportDrain() {
        if let socket, transport.hasMoved { return socket.reportDrain() }
        // After what is queued in this turn has found its poll.
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

    /// The server stops: a WebSocket that has joined says 1001 like any other.
    func stop() {
        socket?.serverStops()
        end()
    }

    func fail(_ reason: String) {
        server.logger.debug("long polling ended", metadata: ["reason": "\(reason)", "namespace": "\(database.name)"])
        end()
    }

    /// Ends the session, whatever carries it: the client is told to drop the connection, its pending writes fire.
    func end() {
        lane.loop.assertOnLoop()
        guard !hasEnded else { return }
        hasEnded = true
        congestedSince = nil
        give(downstream.close())
        socket?.dismiss()
        if let socket { goneSocket = socket }
        socket = nil
        incoming = IncomingBytes()
        queued = nil
        lane.leave(self)
        server.longPolls.remove(self)
        session?.ended(behind: aside)
        if aside.isBusy { _ = aside.keep(0) { [self] in forget() } } else { forget() }
    }

    private func forget() {
        session = nil
        goneSocket = nil
    }

    /// Whether a message in several requests, or in several texts on the socket, comes too slowly.
    private func isTooSlow(_ seconds: Int, _ limits: ServerLimits) -> Bool {
        func check(_ pace: inout MessagePace, _ assembler: RealtimeAssembler, _ perSecond: Int) -> Bool {
            guard assembler.isInsideMessage, !aside.isBusy, session?.intake.isHolding != true else {
                pace.reset()
                return false
            }
            return pace.isTooSlow(
                assembler.messages, assembler.openBytes, seconds: seconds, stretch: limits.requestSeconds, demand: limits.requestSeconds * perSecond)
        }
        return check(&paces.polls, upstream.assembler, limits.longPoll.bytesPerSecond)
            || check(&paces.socket, socketAssembler, limits.bodyBytesPerSecond)
    }

    func tick(seconds: Int, limits: ServerLimits) {
        if isTooSlow(seconds, limits) {
            return close(WebSocketCloseCode.policyViolation, "a message that has begun must come whole, and not too slowly")
        }
        // After the move the WebSocket has its own sign of life.
        if transport.hasMoved { return }
        if let congestedSince, (seconds - congestedSince) * 1000 >= limits.net.outboundSoftMs { return fail("too much waits for a poll") }
        if downstream.isHolding {
            if seconds - heldSince >= limits.longPoll.holdSeconds { give(downstream.release()) }
        } else if seconds - heardAt >= limits.longPoll.silenceSeconds {
            fail("no poll for \(seconds - heardAt) s")
        }
    }

    func makeHold() -> any NodeHold { server.memory.lease(of: network, for: .parsing) }

    /// `no-store`: each answer is for one request.
    static let scriptFields: HTTPFields = [
        .contentType: LongPollScript.scriptType, .cacheControl: "no-store", .xContentTypeOptions: "nosniff",
    ]
}
