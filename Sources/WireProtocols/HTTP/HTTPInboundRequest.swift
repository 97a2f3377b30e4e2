public import HTTPTypes

/// One whole request as a client sent it.
public struct HTTPInboundRequest: Sendable {
    public var method: HTTPRequest.Method
    public var target: HTTPTarget
    public var fields: HTTPFields
    public var content: HTTPBody
    /// False only for HTTP/1.0.
    public var isHTTP11: Bool
    /// Whether the client expects the connection to stay open after the response (RFC 9112 §9.3).
    public var keepsAlive: Bool

    public init(
        method: HTTPRequest.Method, target: HTTPTarget, fields: HTTPFields, content: HTTPBody = HTTPBody(), isHTTP11: Bool = true,
        keepsAlive: Bool = true
    ) {
        self.method = method
        self.target = target
        self.fields = fields
        self.content = content
        self.isHTTP11 = isHTTP11
        self.keepsAlive = keepsAlive
    }

    public init(method: HTTPRequest.Method, target: HTTPTarget, fields: HTTPFields, body: [UInt8]) {
        self.init(method: method, target: target, fields: fields, content: HTTPBody(body))
    }

    /// The content in one piece. For requests with small content; for others see ``HTTPBody/bytes``.
    public var body: [UInt8] { content.bytes }

    /// The `host[:port]` that the client dialled: the target's authority, otherwise Host; nil if HTTP/1.0 sent neither.
    public var host: String? { target.authority ?? fields.hosts.first }

    /// Whether the client requests an upgrade to WebSocket, well formed or not.
    public var asksForWebSocket: Bool { fields.hasToken("websocket", in: .upgrade) }
}

