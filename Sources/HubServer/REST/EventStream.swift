import DispatchNet
import HTTPTypes
import HubEngine
import JSONTree
import LiveQueries
import WireProtocols

/// A `text/event-stream` (contract §7.6): one observer, on one connection, with one credential.
///
///     begin ─► observe ─► replied ok ─► head ─► put "/" ─► put, patch … ─► cancel | auth_revoked | peer closed
///                            └─ refused: an ordinary response, and the connection stays open
final class EventStream: Session, @unchecked Sendable {
    // Sendable: everything declared here is used on the lane's loop only.
    private let request: RESTRequest
    private let answer: PendingResponse
    private let events: EventStreamCarrier

    init(
        _ request: RESTRequest, _ identity: Identity, _ signIn: SignIn?, _ connection: Connection, _ answer: PendingResponse,
        isChunked: Bool,
        database: Database, server: Server
    ) {
        self.request = request
        self.answer = answer
        let lane = server.lanes[connection.loop.index]
        events = EventStreamCarrier(connection, of: answer.peer, lane: lane, isChunked: isChunked)
        ends = identity.end(server.settings.limits.tokenLeewaySeconds)
        super.init(events, lane: lane.index, database: database, server: server, dialect: .rest, identity: identity)
        attach(signIn)
    }

    /// When the credential runs out.
    private let ends: Int64?
    private var hasBegun = false
    /// Revoked before the stream began; it then ends right after its beginning.
    private var isRevokedEarly = false
    /// Its database was removed before the stream began: the request has its response.
    private var isRefused = false

    func begin() {
        // A query that loads everything is the place itself.
        let isDefault = request.query?.plain?.isDefault == true
        let form: StreamForm = request.form.showsPriorities ? .export : request.isOrdered ? .ordered : .plain
        let style: ObserverStyle = request.isCount ? .countStream : .stream(form)
        database.submit(.observe(request.path, query: isDefault ? nil : request.query, style: style, hash: ""), from: self)
    }

    override func replied(_ reply: Reply) {
        if isRefused { return }
        switch reply {
        case .observing:
            // The connection may have closed in the meantime.
            guard answer.begin(events, listener: self) else { return ended() }
            hasBegun = true
            if isRevokedEarly { revoke() } else { expireOrRunOut(at: ends) }
        case .failed(let failure):
            answer.refuse(RESTRefusal(failure), isHead: false)
            ended()
        default: break
        }
    }

    override func revoke() {
        if hasBegun { super.revoke() } else { isRevokedEarly = true }
    }

    override func databaseIsRemoved() {
        if hasBegun { return super.databaseIsRemoved() }
        if isRefused { return }
        isRefused = true
        answer.refuse(.databaseIsRemoved, isHead: false)
        ended()
    }

    override func dismissed() {
        if hasBegun { return carrier.dismiss() }
        if isRefused { return }
        answer.refuse(RESTRefusal(.serviceUnavailable, "Try again later."), isHead: false)
        ended()
    }
}

/// Carries a stream's events, as chunks of an open-ended response.
final class EventStreamCarrier: Carrier, LoopMember, @unchecked Sendable {
    // Sendable: used on its connection's loop only.
    private let connection: Connection
    private let lane: LoopSessions
    /// False for HTTP/1.0 peers, which do not understand chunked transfer coding.
    private let isChunked: Bool
    private var listener: (any SocketListener)?
    private var isClosing = false
    /// When something was last sent, in the lane's seconds.
    private var lastSentAt: Int

    init(_ connection: Connection, of peer: SocketAddress, lane: LoopSessions, isChunked: Bool) {
        self.connection = connection
        self.peer = peer
        self.lane = lane
        self.isChunked = isChunked
        lastSentAt = lane.mark
    }

    /// Begins the accepted stream.
    func begin(_ listener: any SocketListener) {
        self.listener = listener
        lane.join(self)
        var head: [UInt8] = []
        RESTResponse.appendHead(
            .ok, RESTResponse.Head(content: .events), framing: isChunked ? .chunked : .untilClose, keepsAlive: isChunked, to: &head)
        connection.send(head)
    }

    /// Without effect before the stream has begun: events need its head.
    func send(_ frames: [UInt8]) {
        guard listener != nil else { return }
        connection.send(isChunked ? frames : EventStreamEvent.unwrapped(frames))
    }

    func send(_ staged: StagedFrame, _ frames: [UInt8]) {
        guard listener != nil else { return }
        connection.send(isChunked ? staged : lane.unwrapped.events(staged, frames, lane.loop))
    }

    var isTurnFull: Bool { connection.isTurnFull }

    /// Streams receive nothing, so there is no close code to send.
    func close(_ code: UInt16, _ reason: String) { finish(.finished) }
    func dismiss() { finish(.dismissed) }
    func serverStops() { finish(.serverShutdown) }

    private func finish(_ reason: CloseReason) {
        guard !isClosing else { return }
        isClosing = true
        if isChunked { connection.send(HTTPResponseEncoder.lastChunk) }
        connection.close(reason)
    }

    func countSent(with counter: ByteCounter?) { connection.sentBytes = counter }

    /// A stream has no input to hold.
    func holdInput(_ isHeld: Bool) {}
    func holdWhileReading(_ isHeld: Bool) {}
    let peer: SocketAddress

    func reportDrain() {
        // After this turn's flush, which shows what the kernel did not accept; then `outboundDrained` follows.
        lane.loop.execute { [self] in
            if connection.backlogBytes == 0 { listener?.drained() }
        }
    }

    func outboundCongested() { listener?.congested() }
    func outboundDrained() { listener?.drained() }

    func ended() {
        lane.leave(self)
        listener?.ended()
        listener = nil
    }

    func tick(seconds: Int, limits: ServerLimits) {
        guard !isClosing, seconds - lastSentAt >= limits.streamKeepAliveSeconds else { return }
        lastSentAt = seconds
        // A peer that has not read the previous output needs no keep-alive.
        if connection.bufferedBytes == 0 { send(EventStreamEvent.keepAlive) }
    }
}

/// Events without their chunks, for one lane's streams over HTTP/1.0. Each is unwrapped once, however many streams it goes to.
struct UnchunkedEvents {
    /// The last frame and its unwrapped form, for the next stream of the same audience.
    private var last: (source: StagedFrame, result: StagedFrame)?
    /// Number of events unwrapped.
    private(set) var made = 0

    /// - Parameter chunks: the bytes of `staged`.
    mutating func events(_ staged: StagedFrame, _ chunks: [UInt8], _ loop: EventLoop) -> StagedFrame {
        if let last, last.source == staged { return last.result }
        made += 1
        let result = loop.stage(EventStreamEvent.unwrapped(chunks))
        last = (staged, result)
        return result
    }
}
