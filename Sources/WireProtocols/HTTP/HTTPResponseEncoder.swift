public import HTTPTypes

/// Encodes responses (RFC 9112 §4, §6).
///
/// The encoder writes Content-Length, Transfer-Encoding and Connection itself, and ignores them in `fields`.
public enum HTTPResponseEncoder {
    /// How the end of the body is marked.
    public enum Framing: Sendable, Hashable {
        /// Content-Length: exactly this many bytes follow.
        case length(Int)
        /// Chunked: continue with `chunk` and end with `lastChunk`. HTTP/1.1 peers only.
        case chunked
        /// Until the connection closes (event streams to HTTP/1.0 peers).
        case untilClose
    }

    /// A whole response. `isHead` omits the body but keeps its length (RFC 9110 §9.3.2); 1xx, 204 and 304 never have a body. `date` is the value
    /// of a Date field, an IMF-fixdate (RFC 9110 §5.6.7).
    public static func response(
        _ status: HTTPResponse.Status, fields: HTTPFields = [:], body: [UInt8] = [], keepsAlive: Bool = true,
        isHead: Bool = false, date: String? = nil
    ) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(256 + body.count)
        appendHead(
            status, fields: fields, framing: .length(body.count), keepsAlive: keepsAlive, date: date, to: &bytes)
        if !isHead && mayHaveBody(status) { bytes += body }
        return bytes
    }

    /// Only the head, for a body that follows in pieces.
    public static func appendHead(
        _ status: HTTPResponse.Status, fields: HTTPFields = [:], framing: Framing, keepsAlive: Bool = true,
        date: String? = nil, to bytes: inout [UInt8]
    ) {
        appendStatus(status, to: &bytes)
        for field in fields where !framed.contains(field.name) {
            append(field.name.rawName, to: &bytes)
            append(": ", to: &bytes)
            field.withUnsafeBytesOfValue { bytes.append(contentsOf: $0) }
            append("\r\n", to: &bytes)
        }
        if let date { append("Date: \(date)\r\n", to: &bytes) }
        appendEnd(status, framing, keepsAlive: keepsAlive, to: &bytes)
    }

    /// Only the head, with encoded fields, each line with its CR LF.
    static func appendHead(
        _ status: HTTPResponse.Status, lines: [UInt8], framing: Framing, keepsAlive: Bool, to bytes: inout [UInt8]
    ) {
        appendStatus(status, to: &bytes)
        bytes += lines
        appendEnd(status, framing, keepsAlive: keepsAlive, to: &bytes)
    }

    private static let okLine = Array("HTTP/1.1 200 OK\r\n".utf8)

    private static func appendStatus(_ status: HTTPResponse.Status, to bytes: inout [UInt8]) {
        if status.code == 200 { return bytes += okLine }
        append("HTTP/1.1 \(status.code) \(status.reasonPhrase)\r\n", to: &bytes)
    }

    private static func appendEnd(_ status: HTTPResponse.Status, _ framing: Framing, keepsAlive: Bool, to bytes: inout [UInt8]) {
        if mayHaveBody(status) {
            switch framing {
            case .length(let length):
                append("Content-Length: ", to: &bytes)
                append(String(length), to: &bytes)
                append("\r\n", to: &bytes)
            case .chunked: append("Transfer-Encoding: chunked\r\n", to: &bytes)
            case .untilClose: break
            }
        }
        let staysOpen = keepsAlive && framing != .untilClose
        append(staysOpen ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n", to: &bytes)
    }

    /// One chunk of a chunked body (RFC 9112 §7.1). Empty for an empty piece, which would end the body.
    public static func chunk(_ piece: [UInt8]) -> [UInt8] {
        if piece.isEmpty { return [] }
        var bytes = Array(String(piece.count, radix: 16).utf8)
        bytes.reserveCapacity(bytes.count + piece.count + 4)
        append("\r\n", to: &bytes)
        bytes += piece
        append("\r\n", to: &bytes)
        return bytes
    }

    /// The start of a chunk of unknown size: append the bytes, then call `endChunk`.
    public static let openChunk = Array("00000000\r\n".utf8)

    /// Ends a chunk that starts with `openChunk` and fills all of `bytes`. Removes an empty chunk, which would end the body.
    public static func endChunk(_ bytes: inout [UInt8]) {
        var left = bytes.count - openChunk.count
        if left <= 0 { return bytes = [] }
        for i in (0..<8).reversed() {
            let digit = UInt8(left & 15)
            bytes[i] = digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10
            left >>= 4
        }
        append("\r\n", to: &bytes)
    }

    /// The end of a chunked body.
    public static let lastChunk = Array("0\r\n\r\n".utf8)

    /// The interim response to `HTTPRequestParser.Event.expectsContinue`.
    public static let continueResponse = Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)

    /// The response to a refused request: the failure's status, `{"error":text}` as REST clients parse it (contract §7.4), and
    /// `Connection: close`.
    public static func failure(_ failure: HTTPFailure, date: String? = nil) -> [UInt8] {
        var fields: HTTPFields = [.contentType: "application/json; charset=utf-8"]
        if failure == .unsupportedWebSocketVersion { fields[.secWebSocketVersion] = "13" }
        if failure.status == .upgradeRequired { fields[.upgrade] = "websocket" }
        // No failure text contains a quote or a backslash.
        let body = Array("{\n  \"error\" : \"\(failure.text)\"\n}\n".utf8)
        return response(failure.status, fields: fields, body: body, keepsAlive: false, date: date)
    }

    private static let framed: Set<HTTPField.Name> = [.contentLength, .transferEncoding, .connection]

    private static func mayHaveBody(_ status: HTTPResponse.Status) -> Bool {
        status.code >= 200 && status.code != 204 && status.code != 304
    }

    private static func append(_ text: String, to bytes: inout [UInt8]) {
        bytes.append(contentsOf: text.utf8)
    }
}
