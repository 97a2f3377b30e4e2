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
///   │ └── drained ── congested ◄── too much waits for the peer
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
    private var unread: [UInt8] = []
    /// When the request that is being read, or the wait for one, began, or the peer last took of an answer: in the lane's
    /// seconds.
    private var since: Int
    /// What waited for the peer at the last look.
    private var waitingBytes = 0
    /// Nothing more will be asked.
    private var peerHasFinished = false
    /// Bytes of an unfinished body, as the server counts them.
    private var countedBytes = 0
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
        var rest = bytes[...]
        while !rest.isEmpty {
            switch state {
            case .closing, .streaming: return
            case .answering, .opening, .congested, .sending:
                // Most peers wait for their answer, so reading is given up only now that there is something to read.
                unread.append(contentsOf: rest)
                connection.isReading = false
                return
            case .upgraded(let socket): return socket.received(UnsafeMutableRawBufferPointer(rebasing: rest))
            case .http:
                if parser.isIdle { since = lane.mark }
                let step = parser.receive(UnsafeRawBufferPointer(rebasing: rest))
                rest = rest.dropFirst(step.consumed)
                countBody()
                switch step.event {
                case .incomplete:
                    if countedBytes > 0, server.incomingBodies.load(ordering: .relaxed) > server.settings.limits.incomingBodyBytes { refuseBody() }
                    return
                case .expectsContinue: connection.send(HTTPResponseEncoder.continueResponse)
                case .request(let request): respond(to: request)
                case .failure(let failure): finish(HTTPResponseEncoder.failure(failure), .protocolError(UInt16(failure.status.code)))
                }
            }
        }
    }

    /// Keeps the server's count of bytes in unfinished bodies.
    private func countBody() {
        let bytes = parser.bodyBytes
        guard bytes != countedBytes else { return }
        server.incomingBodies.add(bytes - countedBytes, ordering: .relaxed)
        countedBytes = bytes
        if bytes < inTime { inTime = 0 }
        let limits = server.settings.limits
        if bytes - inTime >= limits.requestSeconds * limits.bodyBytesPerSecond { (inTime, since) = (bytes, lane.mark) }
    }

    /// There is no room for more of the body: whoever sends it is to try again.
    private func refuseBody() {
        parser = HTTPRequestParser()
        countBody()
        let refusal = RESTRefusal(.serviceUnavailable, "Too much is being written at the moment. Try again later.")
        finish(RESTResponse.refusal(refusal, keepsAlive: false), .limitExceeded(503))
    }

    private func respond(to request: HTTPInboundRequest, mayOpen: Bool = true) {
        since = lane.mark
        switch server.route(request, connection, mayOpen: mayOpen) {
        case .response(let bytes):
            guard request.keepsAlive else { return finish(bytes, .finished) }
            connection.send(bytes)
            // Pipelined requests are small and their answers need not be.
            if connection.bufferedBytes > server.settings.limits.net.outboundSoftBytes { waitForPeer() }
        case .refusal(let failure):
            finish(HTTPResponseEncoder.failure(failure), .protocolError(UInt16(failure.status.code)))
        case .pending(let begin):
            state = .answering(keepsAlive: request.keepsAlive)
            begin(PendingAnswer(self, loop: connection.loop, keepsAlive: request.keepsAlive))
        case .opening(let namespace):
            state = .opening(request)
            let answer = PendingAnswer(self, loop: connection.loop, keepsAlive: request.keepsAlive)
            server.hub.open(namespace) { _ in answer.opened() }
        case .upgrade(let accepted, let makeSocket):
            connection.send(accepted)
            lane.leave(self)
            parser = HTTPRequestParser()
            state = .upgraded(makeSocket())
        }
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
        connection.send(body.nextFramed())
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
        unread = []
        connection.isReading = true
        events.begin(listener)
        return true
    }

    /// The namespace that the request means has been opened, or refused.
    func opened() {
        guard case .opening(let request) = state else { return }
        state = .http
        connection.isReading = true
        respond(to: request, mayOpen: false)
        takeUnread()
        if peerHasFinished, case .http = state { connection.close(.peerClosed) }
    }

    /// Reads on, first what came before. Whoever that leads to may pause again.
    private func goOn() {
        state = .http
        since = lane.mark
        connection.isReading = true
        takeUnread()
        if peerHasFinished, case .http = state { connection.close(.peerClosed) }
    }

    /// Whoever has asked for the last time still gets the answers.
    func peerFinishedSending() -> HalfClose {
        switch state {
        case .answering, .opening, .congested, .sending:
            peerHasFinished = true
            return .keepWriting
        case .http, .streaming, .upgraded, .closing: return .close
        }
    }

    private func takeUnread() {
        var rest = unread
        unread = []
        rest.withUnsafeMutableBytes { received($0) }
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
        parser = HTTPRequestParser()
        countBody()
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
        if waiting < waitingBytes { since = seconds }
        waitingBytes = waiting
        switch state {
        case .answering, .opening: if waiting == 0 { return }
        case .http, .congested, .sending, .streaming, .upgraded, .closing: break
        }
        guard seconds - since >= limits.requestSeconds else { return }
        if waiting > 0 { connection.abort(.idle) } else { connection.close(parser.isIdle ? .idle : .requestTimeout) }
    }
}
