import DispatchNet
import HTTPTypes
import HubEngine
import Synchronization
import WireProtocols

/// A connection that was just accepted: HTTP requests, until one turns it into a WebSocket.
///
/// ```
/// http ── request ──► answering ── answer ──► http          one request at a time: what came behind it waits in `unread`
///   │ ▲                                                     (at most one read) and nothing more is read
///   │ └── drained ── congested ◄── too much waits for the peer, or it has asked for as much as one turn may bring
///   ├── upgrade ──► upgraded
///   └── answering ──► sending (a large body, piece by piece) ──► http
///              └────► streaming
/// ```
final class HTTPConnection: ConnectionHandler, LaneMember, @unchecked Sendable {
    // Sendable: used on its connection's loop only.
    private enum State {
        /// Requests are read and answered one after the other.
        case http
        /// The last request's answer is still to come; nothing more is read until then.
        case answering(keepsAlive: Bool)
        /// The last request's namespace is being opened; then it is answered.
        case opening(HTTPInboundRequest)
        /// The peer does not take its answers; nothing more is read until it has.
        case congested
        /// An answer's body is being made as the peer takes it; nothing more is read until then.
        case sending(OutgoingBody, keepsAlive: Bool)
        /// An answer without an end; what still comes in is not read.
        case streaming(EventStreamCarrier)
        /// The upgrade was answered; all further bytes are the socket's.
        case upgraded(WebSocketCarrier)
        /// A last answer is on its way; what still comes in is not read.
        case closing
    }

    private let connection: Connection
    private unowned let server: Server
    private let lane: Lane
    private var parser: HTTPRequestParser
    private var state = State.http
    /// What came behind a request that is not answered yet: the rest of one read.
    private var unread = UnreadBytes()
    /// Holds that, if it is much.
    private var waiting = IncomingBytes()
    /// Requests are being read: an answer that is given meanwhile has no need to go on with them.
    private var isUsing = false
    /// When the request that is being read, or the wait for one, began, or the peer last took of an answer: in the lane's
    /// seconds.
    private var since: Int
    /// What waited for the peer at the last look.
    private var waitingBytes = 0
    /// Nothing more will be asked.
    private var peerHasFinished = false
    /// What is held of an unfinished body.
    private var incoming = IncomingBytes()
    /// Whether it has been asked if the request that is being read can be permitted.
    private var isJudged = false
    /// Requests that were read, so that a late judgement is about the right one.
    private var requests = 0
    /// Bytes that the peer had taken of an answer when it last had taken what `requestSeconds` demand, and has been given.
    private var takenInTime = 0
    private var given = 0
    /// Bytes of the body when it last had brought what `requestSeconds` demand.
    private var inTime = 0

    init(_ connection: Connection, server: Server) {
        self.connection = connection
        self.server = server
        lane = server.lanes[connection.loop.index]
        parser = HTTPRequestParser(limits: server.settings.limits.http, bodyBytes: server.bodyBytes)
        since = lane.mark
        lane.join(self)
    }

    func received(_ bytes: UnsafeMutableRawBufferPointer) {
        if case .upgraded(let socket) = state { return socket.received(bytes) }
        let used = unread.isEmpty ? use(bytes) : 0
        guard used < bytes.count else { return }
        // Most peers wait for their answer, so reading is given up only now that there is something to read.
        unread.append(bytes[used...])
        connection.isReading = false
        if waiting.become(unread.count, server.memory, connection.remoteAddress) != nil { connection.close(.memoryBudget) }
    }

    /// - Returns: the bytes used. The others are for later.
    private func use(_ bytes: UnsafeMutableRawBufferPointer) -> Int {
        isUsing = true
        defer { isUsing = false }
        var rest = bytes[...]
        let most = requests &+ server.settings.limits.turnRequests
        while !rest.isEmpty {
            switch state {
            case .closing, .streaming: return bytes.count
            case .answering, .opening, .congested, .sending: return rest.startIndex
            case .upgraded(let socket):
                socket.received(UnsafeMutableRawBufferPointer(rebasing: rest))
                return bytes.count
            case .http:
                // The others have their turn first, and the peer takes what it was answered.
                if requests >= most {
                    waitForPeer()
                    return rest.startIndex
                }
                if parser.isIdle { since = lane.mark }
                let step = parser.receive(UnsafeRawBufferPointer(rebasing: rest))
                rest = rest.dropFirst(step.consumed)
                switch step.event {
                case .incomplete:
                    countBody()
                    judge()
                    return bytes.count
                case .expectsContinue:
                    judge()
                    if case .closing = state { return bytes.count }
                    connection.send(HTTPResponseEncoder.continueResponse)
                case .request(let request):
                    requests += 1
                    isJudged = false
                    inTime = 0
                    respond(to: request)
                case .failure(let failure): finish(HTTPResponseEncoder.failure(failure), .protocolError(UInt16(failure.status.code)))
                }
            }
        }
        return bytes.count
    }

    /// Has the bytes of an unfinished body counted.
    private func countBody() {
        let bytes = parser.bodyBytes
        if let refusal = incoming.become(bytes, server.memory, client) { return refuseBody(refusal) }
        if bytes < inTime { inTime = 0 }
        let limits = server.settings.limits
        if bytes - inTime >= limits.requestSeconds * limits.bodyBytesPerSecond { (inTime, since) = (bytes, lane.mark) }
    }

    /// Whose body is being read.
    private var client: SocketAddress { parser.head.map { server.client(of: $0, connection) } ?? connection.remoteAddress }

    /// There is no room for more of the body: whoever sends it is to try again.
    private func refuseBody(_ refusal: MemoryShare.Refusal) {
        drop()
        finish(RESTResponse.refusal(RESTRefusal(refusal), keepsAlive: false), .memoryBudget)
    }

    /// Reads nothing more of the request, and forgets what came.
    private func drop() {
        parser = HTTPRequestParser()
        incoming = IncomingBytes()
    }

    /// A large body is not read to its end where no rule could allow what it asks for.
    private func judge() {
        guard !isJudged, case .http = state else { return }
        let limit = server.settings.limits.earlyRefusalBytes
        guard (parser.announcedBytes ?? parser.bodyBytes) > limit, let head = parser.head else { return }
        isJudged = true
        let number = requests
        server.judge(head, connection, lane) { [weak self] refusal in
            guard let self, let refusal, requests == number, case .http = state else { return }
            drop()
            finish(RESTResponse.refusal(refusal, keepsAlive: false), .finished)
        }
    }

    private func respond(to request: HTTPInboundRequest, mayOpen: Bool = true) {
        since = lane.mark
        switch server.route(request, connection, mayOpen: mayOpen) {
        case .response(let bytes):
            incoming = IncomingBytes()
            guard request.keepsAlive else { return finish(bytes, .finished) }
            connection.send(bytes)
            // Pipelined requests are small and their answers need not be.
            if connection.bufferedBytes > server.settings.limits.net.outboundSoftBytes { waitForPeer() }
        case .refusal(let failure):
            finish(HTTPResponseEncoder.failure(failure), .protocolError(UInt16(failure.status.code)))
        case .pending(let begin):
            state = .answering(keepsAlive: request.keepsAlive)
            let client = server.client(of: request, connection)
            begin(
                PendingAnswer(
                    self, loop: connection.loop, peer: client, keepsAlive: request.keepsAlive, isHTTP11: request.isHTTP11,
                    body: lease(of: request, from: client)))
        case .opening(let namespace):
            state = .opening(request)
            let answer = PendingAnswer(self, loop: connection.loop, peer: connection.remoteAddress, keepsAlive: request.keepsAlive)
            server.hub.open(namespace) { _ in answer.opened() }
        case .upgrade(let accepted, let makeSocket):
            incoming = IncomingBytes()
            connection.send(accepted)
            lane.leave(self)
            parser = HTTPRequestParser()
            // The socket may hold it from now on.
            connection.isReading = true
            state = .upgraded(makeSocket())
        }
    }

    /// What holds the body of a whole request, until it is answered.
    private func lease(of request: HTTPInboundRequest, from client: SocketAddress) -> MemoryLease? {
        // The last bytes came with the end: no refusal for them.
        _ = incoming.become(request.body.count, server.memory, client)
        return incoming.take()
    }

    /// Gives the pending answer and goes on with what came behind its request.
    /// - Parameter mayStay: false when the answer says that the connection ends.
    func answer(_ bytes: [UInt8], keepsAlive mayStay: Bool = true) {
        guard case .answering(let keepsAlive) = state else { return }
        guard keepsAlive, mayStay else { return finish(bytes, .finished) }
        connection.send(bytes)
        if connection.bufferedBytes > server.settings.limits.net.outboundSoftBytes { waitForPeer() } else { goOn() }
    }

    /// Answers nothing more until the peer has taken what was sent.
    private func waitForPeer() {
        state = .congested
        // The kernel may take all of it at this turn's flush; else `outboundDrained` goes on.
        connection.loop.execute { [weak self] in
            guard let self, case .congested = state, connection.isOpen, connection.bufferedBytes == 0 else { return }
            goOn()
        }
    }

    /// Gives the beginning of the pending answer, then the rest of its body as the peer takes it.
    func answer(_ bytes: [UInt8], then body: OutgoingBody, keepsAlive mayStay: Bool) {
        guard case .answering(let keepsAlive) = state else { return }
        connection.send(bytes)
        (takenInTime, given, since) = (0, bytes.count, lane.mark)
        state = .sending(body, keepsAlive: keepsAlive && mayStay)
        sendMore()
    }

    /// The next piece; then the loop's other connections have their turn.
    private func sendMore() {
        guard case .sending(var body, let keepsAlive) = state else { return }
        if body.isDone {
            state = .answering(keepsAlive: keepsAlive)
            return answer([])
        }
        let piece = body.nextFramed()
        given += piece.count
        connection.send(piece)
        state = .sending(body, keepsAlive: keepsAlive)
        // Behind this turn's flush, which says what the kernel has not taken; else `outboundDrained` goes on.
        connection.loop.execute { [weak self] in
            guard let self, connection.isOpen, connection.bufferedBytes == 0 else { return }
            sendMore()
        }
    }

    /// The pending answer becomes a stream; false when the connection has ended.
    func stream(_ events: EventStreamCarrier, listener: any SocketListener) -> Bool {
        guard case .answering = state, connection.isOpen else { return false }
        lane.leave(self)
        state = .streaming(events)
        unread = UnreadBytes()
        waiting = IncomingBytes()
        connection.isReading = true
        events.begin(listener)
        return true
    }

    /// The namespace that the request means has been opened, or refused.
    func opened() {
        guard case .opening(let request) = state else { return }
        state = .http
        respond(to: request, mayOpen: false)
        takeUnread()
    }

    /// Reads on, first what came before. Whoever that leads to may pause again.
    private func goOn() {
        state = .http
        since = lane.mark
        if !isUsing { takeUnread() }
    }

    /// Whoever has asked for the last time still gets the answers.
    func peerFinishedSending() -> HalfClose {
        switch state {
        case .answering, .opening, .congested, .sending:
            peerHasFinished = true
            return .keepWriting
        case .upgraded(let socket): return socket.peerFinishedSending()
        case .http, .streaming, .closing: return .close
        }
    }

    /// Uses what came before, and reads on when nothing of it is left.
    private func takeUnread() {
        if !unread.isEmpty {
            var rest = unread.take()
            rest.use { use($0) }
            unread = rest
            _ = waiting.become(unread.count, server.memory, connection.remoteAddress)
        }
        switch state {
        case .http:
            connection.isReading = true
            if peerHasFinished { connection.close(.peerClosed) }
        case .answering, .opening, .congested, .sending: if unread.isEmpty { connection.isReading = true }
        case .upgraded(let socket): if peerHasFinished, socket.peerFinishedSending() == .close { connection.close(.peerClosed) }
        case .streaming, .closing: break
        }
    }

    private func finish(_ bytes: [UInt8], _ reason: CloseReason) {
        state = .closing
        connection.send(bytes)
        connection.close(reason)
    }

    func outboundCongested() {
        switch state {
        case .upgraded(let socket): socket.outboundCongested()
        case .streaming(let events): events.outboundCongested()
        case .http, .answering, .opening, .congested, .sending, .closing: break
        }
    }

    func outboundDrained() {
        switch state {
        case .upgraded(let socket): socket.outboundDrained()
        case .streaming(let events): events.outboundDrained()
        case .congested: goOn()
        case .sending: sendMore()
        case .http, .answering, .opening, .closing: break
        }
    }

    func ended(_ reason: CloseReason) {
        server.noteEnd(connection, reason)
        drop()
        unread = UnreadBytes()
        waiting = IncomingBytes()
        switch state {
        case .upgraded(let socket): socket.ended(reason)
        case .streaming(let events): events.ended()
        case .http, .answering, .opening, .congested, .sending, .closing: lane.leave(self)
        }
        state = .closing
    }

    /// A head must come whole within its time, a body at its rate, and an answer must be taken: whoever is slow on purpose,
    /// or half open, holds a descriptor for no longer than that.
    func tick(seconds: Int, limits: ServerLimits) {
        let waiting = connection.bufferedBytes
        let tookSome = waiting < waitingBytes
        waitingBytes = waiting
        if case .sending = state {
            // What is not taken holds the tree as it was: it must be taken at a rate.
            let taken = given - waiting
            if taken - takenInTime >= limits.requestSeconds * limits.bodyBytesPerSecond { (takenInTime, since) = (taken, seconds) }
            if seconds - since >= limits.requestSeconds { connection.abort(taken > takenInTime ? .writeStalled : .idle) }
            return
        }
        if tookSome { since = seconds }
        switch state {
        case .answering, .opening: if waiting == 0 { return }
        case .http, .congested, .sending, .streaming, .upgraded, .closing: break
        }
        guard seconds - since >= limits.requestSeconds else { return }
        if waiting > 0 { connection.abort(.idle) } else { connection.close(parser.isIdle ? .idle : .requestTimeout) }
    }
}
