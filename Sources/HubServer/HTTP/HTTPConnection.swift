import DispatchNet
import HTTPTypes
import HubEngine
import Synchronization
import WireProtocols

/// An accepted connection: it carries HTTP requests until one upgrades it to a WebSocket.
///
/// ```
/// http ── request ──► responding ── response ──► http        one request at a time: pipelined bytes wait in `unread`
///   │ ▲                                                     (at most one read) and reading stops
///   │ └── drained ── congested ◄── over the soft limit, or `turnRequests` answered in one turn
///   ├── upgrade ──► upgraded: the loop passes all to the WebSocket, and this is freed
///   └── responding ──► sending (a large body, piece by piece) ──► http
///              └────► streaming
/// ```
final class HTTPConnection: ConnectionHandler, LoopMember, @unchecked Sendable {
    // Sendable: used on its connection's loop only.
    private enum State {
        /// Requests are read and answered one after the other.
        case http
        /// The last request's response is pending; reading stops until it is sent.
        case responding(keepsAlive: Bool)
        /// The hub is opening the request's namespace; then the request is routed again.
        case opening(HTTPInboundRequest)
        /// The peer does not read its responses; reading stops until they are sent.
        case congested
        /// A large response body is encoded as the peer reads it; reading stops until it is sent.
        case sending(ResponseBody, keepsAlive: Bool)
        /// An event stream, which ends only with the connection; further input is discarded.
        case streaming(EventStreamCarrier)
        /// The WebSocket owns the connection, and the unconsumed rest of the last read.
        case upgraded(WebSocketCarrier)
        /// The last response is being sent; further input is discarded.
        case closing
    }

    private let connection: Connection
    private let server: Server
    private let lane: LoopSessions
    private var parser: HTTPRequestParser
    private var state = State.http
    /// Pipelined bytes behind a pending request: the rest of one read.
    private var unread = UnreadBytes()
    /// The budget's lease for `unread`, above 16 KiB.
    private var unreadLease = IncomingBytes()
    /// The parser loop is on the stack: a response that is sent now need not resume it.
    private var isParsing = false
    /// When the current request, or the wait for one, began, or the peer last made progress with a response; in the lane's seconds.
    private var since: Int
    /// Bytes that waited for the peer at the last tick.
    private var waitingBytes = 0
    /// The peer has closed its sending side: no more requests come.
    private var peerHasFinished = false
    /// The budget's lease for an incomplete request body.
    private var bodyLease = IncomingBytes()
    /// Whether the early permission check of the current request has begun.
    private var isPermissionChecked = false
    /// Number of requests read; shows whether a late permission check still concerns the current one.
    private var requests = 0
    /// Bytes of the response that the peer had read when it last met the rate of `bodyBytesPerSecond`, and bytes sent so far.
    private var sentBytesOnTime = 0
    private var writtenBytes = 0
    /// Bytes of the request body when it last met that rate.
    private var bodyBytesOnTime = 0
    /// The request to log with its response; nil while requests are not logged.
    private var logged: RequestLog.Entry?

    init(_ connection: Connection, server: Server) {
        self.connection = connection
        self.server = server
        lane = server.lanes[connection.loop.index]
        parser = HTTPRequestParser(limits: server.settings.limits.http, bodyBytes: server.bodyBytes)
        since = lane.mark
        lane.join(self)
    }

    func received(_ bytes: UnsafeMutableRawBufferPointer) {
        let used = unread.isEmpty ? parse(bytes) : 0
        guard used < bytes.count else { return }
        // Most peers send nothing before the response, so reading is stopped only when bytes arrive early.
        unread.append(bytes[used...])
        connection.isReading = false
        if unreadLease.become(unread.count, server.memory, connection.remoteAddress) != nil { connection.close(.memoryBudget) }
    }

    /// Parses and routes requests, as many as one turn allows.
    /// - Returns: the number of bytes consumed.
    private func parse(_ bytes: UnsafeMutableRawBufferPointer) -> Int {
        isParsing = true
        defer { isParsing = false }
        var rest = bytes[...]
        let most = requests &+ server.settings.limits.turnRequests
        while !rest.isEmpty {
            switch state {
            case .closing, .streaming: return bytes.count
            case .responding, .opening, .congested, .sending: return rest.startIndex
            case .upgraded(let socket):
                socket.received(UnsafeMutableRawBufferPointer(rebasing: rest))
                return bytes.count
            case .http:
                // Other connections take their turn first, and the peer must read its responses.
                if requests >= most {
                    waitForPeer()
                    return rest.startIndex
                }
                if parser.isIdle { since = lane.mark }
                let step = parser.receive(UnsafeRawBufferPointer(rebasing: rest))
                rest = rest.dropFirst(step.consumed)
                switch step.event {
                case .incomplete:
                    chargeBody()
                    checkPermissionEarly()
                    return bytes.count
                case .expectsContinue:
                    checkPermissionEarly()
                    if case .closing = state { return bytes.count }
                    connection.send(HTTPResponseEncoder.continueResponse)
                case .request(let request):
                    requests += 1
                    isPermissionChecked = false
                    bodyBytesOnTime = 0
                    respond(to: request)
                case .failure(let failure): finish(HTTPResponseEncoder.failure(failure), .protocolError(UInt16(failure.status.code)))
                }
            }
        }
        return bytes.count
    }

    /// Charges an incomplete body to the memory budget and checks its rate.
    private func chargeBody() {
        let bytes = parser.bodyBytes
        if let refusal = bodyLease.become(bytes, server.memory, client) { return refuseBody(refusal) }
        if bytes < bodyBytesOnTime { bodyBytesOnTime = 0 }
        let limits = server.settings.limits
        if bytes - bodyBytesOnTime >= limits.requestSeconds * limits.bodyBytesPerSecond { (bodyBytesOnTime, since) = (bytes, lane.mark) }
    }

    /// The client that the body's memory is charged to.
    private var client: SocketAddress { parser.head.map { server.client(of: $0, connection) } ?? connection.remoteAddress }

    /// The budget cannot hold more of the body: 503, so that the client retries.
    private func refuseBody(_ refusal: MemoryShare.Refusal) {
        discardRequest()
        finish(RESTResponse.refusal(RESTRefusal(refusal), keepsAlive: false), .memoryBudget)
    }

    /// Discards the partial request and its lease.
    private func discardRequest() {
        parser = HTTPRequestParser()
        bodyLease = IncomingBytes()
    }

    /// Checks a request with a large body before reading it, because where no rule can allow the write the body cannot change the refusal.
    private func checkPermissionEarly() {
        guard !isPermissionChecked, case .http = state else { return }
        let limit = server.settings.limits.earlyRefusalBytes
        guard (parser.announcedBytes ?? parser.bodyBytes) > limit, let head = parser.head else { return }
        isPermissionChecked = true
        let number = requests
        server.checkPermissionEarly(head, connection, lane) { [weak self] refusal in
            guard let self, let refusal, requests == number, case .http = state else { return }
            discardRequest()
            finish(RESTResponse.refusal(refusal, keepsAlive: false), .finished)
        }
    }

    private func respond(to request: HTTPInboundRequest, mayOpen: Bool = true) {
        since = lane.mark
        if server.records.log.isOn { logged = logged ?? server.records.log.begin(request, server.client(of: request, connection)) }
        switch server.route(request, connection, mayOpen: mayOpen) {
        case .response(let bytes):
            bodyLease = IncomingBytes()
            guard request.keepsAlive else { return finish(bytes, .finished) }
            log(bytes)
            connection.send(bytes)
            // Small pipelined requests can have large responses.
            if connection.bufferedBytes > server.settings.limits.net.outboundSoftBytes { waitForPeer() }
        case .refusal(let failure):
            finish(HTTPResponseEncoder.failure(failure), .protocolError(UInt16(failure.status.code)))
        case .pending(let begin):
            state = .responding(keepsAlive: request.keepsAlive)
            let client = server.client(of: request, connection)
            begin(
                PendingResponse(
                    self, loop: connection.loop, peer: client, keepsAlive: request.keepsAlive, isHTTP11: request.isHTTP11,
                    body: lease(of: request, from: client)))
        case .opening(let namespace):
            state = .opening(request)
            let answer = PendingResponse(self, loop: connection.loop, peer: connection.remoteAddress, keepsAlive: request.keepsAlive)
            server.hub.open(namespace) { _ in answer.opened() }
        case .upgrade(let accepted, let makeSocket):
            bodyLease = IncomingBytes()
            log(accepted)
            connection.send(accepted)
            lane.leave(self)
            parser = HTTPRequestParser()
            // The WebSocket controls reading from now on.
            connection.isReading = true
            let socket = makeSocket()
            connection.pass(to: socket)
            state = .upgraded(socket)
        }
    }

    /// Logs the pending request with the status of its response, if requests are logged.
    private func log(_ answer: [UInt8]) {
        guard let entry = logged else { return }
        logged = nil
        server.records.log.end(entry, answer)
    }

    /// The lease for the body of a complete request, held until the response.
    private func lease(of request: HTTPInboundRequest, from client: SocketAddress) -> MemoryLease? {
        // The body is already complete in memory, so its last bytes are not refused.
        _ = bodyLease.become(request.content.count, server.memory, client)
        return bodyLease.detachLease()
    }

    /// Counts the bytes sent from now on.
    var sentBytes: ByteCounter? {
        get { connection.sentBytes }
        set { connection.sentBytes = newValue }
    }

    /// Sends the pending response and resumes with the pipelined bytes.
    /// - Parameter mayStay: false when the response announces `Connection: close`.
    func answer(_ bytes: [UInt8], keepsAlive mayStay: Bool = true) {
        guard case .responding(let keepsAlive) = state else { return }
        guard keepsAlive, mayStay else { return finish(bytes, .finished) }
        log(bytes)
        connection.send(bytes)
        if connection.bufferedBytes > server.settings.limits.net.outboundSoftBytes { waitForPeer() } else { resume() }
    }

    /// Handles no more requests until the peer has read the pending output.
    private func waitForPeer() {
        state = .congested
        // The kernel may accept all of it at this turn's flush; otherwise `outboundDrained` resumes.
        connection.loop.postpone { [weak self] in
            guard let self, case .congested = state, connection.isOpen, connection.bufferedBytes == 0 else { return }
            resume()
        }
    }

    /// Sends the first bytes of the pending response, then the rest of its body as the peer reads.
    func answer(_ bytes: [UInt8], then body: ResponseBody, keepsAlive mayStay: Bool) {
        guard case .responding(let keepsAlive) = state else { return }
        log(bytes)
        connection.send(bytes)
        (sentBytesOnTime, writtenBytes, since) = (0, bytes.count, lane.mark)
        state = .sending(body, keepsAlive: keepsAlive && mayStay)
        sendMore()
    }

    /// Sends the next piece; other connections of the loop have their turn before the one after it.
    private func sendMore() {
        guard case .sending(var body, let keepsAlive) = state else { return }
        if body.isDone {
            state = .responding(keepsAlive: keepsAlive)
            return answer([])
        }
        let piece = body.nextFramed()
        writtenBytes += piece.count
        connection.send(piece)
        state = .sending(body, keepsAlive: keepsAlive)
        // After this turn's flush, which shows what the kernel did not accept; then `outboundDrained` resumes.
        connection.loop.postpone { [weak self] in
            guard let self, connection.isOpen, connection.bufferedBytes == 0 else { return }
            sendMore()
        }
    }

    /// Turns the pending response into an event stream; false when the connection has ended.
    func stream(_ events: EventStreamCarrier, listener: any SocketListener) -> Bool {
        guard case .responding = state, connection.isOpen else { return false }
        log(Array("HTTP/1.1 200".utf8))
        lane.leave(self)
        state = .streaming(events)
        unread = UnreadBytes()
        unreadLease = IncomingBytes()
        connection.isReading = true
        events.begin(listener)
        return true
    }

    /// The request's namespace has been opened, or refused.
    func opened() {
        guard case .opening(let request) = state else { return }
        state = .http
        respond(to: request, mayOpen: false)
        consumeUnread()
    }

    /// Returns to reading requests, the pipelined ones first. One of those may pause the connection again.
    private func resume() {
        state = .http
        since = lane.mark
        if !isParsing { consumeUnread() }
    }

    /// A peer that closes its sending side still gets the pending responses.
    func peerFinishedSending() -> HalfClose {
        switch state {
        case .responding, .opening, .congested, .sending:
            peerHasFinished = true
            return .keepWriting
        case .http, .streaming, .upgraded, .closing: return .close
        }
    }

    /// Consumes the pipelined bytes, and resumes reading when none are left.
    private func consumeUnread() {
        if !unread.isEmpty {
            var rest = unread.detach()
            rest.consume { parse($0) }
            unread = rest
            _ = unreadLease.become(unread.count, server.memory, connection.remoteAddress)
        }
        switch state {
        case .http:
            connection.isReading = true
            if peerHasFinished { connection.close(.peerClosed) }
        case .responding, .opening, .congested, .sending: if unread.isEmpty { connection.isReading = true }
        case .upgraded(let socket): if peerHasFinished, socket.peerFinishedSending() == .close { connection.close(.peerClosed) }
        case .streaming, .closing: break
        }
    }

    private func finish(_ bytes: [UInt8], _ reason: CloseReason) {
        state = .closing
        log(bytes)
        connection.send(bytes)
        connection.close(reason)
    }

    func outboundCongested() {
        switch state {
        case .streaming(let events): events.outboundCongested()
        case .http, .responding, .opening, .congested, .sending, .upgraded, .closing: break
        }
    }

    func outboundDrained() {
        switch state {
        case .streaming(let events): events.outboundDrained()
        case .congested: resume()
        case .sending: sendMore()
        case .http, .responding, .opening, .upgraded, .closing: break
        }
    }

    func ended(_ reason: CloseReason) {
        server.logEnd(connection, reason)
        discardRequest()
        unread = UnreadBytes()
        unreadLease = IncomingBytes()
        switch state {
        case .streaming(let events): events.ended()
        case .http, .responding, .opening, .congested, .sending, .upgraded, .closing: lane.leave(self)
        }
        state = .closing
    }

    /// Enforces the timeouts: a head must be complete within `requestSeconds`; bodies and responses must keep their rate. So slow
    /// peers and half-open connections release their descriptors.
    func tick(seconds: Int, limits: ServerLimits) {
        let waiting = connection.bufferedBytes
        let tookSome = waiting < waitingBytes
        waitingBytes = waiting
        if case .sending = state {
            // An unfinished response retains an old version of the tree: the peer must read it at a rate.
            let sentBytes = writtenBytes - waiting
            if sentBytes - sentBytesOnTime >= limits.requestSeconds * limits.bodyBytesPerSecond {
                (sentBytesOnTime, since) = (sentBytes, seconds)
            }
            if seconds - since >= limits.requestSeconds { connection.abort(sentBytes > sentBytesOnTime ? .writeStalled : .idle) }
            return
        }
        if tookSome { since = seconds }
        switch state {
        case .responding, .opening: if waiting == 0 { return }
        case .http, .congested, .sending, .streaming, .upgraded, .closing: break
        }
        guard seconds - since >= limits.requestSeconds else { return }
        if waiting > 0 { connection.abort(.idle) } else { connection.close(parser.isIdle ? .idle : .requestTimeout) }
    }
}
