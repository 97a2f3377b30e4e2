import Curl

/// One POST, ready to be sent any number of times. `OutboundSender` sends it.
public struct OutboundRequest: Sendable {
    /// How the answer is read.
    enum Service: Sendable {
        /// Web Push, UnifiedPush: 404 and 410 mean that the subscription is gone.
        case push
        /// ntfy: topics are never gone.
        case ntfy
        /// 410 means that the device is gone.
        case webhook
        /// A webhook without a device: 410 is a refusal like others.
        case event
    }

    let service: Service
    let url: CurlURL
    /// Names are unique; values are printable ASCII.
    let fields: [(name: String, value: String)]
    public let body: [UInt8]
    /// Whether the operator named the endpoint and allows it to be private.
    let mayBePrivate: Bool
    /// A limit for the whole exchange in ms; nil: that of the sender.
    let timeoutMs: Int?

    init(
        _ service: Service, _ url: CurlURL, fields: [(name: String, value: String)], body: [UInt8], mayBePrivate: Bool = false,
        timeoutMs: Int? = nil
    ) {
        self.service = service
        self.url = url
        self.fields = fields
        self.body = body
        self.mayBePrivate = mayBePrivate
        self.timeoutMs = timeoutMs
    }

    /// The address, for logs and dead letters: an endpoint's path is a secret.
    public var origin: String { url.origin }
}

/// Why no request can be made for a notification and a device; it ends as a dead letter.
public struct RequestFault: Error, Sendable, Equatable, CustomStringConvertible {
    public let description: String
    init(_ description: String) { self.description = description }
}
