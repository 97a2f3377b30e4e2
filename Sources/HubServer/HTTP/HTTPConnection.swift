import DispatchNet
import HTTPTypes
import WireProtocols

/// A connection that was just accepted: HTTP requests, until one turns it into a WebSocket.
final class HTTPConnection: ConnectionHandler, LaneMember {
    private enum State {
        /// Requests are read and answered one after the other.
        case http
        /// The last request's answer is still to come; nothing more is read until then.
        case answering(keepsAlive: Bool)
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
    /// When the request that is being read, or the wait for one, began: in the lane's seconds.
    private var since: Int

    init(_ connection: Connection, server: Server) {
        self.connection = connection
        self.server = server
        lane = server.lanes[connection.loop.index]
        parser = HTTPRequestParser(limits: server.settings.limits.http)
        since = lane.seconds
        lane.join(self)
    }

    func received(_ bytes: UnsafeMutableRawBufferPointer) {
        var rest = bytes[...]
        while !rest.isEmpty {
            switch state {
            case .closing: return
            case .answering: return unread.append(contentsOf: rest)
            case .upgraded(let socket): return socket.received(UnsafeMutableRawBufferPointer(rebasing: rest))
            case .http:
                let step = parser.receive(UnsafeRawBufferPointer(rebasing: rest))
                rest = rest.dropFirst(step.consumed)
                switch step.event {
                case .incomplete: return
                case .expectsContinue: connection.send(HTTPResponseEncoder.continueResponse)
                case .request(let request): respond(to: request)
                case .failure(let failure): finish(HTTPResponseEncoder.failure(failure), .protocolError(UInt16(failure.status.code)))
                }
            }
        }
    }

    private func respond(to request: HTTPInboundRequest) {
        since = lane.seconds
        switch server.route(request, connection) {
        case .response(let bytes):
            if request.keepsAlive { connection.send(bytes) } else { finish(bytes, .finished) }
        case .refusal(let failure):
            finish(HTTPResponseEncoder.failure(failure), .protocolError(UInt16(failure.status.code)))
        case .pending(let begin):
            state = .answering(keepsAlive: request.keepsAlive)
            connection.isReading = false
            begin(PendingAnswer(self, loop: connection.loop))
        case .upgrade(let accepted, let makeSocket):
            connection.send(accepted)
            lane.leave(self)
            state = .upgraded(makeSocket())
        }
    }

    /// Gives the pending answer and goes on with what came behind its request.
    func answer(_ status: HTTPResponse.Status, _ fields: HTTPFields, _ body: [UInt8]) {
        guard case .answering(let keepsAlive) = state else { return }
        let bytes = HTTPResponseEncoder.response(status, fields: fields, body: body, keepsAlive: keepsAlive)
        guard keepsAlive else { return finish(bytes, .finished) }
        connection.send(bytes)
        state = .http
        since = lane.seconds
        var rest = unread
        unread = []
        rest.withUnsafeMutableBytes { received($0) }
        if case .answering = state { return }
        connection.isReading = true
    }

    private func finish(_ bytes: [UInt8], _ reason: CloseReason) {
        state = .closing
        connection.send(bytes)
        connection.close(reason)
    }

    func ended(_ reason: CloseReason) {
        if case .upgraded(let socket) = state { socket.ended(reason) } else { lane.leave(self) }
    }

    func tick(seconds: Int, limits: ServerLimits) {
        if case .answering = state { return }
        if seconds - since >= limits.requestSeconds, connection.bufferedBytes == 0 { connection.close(.idle) }
    }
}
