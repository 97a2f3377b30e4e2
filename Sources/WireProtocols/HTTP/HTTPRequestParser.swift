public import HTTPTypes

/// Parses the HTTP/1.1 requests of one connection (RFC 9112), strictly: ambiguous input is refused.
///
/// ```
/// request line ──► field lines ──► [expectsContinue] ──► body ──► request ──► request line …
///        └───────────────┴──────────────┴──────────────────┴──► failure (further input is ignored)
/// ```
/// One call parses at most one request and returns the number of bytes consumed. Pipelined requests, and the first WebSocket frames after an
/// upgrade, stay with the caller:
/// ```swift
/// while at < bytes.count {
///     let step = parser.receive(bytes[at...]); at += step.consumed
///     switch step.event { … }
/// }
/// ```
public struct HTTPRequestParser: Sendable {
    public struct Step: Sendable {
        /// Bytes of the input that belong to this step. All of them when the event is `incomplete`.
        public var consumed: Int
        public var event: Event
    }

    public enum Event: Sendable {
        /// The input ended inside a request.
        case incomplete
        /// The head is complete, and the client waits for `100 Continue` before it sends the body (RFC 9110 §10.1.1). Send that, then call again with
        /// the rest of the input.
        case expectsContinue
        case request(HTTPInboundRequest)
        /// Respond with the failure's status and `Connection: close`, then close.
        case failure(HTTPFailure)
    }

    private enum State {
        /// Before or inside the request line. Empty lines before it are skipped (RFC 9112 §2.2).
        case requestLine
        case fields
        case body
        case failed(HTTPFailure)
    }

    private struct RequestLine: Sendable {
        var method: HTTPRequest.Method
        var target: HTTPTarget
        var isHTTP11: Bool
    }

    public let limits: HTTPLimits
    private var state = State.requestLine
    private var lines = HTTPLineReader()
    private var skippedLines = 0
    private var section = HTTPFieldSection()
    private var start: RequestLine?
    private var body: HTTPBodyReader?
    private let bodyBytesOf: (@Sendable (HTTPTarget, HTTPFields) -> Int)?
    /// The limits of the current request.
    private var bodyLimits: HTTPLimits

    /// - Parameter bodyBytes: the largest body for a request with this head, if less than ``HTTPLimits/bodyBytes``; called before the body is
    ///   read. Nil if the limit is the same for all targets.
    public init(limits: HTTPLimits = HTTPLimits(), bodyBytes: (@Sendable (HTTPTarget, HTTPFields) -> Int)? = nil) {
        self.limits = limits
        bodyBytesOf = bodyBytes
        bodyLimits = limits
    }

    /// True between requests: then closing an idle connection interrupts no request.
    public var isIdle: Bool {
        if case .requestLine = state { lines.isEmpty } else { false }
    }

    /// Bytes received of the current request's body.
    public var bodyBytes: Int { body?.count ?? 0 }

    /// The announced length of the current request's body; nil if none was announced or no body is being read.
    public var announcedBytes: Int? { body?.announced }

    /// The current request without its body, while the body is being read; nil otherwise.
    public var head: HTTPInboundRequest? {
        guard case .body = state, let start else { return nil }
        return HTTPInboundRequest(
            method: start.method, target: start.target, fields: section.fields, isHTTP11: start.isHTTP11,
            keepsAlive: section.fields.keepsAlive(isHTTP11: start.isHTTP11))
    }

    /// Reads up to the end of one request. O(n).
    public mutating func receive(_ bytes: UnsafeRawBufferPointer) -> Step {
        var at = 0
        do throws(HTTPFailure) {
            let event = try read(bytes, &at)
            return Step(consumed: at, event: event)
        } catch {
            state = .failed(error)
            start = nil
            body = nil
            return Step(consumed: bytes.count, event: .failure(error))
        }
    }

    private mutating func read(_ bytes: UnsafeRawBufferPointer, _ at: inout Int) throws(HTTPFailure) -> Event {
        while true {
            switch state {
            case .failed(let failure):
                throw failure
            case .requestLine:
                let line = try lines.next(
                    bytes, &at, limit: limits.startLineBytes, tooLong: .targetTooLong, Self.requestLine)
                guard let line else { return .incomplete }
                guard let line else {
                    skippedLines += 1
                    if skippedLines > Self.emptyLinesAllowed { throw .badRequestLine }
                    continue
                }
                start = line
                state = .fields
            case .fields:
                guard let isEnd = try section.readLine(&lines, bytes, &at, limits) else { return .incomplete }
                if isEnd, try finishHead() { return .expectsContinue }
            case .body:
                guard let start, var body = body.take() else { throw .badRequestLine }
                let isDone = try body.read(bytes, &at, bodyLimits)
                if !isDone {
                    self.body = body
                    return .incomplete
                }
                let fields = section.fields
                let request = HTTPInboundRequest(
                    method: start.method, target: start.target, fields: fields, content: body.body,
                    isHTTP11: start.isHTTP11, keepsAlive: fields.keepsAlive(isHTTP11: start.isHTTP11))
                reset()
                return .request(request)
            }
        }
    }

    /// The most empty lines accepted before a request line; some clients send one after a body.
    private static let emptyLinesAllowed = 4

    private mutating func reset() {
        state = .requestLine
        skippedLines = 0
        section = HTTPFieldSection()
        start = nil
        body = nil
    }

    /// Validates the head as a whole; true if the client waits for `100 Continue`.
    private mutating func finishHead() throws(HTTPFailure) -> Bool {
        guard let start else { throw .badRequestLine }
        let fields = section.fields
        let hosts = fields.hosts
        guard hosts.count == 1 || (hosts.isEmpty && !start.isHTTP11), hosts.allSatisfy(HTTPTarget.isHost) else {
            throw .badHost
        }
        bodyLimits = limits
        if let bodyBytesOf { bodyLimits.bodyBytes = min(limits.bodyBytes, bodyBytesOf(start.target, fields)) }
        let body = try HTTPBodyReader(section.framing(isHTTP10: !start.isHTTP11), bodyLimits)
        self.body = body
        state = .body
        guard start.isHTTP11, let expectation = fields[.expect] else { return false }
        if expectation.lowercased() != "100-continue" { throw .unknownExpectation }
        return !body.isDone
    }

    /// `method SP target SP HTTP/1.x` with exactly one space between (RFC 9112 §3); nil for an empty line.
    private static func requestLine(_ line: UnsafeRawBufferPointer) throws(HTTPFailure) -> RequestLine? {
        if line.isEmpty { return nil }
        let space = UInt8(ascii: " ")
        guard let first = line.firstIndex(of: space), let last = line.lastIndex(of: space), first < last else {
            throw .badRequestLine
        }
        let version = line[(last + 1)...]
        guard version.count == 8, version.starts(with: "HTTP/".utf8), version[last + 6].isDigit,
            version[last + 7] == UInt8(ascii: "."), version[last + 8].isDigit
        else { throw .badRequestLine }
        if version[last + 6] != UInt8(ascii: "1") { throw .unsupportedVersion }
        guard first > 0, first <= longestMethod, line[..<first].allSatisfy(\.isToken),
            let method = HTTPRequest.Method(String(decoding: line[..<first], as: UTF8.self))
        else { throw .badMethod }
        let target = try HTTPTarget(bytes: UnsafeRawBufferPointer(rebasing: line[(first + 1)..<last]))
        if target.path == "*" && method != .options { throw .badTarget }
        return RequestLine(method: method, target: target, isHTTP11: version[last + 8] != UInt8(ascii: "0"))
    }

    private static let longestMethod = 32
}
