public import HTTPTypes

/// Why an HTTP message is refused. The hub then responds with `status` and closes the connection, as the start of the next message is
/// uncertain (RFC 9112 §2.2).
public enum HTTPFailure: Error, Sendable, Hashable {
    /// A line ended in LF without CR (RFC 9112 §2.2).
    case bareLineFeed
    /// A CR that is not followed by LF (RFC 9112 §2.2).
    case bareCarriageReturn
    /// The request line is not `method SP target SP version` (RFC 9112 §3).
    case badRequestLine
    /// The method is not a token (RFC 9110 §9.1).
    case badMethod
    /// The target is neither a path, an http URL nor `*`, or contains bytes a target may not have (RFC 9112 §3.2).
    case badTarget
    /// The path or query has a `%` without two hex digits, or decodes to something that is not UTF-8.
    case badPercentEncoding
    /// The major version is not 1 (RFC 9110 §15.6.6).
    case unsupportedVersion
    /// A field line that begins with white space (RFC 9112 §5.2).
    case foldedField
    /// A field line without a token directly followed by a colon, or with control characters (RFC 9112 §5).
    case badField
    /// No Host, more than one, or one with invalid characters (RFC 9112 §3.2).
    case badHost
    /// Content-Length is not one plain number (RFC 9112 §6.3).
    case badContentLength
    /// Both Transfer-Encoding and Content-Length, a sign of request smuggling (RFC 9112 §6.3).
    case ambiguousLength
    /// A Transfer-Encoding other than plain `chunked`, or one in HTTP/1.0 (RFC 9112 §6.1).
    case unsupportedTransferEncoding
    /// A chunk whose size line or end is malformed (RFC 9112 §7.1).
    case badChunk
    /// The request line is longer than the limit.
    case targetTooLong
    /// Too many field lines, or too many bytes of them.
    case fieldsTooLarge
    /// The body is longer than the limit.
    case bodyTooLarge
    /// An Expect other than `100-continue` (RFC 9110 §10.1.1).
    case unknownExpectation
    /// A request to a WebSocket path without a handshake, or with a malformed one (RFC 6455 §4.2.1).
    case badHandshake(HandshakeFault)
    /// A WebSocket version other than 13 (RFC 6455 §4.2.2).
    case unsupportedWebSocketVersion
    /// The status line of a response is malformed (RFC 9112 §4).
    case badStatusLine

    /// The invalid part of a WebSocket handshake.
    public enum HandshakeFault: Sendable, Hashable {
        /// Not GET over HTTP/1.1.
        case method
        /// No `websocket` in Upgrade or no `upgrade` in Connection.
        case upgrade
        /// Not exactly one Sec-WebSocket-Key of 16 bytes in base64.
        case key
        /// Sec-WebSocket-Extensions does not conform to its grammar (RFC 6455 §9.1).
        case extensions
    }

    /// The status of the response.
    public var status: HTTPResponse.Status {
        switch self {
        case .targetTooLong: .uriTooLong
        case .fieldsTooLarge: .requestHeaderFieldsTooLarge
        case .bodyTooLarge: .contentTooLarge
        case .unsupportedVersion: .httpVersionNotSupported
        case .unsupportedTransferEncoding: .notImplemented
        case .unknownExpectation: .expectationFailed
        case .badHandshake(.upgrade), .unsupportedWebSocketVersion: .upgradeRequired
        default: .badRequest
        }
    }

    /// One plain sentence for the response's body and the log.
    public var text: String {
        switch self {
        case .bareLineFeed: "Line ends must be CR LF."
        case .bareCarriageReturn: "CR without LF."
        case .badRequestLine: "Malformed request line."
        case .badMethod: "Invalid method."
        case .badTarget: "Invalid request target."
        case .badPercentEncoding: "Invalid percent-encoding in the request target."
        case .unsupportedVersion: "Only HTTP/1.0 and HTTP/1.1 are spoken here."
        case .foldedField: "Folded header fields are not accepted."
        case .badField: "Malformed header field."
        case .badHost: "Exactly one valid Host header is required."
        case .badContentLength: "Content-Length must be one plain number."
        case .ambiguousLength: "Content-Length and Transfer-Encoding exclude each other."
        case .unsupportedTransferEncoding: "The only transfer coding is chunked, in HTTP/1.1."
        case .badChunk: "Malformed chunk."
        case .targetTooLong: "Request line too long."
        case .fieldsTooLarge: "Too many or too large header fields."
        case .bodyTooLarge: "Data to write exceeds the maximum size that can be modified with a single request."
        case .unknownExpectation: "The only expectation is 100-continue."
        case .badHandshake(.method): "A WebSocket handshake is a GET request of HTTP/1.1."
        case .badHandshake(.upgrade): "This address speaks WebSocket: Upgrade and Connection headers are required."
        case .badHandshake(.key): "Sec-WebSocket-Key must be 16 bytes in base64."
        case .badHandshake(.extensions): "Malformed Sec-WebSocket-Extensions."
        case .unsupportedWebSocketVersion: "The WebSocket version must be 13."
        case .badStatusLine: "Malformed status line."
        }
    }
}
