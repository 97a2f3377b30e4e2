import DispatchNet
import HTTPTypes
import HubEngine
import WireProtocols

/// The answer that an HTTP connection still owes. The connection reads nothing more before it is given, so answers keep the
/// order of their requests (RFC 9112 §9.3.2), and it is not closed for idleness.
final class PendingAnswer: @unchecked Sendable {
    // Sendable: the connection is touched on its loop only.
    private weak var connection: HTTPConnection?
    private let loop: EventLoop
    /// Whether the connection stays open behind the answer.
    let keepsAlive: Bool
    /// Who asks.
    let peer: SocketAddress
    /// Whether the peer knows chunks.
    private let isHTTP11: Bool
    /// Holds the request's body in the budget until this is let go.
    private let body: MemoryLease?

    init(
        _ connection: HTTPConnection, loop: EventLoop, peer: SocketAddress, keepsAlive: Bool, isHTTP11: Bool = true, body: MemoryLease? = nil
    ) {
        self.isHTTP11 = isHTTP11
        self.connection = connection
        self.loop = loop
        self.peer = peer
        self.keepsAlive = keepsAlive
        self.body = body
    }

    /// Gives the answer. From any thread, once; nothing happens when the connection has ended.
    func send(_ status: HTTPResponse.Status, _ fields: HTTPFields, _ body: [UInt8], isHead: Bool = false) {
        let bytes = HTTPResponseEncoder.response(status, fields: fields, body: body, keepsAlive: keepsAlive, isHead: isHead)
        loop.execute { [self] in connection?.answer(bytes) }
    }

    /// Gives an answer whose body is made as the peer takes it. From any thread, once.
    func send(_ status: HTTPResponse.Status, _ fields: HTTPFields, _ body: OutgoingBody) {
        var body = body
        body.isChunked = isHTTP11
        var head: [UInt8] = []
        HTTPResponseEncoder.appendHead(
            status, fields: fields, framing: isHTTP11 ? .chunked : .untilClose, keepsAlive: keepsAlive, to: &head)
        loop.execute { [self, body, head] in connection?.answer(head, then: body, keepsAlive: isHTTP11) }
    }

    /// Gives a JSON answer of REST. From any thread, once.
    func sendLater(_ status: HTTPResponse.Status, _ body: [UInt8], isHead: Bool) {
        let bytes = RESTResponse.response(status, RESTResponse.Head(), body, keepsAlive: keepsAlive, isHead: isHead)
        loop.execute { [self] in connection?.answer(bytes) }
    }

    /// Of the connection's loop.
    var loopIndex: Int { loop.index }

    /// Has the request answered now that its namespace is known. From any thread.
    func opened() {
        loop.execute { [self] in connection?.opened() }
    }

    // MARK: On the loop

    /// Gives an answer that is written down already.
    /// - Parameter keepsAlive: what its head says, where that is less than the peer asked for.
    func send(_ bytes: [UInt8], keepsAlive: Bool = true) {
        connection?.answer(bytes, keepsAlive: keepsAlive)
    }

    /// Gives an answer whose body goes on with `body`.
    func send(_ bytes: [UInt8], then body: OutgoingBody, keepsAlive: Bool) {
        connection?.answer(bytes, then: body, keepsAlive: keepsAlive)
    }

    func refuse(_ refusal: RESTRefusal, isHead: Bool) {
        connection?.answer(RESTResponse.refusal(refusal, keepsAlive: keepsAlive, isHead: isHead))
    }

    /// Turns the connection into an event stream; false when it has ended.
    func begin(_ events: EventStreamCarrier, listener: any SocketListener) -> Bool {
        guard let connection else { return false }
        return connection.stream(events, listener: listener)
    }
}
