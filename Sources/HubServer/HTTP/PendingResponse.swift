import DispatchNet
import HTTPTypes
import HubEngine
import WireProtocols

/// A pending HTTP response. Its connection reads nothing more until the response is sent, so responses keep the order of their requests
/// (RFC 9112 §9.3.2), and it is not closed as idle.
final class PendingResponse: @unchecked Sendable {
    // Sendable: the connection is touched on its loop only.
    private weak var connection: HTTPConnection?
    private let loop: EventLoop
    /// Whether the connection stays open behind the response.
    let keepsAlive: Bool
    /// The client's address, or that of the connection's peer.
    let peer: SocketAddress
    /// Whether the peer understands chunked transfer coding.
    private let isHTTP11: Bool
    /// The budget's lease for the request body, released with this object.
    private let body: MemoryLease?
    /// Counts the bytes sent from the response on; set it before sending.
    var sentBytes: ByteCounter?

    init(
        _ connection: HTTPConnection, loop: EventLoop, peer: SocketAddress, keepsAlive: Bool, isHTTP11: Bool = true,
        body: MemoryLease? = nil
    ) {
        self.isHTTP11 = isHTTP11
        self.connection = connection
        self.loop = loop
        self.peer = peer
        self.keepsAlive = keepsAlive
        self.body = body
    }

    /// Sends the response. From any thread, once; without effect when the connection has ended.
    func send(_ status: HTTPResponse.Status, _ fields: HTTPFields, _ body: [UInt8], isHead: Bool = false) {
        let bytes = HTTPResponseEncoder.response(status, fields: fields, body: body, keepsAlive: keepsAlive, isHead: isHead)
        loop.execute { [self] in answering?.answer(bytes) }
    }

    /// Sends a response whose body is encoded as the peer reads it. From any thread, once.
    func send(_ status: HTTPResponse.Status, _ fields: HTTPFields, _ body: ResponseBody) {
        var body = body
        body.isChunked = isHTTP11
        var head: [UInt8] = []
        HTTPResponseEncoder.appendHead(
            status, fields: fields, framing: isHTTP11 ? .chunked : .untilClose, keepsAlive: keepsAlive, to: &head)
        loop.execute { [self, body, head] in answering?.answer(head, then: body, keepsAlive: isHTTP11) }
    }

    /// Sends a JSON response of REST. From any thread, once.
    /// - Parameter allow: the methods that the path takes, with status 405.
    func sendLater(_ status: HTTPResponse.Status, _ body: [UInt8], allow: String? = nil, isHead: Bool) {
        let bytes = RESTResponse.response(status, RESTResponse.Head(allow: allow), body, keepsAlive: keepsAlive, isHead: isHead)
        loop.execute { [self] in answering?.answer(bytes) }
    }

    /// Index of the connection's loop.
    var loopIndex: Int { loop.index }

    /// Routes the request again now that its namespace is known. From any thread.
    func opened() {
        loop.execute { [self] in connection?.opened() }
    }

    // MARK: On the loop

    /// The connection, after setting its byte counter.
    private var answering: HTTPConnection? {
        connection?.sentBytes = sentBytes
        return connection
    }

    /// Sends an encoded response.
    /// - Parameter keepsAlive: false when its head announces `Connection: close` although the peer asked to keep it.
    func send(_ bytes: [UInt8], keepsAlive: Bool = true) {
        answering?.answer(bytes, keepsAlive: keepsAlive)
    }

    /// Sends an encoded head and first piece, then the rest of the body.
    func send(_ bytes: [UInt8], then body: ResponseBody, keepsAlive: Bool) {
        answering?.answer(bytes, then: body, keepsAlive: keepsAlive)
    }

    func refuse(_ refusal: RESTRefusal, isHead: Bool) {
        answering?.answer(RESTResponse.refusal(refusal, keepsAlive: keepsAlive, isHead: isHead))
    }

    /// Turns the connection into an event stream; false when it has ended.
    func begin(_ events: EventStreamCarrier, listener: any SocketListener) -> Bool {
        guard let connection = answering else { return false }
        return connection.stream(events, listener: listener)
    }
}
