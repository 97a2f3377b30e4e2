import DispatchNet
import HTTPTypes
import WireProtocols

/// A connection that was just accepted: HTTP requests, until one turns it into a WebSocket.
final class HTTPConnection: ConnectionHandler, LaneMember {
    private enum State {
        /// Requests are read and answered one after the other.
        case http
        /// The upgrade was answered; all further bytes are the session's.
        case upgraded(WebSocketSession)
        /// A last answer is on its way; what still comes in is not read.
        case closing
    }

    private let connection: Connection
    private unowned let server: Server
    private let lane: Lane
    private var parser: HTTPRequestParser
    private var state = State.http
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
            case .upgraded(let session): return session.received(UnsafeMutableRawBufferPointer(rebasing: rest))
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
        case .upgrade(let accepted, let makeSession):
            connection.send(accepted)
            lane.leave(self)
            state = .upgraded(makeSession())
        }
    }

    private func finish(_ bytes: [UInt8], _ reason: CloseReason) {
        state = .closing
        connection.send(bytes)
        connection.close(reason)
    }

    func ended(_ reason: CloseReason) {
        if case .upgraded(let session) = state { session.ended(reason) } else { lane.leave(self) }
    }

    func tick(seconds: Int, limits: ServerLimits) {
        if seconds - since >= limits.requestSeconds, connection.bufferedBytes == 0 { connection.close(.idle) }
    }
}
