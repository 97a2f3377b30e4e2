public import HTTPTypes

/// One whole response as a server sent it.
public struct HTTPInboundResponse: Sendable {
    public var status: HTTPResponse.Status
    public var fields: HTTPFields
    public var body: [UInt8]
    public var isHTTP11: Bool
    /// False if the server closes the connection after this response.
    public var keepsAlive: Bool
}

/// Reads HTTP/1.1 responses (RFC 9112 §4, §6.3), for clients: responses to an upgrade and to plain requests.
///
/// Skips interim responses (1xx) other than 101. Like `HTTPRequestParser`, one call reads at most one response, so the first WebSocket frames
/// after a 101 stay with the caller.
public struct HTTPResponseParser: Sendable {
    public struct Step: Sendable {
        /// Bytes of the input that belong to this step. All of them when the event is `incomplete`.
        public var consumed: Int
        public var event: Event
    }

    public enum Event: Sendable {
        case incomplete
        case response(HTTPInboundResponse)
        case failure(HTTPFailure)
    }

    private enum State {
        case statusLine
        case fields
        case body
        /// Without a length the body ends when the server closes (RFC 9112 §6.3).
        case untilClose
        case failed(HTTPFailure)
    }

    private struct StatusLine: Sendable {
        var status: HTTPResponse.Status
        var isHTTP11: Bool
    }

    public let limits: HTTPLimits
    private var state = State.statusLine
    private var lines = HTTPLineReader()
    private var section = HTTPFieldSection()
    private var start: StatusLine?
    private var body: HTTPBodyReader?
    private var openBody: [UInt8] = []
    private var answersHead = false

    public init(limits: HTTPLimits = HTTPLimits()) {
        self.limits = limits
    }

    /// Call before each response to HEAD: it has no body, whatever its fields say.
    public mutating func expectAnswerToHead() {
        answersHead = true
    }

    /// Reads up to the end of one response. O(n).
    public mutating func receive(_ bytes: UnsafeRawBufferPointer) -> Step {
        var at = 0
        do throws(HTTPFailure) {
            let event = try read(bytes, &at)
            return Step(consumed: at, event: event)
        } catch {
            state = .failed(error)
            return Step(consumed: bytes.count, event: .failure(error))
        }
    }

    /// The server closed the connection: ends a body without a length. Nil if no such response was open.
    public mutating func receiveEnd() -> HTTPInboundResponse? {
        guard case .untilClose = state, let start else { return nil }
        let response = inbound(start, body: openBody)
        reset()
        return response
    }

    private mutating func read(_ bytes: UnsafeRawBufferPointer, _ at: inout Int) throws(HTTPFailure) -> Event {
        while true {
            switch state {
            case .failed(let failure):
                throw failure
            case .statusLine:
                let line = try lines.next(
                    bytes, &at, limit: limits.startLineBytes, tooLong: .badStatusLine, Self.statusLine)
                guard let line else { return .incomplete }
                start = line
                state = .fields
            case .fields:
                guard let isEnd = try section.readLine(&lines, bytes, &at, limits) else { return .incomplete }
                if isEnd { try finishHead() }
            case .body:
                guard let start, var body = body.take() else { throw .badStatusLine }
                let isDone = try body.read(bytes, &at, limits)
                if !isDone {
                    self.body = body
                    return .incomplete
                }
                let response = inbound(start, body: body.body.bytes)
                reset()
                return .response(response)
            case .untilClose:
                if bytes.count - at > limits.bodyBytes - openBody.count { throw .bodyTooLarge }
                openBody.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[at...]))
                at = bytes.count
                return .incomplete
            }
        }
    }

    private mutating func finishHead() throws(HTTPFailure) {
        guard let start else { throw .badStatusLine }
        let code = start.status.code
        if code < 200 && code != 101 {
            state = .statusLine
            section = HTTPFieldSection()
            return
        }
        if code < 200 || code == 204 || code == 304 || answersHead {
            body = try HTTPBodyReader(.none, limits)
            state = .body
            return
        }
        let framing = try section.framing(isHTTP10: !start.isHTTP11)
        body = try HTTPBodyReader(framing, limits)
        state = framing == .none ? .untilClose : .body
    }

    private func inbound(_ start: StatusLine, body: [UInt8]) -> HTTPInboundResponse {
        let fields = section.fields
        var staysOpen = fields.keepsAlive(isHTTP11: start.isHTTP11)
        if case .untilClose = state { staysOpen = false }
        return HTTPInboundResponse(
            status: start.status, fields: fields, body: body, isHTTP11: start.isHTTP11, keepsAlive: staysOpen)
    }

    private mutating func reset() {
        state = .statusLine
        section = HTTPFieldSection()
        start = nil
        body = nil
        openBody = []
        answersHead = false
    }

    /// `HTTP/1.x SP 3DIGIT SP [reason]`; some servers omit the last space.
    private static func statusLine(_ line: UnsafeRawBufferPointer) throws(HTTPFailure) -> StatusLine {
        guard line.count >= 12, line.starts(with: "HTTP/".utf8), line[5].isDigit, line[6] == UInt8(ascii: "."),
            line[7].isDigit, line[8] == UInt8(ascii: " "), line[9...11].allSatisfy(\.isDigit),
            line.count == 12 || line[12] == UInt8(ascii: " "), line[12...].allSatisfy(\.isFieldContent)
        else { throw .badStatusLine }
        if line[5] != UInt8(ascii: "1") { throw .unsupportedVersion }
        let code = line[9...11].reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
        guard code >= 100 else { throw .badStatusLine }
        let reason = String(decoding: line.dropFirst(13), as: UTF8.self)
        return StatusLine(
            status: HTTPResponse.Status(code: code, reasonPhrase: reason), isHTTP11: line[7] != UInt8(ascii: "0"))
    }
}
