public import HTTPTypes
import JSONTree

/// The heads of REST responses (contract §7.4). CORS allows any page to read them: the credential decides access.
public enum RESTResponse {
    /// The parts of a response head other than the status.
    public struct Head: Sendable {
        public var etag: RESTRequest.ETag?
        /// The file name under which a browser saves the response.
        public var download: String?
        public var content = Content.json
        /// Seconds.
        public var retryAfter: Int?
        /// The methods that the path takes, with status 405 (RFC 9110 §10.2.1).
        public var allow: String?

        public enum Content: Sendable {
            case json, script, text, events
        }

        public init(etag: RESTRequest.ETag? = nil, download: String? = nil, content: Content = .json, allow: String? = nil) {
            self.etag = etag
            self.download = download
            self.content = content
            self.allow = allow
        }
    }

    /// Those of data.
    private static let methods = "GET, PUT, PATCH, POST, DELETE, HEAD, OPTIONS"

    private static let common = """
        Cache-Control: no-cache\r\nAccess-Control-Allow-Origin: *\r\n\
        X-Content-Type-Options: nosniff\r\n
        """
    private static let json = Array(("Content-Type: application/json; charset=utf-8\r\n" + common).utf8)
    private static let script = Array(("Content-Type: application/javascript; charset=utf-8\r\n" + common).utf8)
    private static let text = Array(("Content-Type: text/plain; charset=utf-8\r\n" + common).utf8)
    private static let events = Array(("Content-Type: text/event-stream; charset=utf-8\r\nX-Accel-Buffering: no\r\n" + common).utf8)

    public static func appendHead(
        _ status: HTTPResponse.Status, _ head: Head = Head(), framing: HTTPResponseEncoder.Framing, keepsAlive: Bool,
        to bytes: inout [UInt8]
    ) {
        var lines =
            switch head.content {
            case .json: json
            case .script: script
            case .text: text
            case .events: events
            }
        if let etag = head.etag { lines += Array("ETag: \(etag.text)\r\n".utf8) }
        if let name = head.download { lines += Array("Content-Disposition: attachment; filename=\"\(fileName(name))\"\r\n".utf8) }
        if let allow = head.allow { lines += Array("Allow: \(allow)\r\n".utf8) }
        // Response fields that pages may read.
        if let seconds = head.retryAfter {
            lines += Array("Access-Control-Expose-Headers: ETag, Retry-After\r\nRetry-After: \(seconds)\r\n".utf8)
        } else {
            lines += Array("Access-Control-Expose-Headers: ETag\r\n".utf8)
        }
        HTTPResponseEncoder.appendHead(status, lines: lines, framing: framing, keepsAlive: keepsAlive, to: &bytes)
    }

    /// A whole response.
    public static func response(
        _ status: HTTPResponse.Status, _ head: Head = Head(), _ body: [UInt8], keepsAlive: Bool, isHead: Bool = false
    ) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(320 + body.count)
        appendHead(status, head, framing: .length(body.count), keepsAlive: keepsAlive, to: &bytes)
        if !isHead { bytes += body }
        return bytes
    }

    public static func refusal(_ refusal: RESTRefusal, keepsAlive: Bool, isHead: Bool = false) -> [UInt8] {
        var head = Head()
        head.retryAfter = refusal.retryAfterSeconds
        if refusal.status == .methodNotAllowed { head.allow = methods }
        return response(refusal.status, head, refusal.body, keepsAlive: keepsAlive, isHead: isHead)
    }

    /// The response to a preflight request (Fetch §3.2.2): all origins and all fields are allowed.
    public static func preflight(_ request: HTTPInboundRequest) -> [UInt8] {
        let asked = request.fields.value("access-control-request-headers")
        let names = asked ?? "Authorization, Content-Type, X-Firebase-ETag, if-match, if-none-match, X-HTTP-Method-Override"
        let lines = Array(
            """
            Access-Control-Allow-Origin: *\r
            Access-Control-Allow-Methods: \(methods)\r
            Access-Control-Allow-Headers: \(names)\r
            Access-Control-Max-Age: 3600\r
            Allow: \(methods)\r
            Cache-Control: no-cache\r

            """.utf8)
        var bytes: [UInt8] = []
        HTTPResponseEncoder.appendHead(.ok, lines: lines, framing: .length(0), keepsAlive: request.keepsAlive, to: &bytes)
        return bytes
    }

    /// A file name without characters that could end the quotes, the field or the folder.
    private static func fileName(_ text: String) -> String {
        String(String.UnicodeScalarView(
            text.unicodeScalars.filter { $0.value >= 0x20 && $0.value != 0x7F && !"\"\\/".unicodeScalars.contains($0) }.prefix(200)))
    }
}
