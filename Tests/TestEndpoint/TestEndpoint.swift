package import DispatchNet
import Synchronization

/// An HTTP endpoint on a free port of this machine, which records requests and answers them as the test says.
package final class TestEndpoint: Sendable {
    package struct Request: Sendable {
        package var path = ""
        /// By their names in lower case.
        package var fields: [String: String] = [:]
        package var body: [UInt8] = []
    }

    /// What follows a request.
    package enum Answer: Sendable {
        /// These bytes; the connection is kept.
        case text(String)
        /// Nothing, until the peer closes.
        case silence
        /// The end of the connection.
        case close
    }

    private struct State {
        var requests: [Request] = []
        var connections = 0
        var ended = 0
        /// Unanswered requests by host name, and the most there were at once: of one host, and in total.
        var open: [String: Int] = [:]
        var mostOfHost = 0
        var most = 0
    }

    private let group: EventLoopGroup
    private let listener: Listener
    private let state: StateBox
    package let port: UInt16

    package var requests: [Request] { state.value.withLock { $0.requests } }
    package var connections: Int { state.value.withLock { $0.connections } }
    package var ended: Int { state.value.withLock { $0.ended } }
    package var mostOfHost: Int { state.value.withLock { $0.mostOfHost } }
    package var most: Int { state.value.withLock { $0.most } }

    private final class StateBox: Sendable { let value = Mutex(State()) }

    package init(
        tls: TLSServer? = nil, _ answer: @escaping @Sendable (Request) -> Answer = { _ in .text(TestEndpoint.created) }
    ) throws {
        group = try EventLoopGroup(count: 1)
        listener = try Listener.bind(host: "127.0.0.1", port: 0)
        port = listener.port
        let state = StateBox()
        self.state = state
        listener.start(on: group, tls: tls) { connection in
            state.value.withLock { $0.connections += 1 }
            return EndpointSession(connection, state, answer)
        }
    }

    deinit { group.shutdown(graceMs: 0) {} }

    package static let created = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"

    package func url(_ path: String = "/", host: String = "127.0.0.1", scheme: String = "http") -> String { "\(scheme)://\(host):\(port)\(path)" }

    private final class EndpointSession: ConnectionHandler {
        private let connection: Connection
        private let state: StateBox
        private let answer: @Sendable (Request) -> Answer
        private var buffer: [UInt8] = []
        private var unanswered: [String] = []

        init(_ connection: Connection, _ state: StateBox, _ answer: @escaping @Sendable (Request) -> Answer) {
            self.connection = connection
            self.state = state
            self.answer = answer
        }

        func received(_ bytes: UnsafeMutableRawBufferPointer) {
            buffer += bytes
            while let request = take() { handle(request) }
        }

        /// The next whole request.
        private func take() -> Request? {
            guard let end = buffer.firstRange(of: Array("\r\n\r\n".utf8)) else { return nil }
            let lines = String(decoding: buffer[..<end.lowerBound], as: UTF8.self).split(separator: "\r\n")
            var request = Request()
            request.path = lines.first?.split(separator: " ").dropFirst().first.map(String.init) ?? ""
            for line in lines.dropFirst() {
                let colon = line.firstIndex(of: ":") ?? line.endIndex
                request.fields[line[..<colon].lowercased()] = String(line[colon...].dropFirst().drop { $0 == " " })
            }
            let length = Int(request.fields["content-length"] ?? "0") ?? 0
            guard buffer.count >= end.upperBound + length else { return nil }
            request.body = Array(buffer[end.upperBound..<(end.upperBound + length)])
            buffer.removeFirst(end.upperBound + length)
            return request
        }

        private func handle(_ request: Request) {
            let host = request.fields["host"] ?? ""
            state.value.withLock { state in
                state.requests.append(request)
                state.open[host, default: 0] += 1
                state.mostOfHost = max(state.mostOfHost, state.open[host, default: 0])
                state.most = max(state.most, state.open.values.reduce(0, +))
            }
            switch answer(request) {
            case .text(let text):
                state.value.withLock { $0.open[host, default: 0] -= 1 }
                connection.send(Array(text.utf8))
            case .silence: unanswered.append(host)
            case .close:
                state.value.withLock { $0.open[host, default: 0] -= 1 }
                connection.close(.finished)
            }
        }

        func ended(_ reason: CloseReason) {
            state.value.withLock { state in
                state.ended += 1
                for host in unanswered { state.open[host, default: 0] -= 1 }
            }
        }
    }
}
