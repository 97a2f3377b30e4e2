import Testing

/// A REST client with its own connection, which is kept open.
package final class RESTPeer {
    package let socket: TestSocket
    /// Header fields sent with every request.
    package var fields: [String] = []

    package init(_ server: TestServer) throws {
        socket = try TestSocket(port: server.port)
        socket.server = server
    }

    package static func owner(_ server: TestServer) throws -> RESTPeer {
        let peer = try RESTPeer(server)
        peer.fields = ["Authorization: Bearer owner"]
        return peer
    }

    /// - Parameter target: `ns=test` is added to it.
    package func send(_ method: String, _ target: String, _ body: String = "", _ more: [String] = []) throws {
        let target = target + (target.contains("?") ? "&" : "?") + "ns=test"
        let length = body.isEmpty && ["GET", "DELETE", "HEAD", "OPTIONS"].contains(method) ? [] : ["Content-Length: \(body.utf8.count)"]
        let lines = ["\(method) \(target) HTTP/1.1", "Host: localhost:9000"] + fields + more + length
        try socket.send(lines.joined(separator: "\r\n") + "\r\n\r\n" + body)
    }

    @discardableResult
    package func ask(_ method: String, _ target: String, _ body: String = "", _ more: [String] = []) throws -> TestSocket.Response {
        try send(method, target, body, more)
        return method == "HEAD" ? try socket.head() : try socket.response()
    }

    /// `200 {"a":1}`
    @discardableResult
    package func line(_ method: String, _ target: String, _ body: String = "", _ more: [String] = []) throws -> String {
        let answer = try ask(method, target, body, more)
        return "\(answer.status) \(answer.body)"
    }

    package func get(_ target: String, _ more: [String] = []) throws -> String { try line("GET", target, "", more) }

    @discardableResult
    package func put(_ target: String, _ body: String, _ more: [String] = []) throws -> String { try line("PUT", target, body, more) }

    @discardableResult
    package func patch(_ target: String, _ body: String, _ more: [String] = []) throws -> String { try line("PATCH", target, body, more) }

    /// The text of a refusal: `400 orderBy must be …`. Checks its shape (contract §7.4).
    package func refusal(_ method: String, _ target: String, _ body: String = "", _ more: [String] = []) throws -> String {
        let answer = try ask(method, target, body, more)
        #expect(answer.head.contains("Content-Type: application/json"))
        let members = try RawObject(answer.body)
        return "\(answer.status) \(try #require(members["error"]).string)"
    }

    /// Starts a stream.
    /// - Returns: the head of its answer.
    @discardableResult
    package func stream(_ target: String, _ more: [String] = []) throws -> TestSocket.Response {
        try send("GET", target, "", ["Accept: text/event-stream"] + more)
        return try socket.head()
    }

    /// The next event of the stream, as `put {"path":"/","data":1}`; nil at its end.
    package func event() throws -> String? {
        guard let text = try socket.chunk() else { return nil }
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(
            lines.count == 4 && lines[2].isEmpty && lines[3].isEmpty
                && lines[0].hasPrefix("event: ") && lines[1].hasPrefix("data: "), "\(text)")
        return "\(lines[0].dropFirst(7)) \(lines[1].dropFirst(6))"
    }
}

extension TestSocket.Response {
    /// A field of the head.
    package func field(_ name: String) -> String? {
        head.split(separator: "\r\n").first { $0.lowercased().hasPrefix(name.lowercased() + ": ") }
            .map { String($0.dropFirst(name.count + 2)) }
    }
}
