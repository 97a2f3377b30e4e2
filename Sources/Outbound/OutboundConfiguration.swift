import Cryptography
import Curl

/// What the operator says about outgoing requests. Plain values; each checks itself and throws faults that name a member, for the reader
/// of a file.
public struct OutboundConfiguration: Sendable {
    /// How push services reach the operator: `mailto:ops@example.org` or `https://example.org`. Nil: Web Push and UnifiedPush are off.
    public private(set) var subject: String?
    /// The web site to which paths in notifications belong, `https://app.example`: mails and ntfy need whole addresses.
    public private(set) var site: String?
    /// ntfy servers by name. Devices that name none use the only one, or `default`.
    public var ntfyServers: [String: NtfyServer] = [:]
    /// Webhooks by name.
    public var webhooks: [String: Webhook] = [:]
    /// Which addresses requests may reach.
    public private(set) var addresses = AddressGuard()
    public var limits = SenderLimits()
    /// A file of certificates (PEM) that sign those of endpoints, instead of the system's.
    public var certificates: String?

    public init() {}

    public mutating func set(subject: String) throws(ConfigurationFault) {
        let isMail = subject.hasPrefix("mailto:") && subject.contains("@") && subject.utf8.count > "mailto:@".utf8.count
        guard isMail || CurlURL(subject)?.isSecure == true, subject.utf8.count <= 256, subject.isFieldValue else {
            throw ConfigurationFault("subject", "expected mailto: and an address, or an https URL: push services require it")
        }
        self.subject = subject
    }

    public mutating func set(site: String) throws(ConfigurationFault) {
        guard let url = CurlURL(site), url.text == url.origin + "/" else {
            throw ConfigurationFault("site", "expected an address without a path, such as https://app.example")
        }
        self.site = url.origin
    }

    /// - Parameter hosts: host names, addresses and networks that may be private and without TLS; see `AddressGuard`.
    public mutating func set(privateHosts hosts: [String]) throws(ConfigurationFault) {
        do throws(AddressGuard.InvalidEntry) { addresses = try AddressGuard(allowing: hosts) } catch {
            throw ConfigurationFault("private-hosts", "\(error)")
        }
    }

    /// The server for a device: that of the name, else the only one, else `default`.
    func ntfyServer(named name: String?) throws(RequestFault) -> NtfyServer {
        if let name {
            guard let server = ntfyServers[name] else { throw RequestFault("there is no ntfy server of the device's name") }
            return server
        }
        if let server = ntfyServers["default"] ?? (ntfyServers.count == 1 ? ntfyServers.first?.value : nil) { return server }
        if ntfyServers.isEmpty { throw RequestFault("no ntfy server is configured") }
        throw RequestFault("several ntfy servers are configured, and none is \"default\"")
    }

    func webhook(named name: String) throws(RequestFault) -> Webhook {
        guard let webhook = webhooks[name] else { throw RequestFault("there is no webhook of this name in the configuration") }
        return webhook
    }
}

/// A fault of one member of the configuration.
public struct ConfigurationFault: Error, Sendable, Equatable, CustomStringConvertible {
    /// The member's name in the file: `url`, `secret`.
    public let member: String
    /// What is expected, for the operator. Contains no secret.
    public let text: String
    public var description: String { "\"\(member)\": \(text)" }

    init(_ member: String, _ text: String) {
        self.member = member
        self.text = text
    }
}

/// A server that speaks ntfy's protocol.
public struct NtfyServer: Sendable {
    let url: CurlURL
    let token: String?
    let topicPrefix: String?
    let isPrivate: Bool

    /// - Parameters:
    ///   - url: `https://ntfy.example`; http only if `isPrivate`.
    ///   - token: an access token; nil: none is sent. It is sent for topics with `topicPrefix` only, because users choose the topics of
    ///     their devices: without a prefix it is never sent.
    ///   - topicPrefix: the beginning of every topic that devices may name, 1 to 32 letters, digits, `-` and `_`; nil: any topic.
    ///   - isPrivate: the server may have a private address.
    public init(url: String, token: String? = nil, topicPrefix: String? = nil, isPrivate: Bool = false) throws(ConfigurationFault) {
        self.url = try CurlURL(checked: url, isPrivate: isPrivate)
        if let token {
            guard 1...1_024 ~= token.utf8.count, token.isFieldValue, !token.contains(" ") else {
                throw ConfigurationFault("token", "expected one word of ASCII letters")
            }
        }
        if let topicPrefix {
            guard topicPrefix.utf8.count <= 32, topicPrefix.urlSafe(limit: 32) == topicPrefix else {
                throw ConfigurationFault("topic-prefix", "expected 1 to 32 letters, digits, - and _")
            }
        }
        self.token = token
        self.topicPrefix = topicPrefix
        self.isPrivate = isPrivate
    }
}

/// Another program that receives deliveries as signed JSON.
public struct Webhook: Sendable {
    let url: CurlURL
    let secret: SecretBytes
    let fields: [(name: String, value: String)]
    let timeoutMs: Int
    let isPrivate: Bool
    let acceptsDevices: Bool

    /// Fields that requests have already, or that would change how the body is read.
    static let reserved: Set<String> = [
        "connection", "content-encoding", "content-length", "content-type", "expect", "host", "te", "trailer",
        "transfer-encoding", "upgrade",
    ]
    static let secretBytes = 16...1_024, seconds = 1...60, fieldCount = 32, valueBytes = 4_096

    /// - Parameters:
    ///   - url: http only if `isPrivate`.
    ///   - secret: the key of the signature, 16 to 1,024 bytes of UTF-8.
    ///   - fields: further header fields, such as `Authorization`.
    ///   - timeoutSeconds: for the whole exchange, 1 to 60.
    ///   - isPrivate: the endpoint may have a private address.
    ///   - acceptsDevices: rows of devices may name it (`devices` in a configuration). Otherwise it receives the hub's events only, as any
    ///     user could send notifications to it.
    public init(
        url: String, secret: String, fields: [(name: String, value: String)] = [], timeoutSeconds: Int = 10, isPrivate: Bool = false,
        acceptsDevices: Bool = false
    ) throws(ConfigurationFault) {
        self.url = try CurlURL(checked: url, isPrivate: isPrivate)
        guard Self.secretBytes ~= secret.utf8.count else { throw ConfigurationFault("secret", "expected 16 to 1,024 bytes") }
        guard Self.seconds ~= timeoutSeconds else { throw ConfigurationFault("timeout-seconds", "expected 1 to 60") }
        guard fields.count <= Self.fieldCount else { throw ConfigurationFault("headers", "expected at most 32") }
        var names: Set<String> = []
        for (name, value) in fields {
            let lower = name.lowercased()
            guard name.isFieldName, value.isFieldValue, value.utf8.count <= Self.valueBytes else {
                throw ConfigurationFault("headers", "\"\(name.prefix(64))\": expected a header's name and a value of printable ASCII")
            }
            guard !Self.reserved.contains(lower), !lower.hasPrefix("vigla-") else {
                throw ConfigurationFault("headers", "\"\(name)\" is set by the hub")
            }
            guard names.insert(lower).inserted else { throw ConfigurationFault("headers", "\"\(name)\" is given twice") }
        }
        self.secret = SecretBytes(Array(secret.utf8))
        self.fields = fields
        timeoutMs = timeoutSeconds * 1000
        self.isPrivate = isPrivate
        self.acceptsDevices = acceptsDevices
    }
}

extension CurlURL {
    /// An endpoint that the operator names.
    fileprivate init(checked text: String, isPrivate: Bool) throws(ConfigurationFault) {
        guard let url = CurlURL(text), text.utf8.count <= 2_048, url.isSecure || isPrivate else {
            throw ConfigurationFault(
                "url", isPrivate ? "expected an address that begins with https:// or http://"
                    : "expected an address that begins with https://; http:// only with \"private\": true")
        }
        self = url
    }
}
