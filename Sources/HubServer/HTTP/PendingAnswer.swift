import DispatchNet
import HTTPTypes

/// The answer that an HTTP connection still owes. The connection reads nothing more before it is given, so answers keep the
/// order of their requests (RFC 9112 §9.3.2), and it is not closed for idleness.
final class PendingAnswer: @unchecked Sendable {
    // Sendable: the connection is touched on its loop only.
    private weak var connection: HTTPConnection?
    private let loop: EventLoop

    init(_ connection: HTTPConnection, loop: EventLoop) {
        self.connection = connection
        self.loop = loop
    }

    /// Gives the answer. From any thread, once; nothing happens when the connection has ended.
    func send(_ status: HTTPResponse.Status, _ fields: HTTPFields, _ body: [UInt8]) {
        loop.execute { [self] in connection?.answer(status, fields, body) }
    }

    /// Has the request answered now that its namespace is known. From any thread.
    func opened() {
        loop.execute { [self] in connection?.opened() }
    }
}
