import DispatchNet
import HTTPTypes
import HubEngine
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
final class LongPollCarrier: Carrier, LaneMember, @unchecked Sendable {
    // Sendable: all that changes is used on the lane's loop only, which entries from elsewhere hop to.
    let key: LongPollKey
    let sessionID: String
    /// Where the session began from.
    let network: SocketAddress
    let lane: Lane
    let database: Database
    unowned let server: Server
    let limits: LongPollLimits

    private var session: RealtimeSession?
    private var hasEnded = false
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
    var socketAssembler: RealtimeAssembler

    /// Call `begin` next.
    /// - Parameter callback: see `LongPollRequest.open`.
    init(callback: String, from address: SocketAddress, lane: Lane, database: Database, server: Server) {
        let key = LongPollKey(id: RandomText.make(16), password: RandomText.make(24))
        self.key = key
        sessionID = RandomText.make(32)
        network = address.network
        self.lane = lane
        self.database = database
        self.server = server
        limits = server.settings.limits.longPoll
        upstream = LongPollUpstream(limits: limits, realtime: server.settings.limits.realtime)
        downstream = LongPollDownstream(opening: 0, preamble: LongPollScript.open(callback: callback, key: key))
        transport = TransportSwitch(limits: limits)
        socketAssembler = RealtimeAssembler(limits: server.settings.limits.realtime)
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
        var heard: [Result<RealtimeMessage, RealtimeError>] = []
        let realtime = server.settings.limits.realtime
        do throws(LongPollError) {
            try upstream.receive(segments) { inbound in
                do throws(RealtimeError) {
                    if let message = try inbound.message(limits: realtime) { heard.append(.success(message)) }
                } catch { heard.append(.failure(error)) }
            }
        } catch { return fail(error.reason) }
        for result in heard where !hasEnded {
            switch result {
            case .success(let message): perform(transport.receiveByPoll(message))
            case .failure(let error): fail(error.reason)
            }
        }
    }

    func perform(_ actions: [TransportSwitch.Action]) {
        for action in actions where !hasEnded {
            switch action {
            case .acknowledgeOnSocket: socket?.send(RealtimeFraming.frames(for: RealtimeReply.switchAck))
            case .pongOnSocket: socket?.send(RealtimeFraming.frames(for: RealtimeReply.pong))
            case .pongByPoll: queue(RealtimeReply.pong)
            case .endPolling:
                give(downstream.finish(with: RealtimeReply.endTransmission))
                // What could not be held back by polls is from here on.
                if session?.intake.isHolding == true { socket?.holdInput(true) }
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
        } else {
            for message in unwrapper.messages(in: frames) { queue(message) }
        }
    }

    func send(_ staged: StagedFrame, _ frames: [UInt8]) { send(frames) }

    /// What is queued in one turn leaves in one answer at its end.
    private func queue(_ message: [UInt8]) {
        downstream.send(message)
        if downstream.queuedBytes > limits.queuedBytes { return fail(LongPollError.tooMuchQueued.reason) }
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

    private func give(_ given: [LongPollDownstream.Answer]) {
        for answer in given { answers.removeValue(forKey: answer.ticket)?.send(.ok, Self.scriptFields, answer.script) }
        guard !given.isEmpty, downstream.queuedBytes == 0 else { return }
        congestedSince = nil
        session?.drained()
    }

    // MARK: Back-pressure

    /// Polls cannot be held back one by one; a client that goes on regardless ends (`tooMuchAsked`).
    func holdInput(_ isHeld: Bool) { socket?.holdInput(isHeld) }

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
        socket = nil
        lane.leave(self)
        server.longPolls.remove(self)
        session?.ended()
        session = nil
    }

    func tick(seconds: Int, limits: ServerLimits) {
        // After the move the WebSocket has its own sign of life.
        if transport.hasMoved { return }
        if let congestedSince, (seconds - congestedSince) * 1000 >= limits.net.outboundSoftMs { return fail("too much waits for a poll") }
        if downstream.isHolding {
            if seconds - heldSince >= limits.longPoll.holdSeconds { give(downstream.release()) }
        } else if seconds - heardAt >= limits.longPoll.silenceSeconds {
            fail("no poll for \(seconds - heardAt) s")
        }
    }

    /// `no-store`: each answer is for one request.
    static let scriptFields: HTTPFields = [
        .contentType: LongPollScript.scriptType, .cacheControl: "no-store", .xContentTypeOptions: "nosniff",
    ]
}
