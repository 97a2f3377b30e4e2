import Cryptography
import Curl
public import JSONTree
public import Mail

/// Where notifications of one person go, as stored in a row of devices by the person's app:
///
///     {"kind": "webpush", "endpoint": "https://…", "keys": {"p256dh": "B…", "auth": "…"}, "declarative": true}
///     {"kind": "unifiedpush", "endpoint": "https://…", "keys": {"p256dh": "B…", "auth": "…"}}
///     {"kind": "ntfy", "topic": "alerts-x8Kq", "server": "home"}
///     {"kind": "email", "address": "ana@example.org"}
///     {"kind": "webhook", "name": "sms", "number": "+30…"}
///
/// Other members are ignored, so an app can keep its own beside them. A webhook receives the whole row.
public enum Device: Sendable {
    /// Web Push and UnifiedPush, which are the same protocol.
    case push(PushSubscription)
    /// A topic of one of the configured servers; without `server` of the only one, or of that named `default`.
    case ntfy(topic: String, server: String?)
    case email(MailAddress)
    /// A webhook of the configuration, by its name; it receives the row, which may have a telephone number or a token.
    case webhook(name: String, row: Node)

    /// - Parameter addresses: decides whether an endpoint may be without TLS.
    /// - Throws: the first fault of the row. O(size of the row)
    public init(_ row: Node, addresses: AddressGuard) throws(DeviceFault) {
        guard row.hasChildren else { throw .noObject }
        switch try Self.text(row, "kind") {
        case "webpush", "unifiedpush": self = .push(try PushSubscription(row, addresses))
        case "ntfy":
            let topic = try Self.text(row, "topic")
            // ntfy's own rule for topics.
            guard topic.utf8.count <= 64, topic.urlSafe(limit: 64) == topic else { throw .topic }
            self = .ntfy(topic: topic, server: row.child("server").exists ? try Self.text(row, "server") : nil)
        case "email":
            guard let address = MailAddress(try Self.text(row, "address")) else { throw .address }
            self = .email(address)
        case "webhook": self = .webhook(name: try Self.text(row, "name"), row: row)
        case let kind: throw .kind(String(printable: kind.utf8, limit: 32))
        }
    }

    /// A member that must be a text of 1 to 2,048 bytes.
    static func text(_ row: Node, _ name: String) throws(DeviceFault) -> String {
        let member = row.child(Key(name))
        guard member.exists else { throw .missing(name) }
        guard case .string(let text) = member.leaf, !text.string.isEmpty else { throw .noText(name) }
        guard text.utf8Count <= 2_048 else { throw .tooLong(name) }
        return text.string
    }
}

/// A subscription to a push service (RFC 8030 §2), as `PushSubscription.toJSON()` gives it in a browser.
public struct PushSubscription: Sendable {
    /// The endpoint; whoever knows it and the keys can send.
    let endpoint: CurlURL
    /// The public key of the device, on P-256.
    let key: PublicKey
    /// The secret that authenticates the sender, 16 bytes.
    let authentication: SecretBytes
    /// Whether the device shows the message itself, without a service worker.
    let isDeclarative: Bool

    init(_ row: Node, _ addresses: AddressGuard) throws(DeviceFault) {
        guard let endpoint = CurlURL(try Device.text(row, "endpoint")) else { throw .endpoint }
        guard addresses.permitsScheme(of: endpoint) else { throw .notSecure }
        let keys = row.child("keys")
        guard keys.exists else { throw .missing("keys") }
        let point = try Self.bytes(keys, "p256dh", count: 65)
        do throws(CryptographyError) { key = try PublicKey(point: point) } catch { throw .keyNotOnCurve }
        authentication = SecretBytes(try Self.bytes(keys, "auth", count: 16))
        self.endpoint = endpoint
        isDeclarative = row.child("declarative").leaf == true
    }

    /// Bytes in base64 with the URL alphabet; padding is accepted, because some Android libraries add it.
    private static func bytes(_ keys: Node, _ name: String, count: Int) throws(DeviceFault) -> [UInt8] {
        var text = try Device.text(keys, name)[...]
        while text.last == "=" { text.removeLast() }
        guard let bytes = Base64.decodeURL(text) else { throw .keyText(name) }
        guard bytes.count == count else { throw .keyLength(name, is: bytes.count, expected: count) }
        return bytes
    }
}

/// Why a row of devices cannot be used. The texts contain nothing of the row except the name of its kind.
public enum DeviceFault: Error, Sendable, Equatable, CustomStringConvertible {
    case noObject
    case kind(String)
    case missing(String)
    case noText(String)
    case tooLong(String)
    case endpoint
    case notSecure
    case keyText(String)
    case keyLength(String, is: Int, expected: Int)
    case keyNotOnCurve
    case topic
    case address

    public var description: String {
        switch self {
        case .noObject: "the device is not an object"
        case .kind(let kind): "there is no kind \"\(kind)\"; there are webpush, unifiedpush, ntfy, email and webhook"
        case .missing(let name): "the device has no \"\(name)\""
        case .noText(let name): "\"\(name)\" is not a text"
        case .tooLong(let name): "\"\(name)\" has more than 2,048 bytes"
        case .endpoint: "\"endpoint\" is not an absolute URL without user name, spaces and non-ASCII letters"
        case .notSecure: "\"endpoint\" does not begin with https://"
        case .keyText(let name): "\"\(name)\" is not base64 with - and _"
        case .keyLength(let name, let count, let expected): "\"\(name)\" has \(count) bytes instead of \(expected)"
        case .keyNotOnCurve: "\"p256dh\" is not a public key on the curve P-256"
        case .topic: "\"topic\" has characters other than letters, digits, - and _, or more than 64"
        case .address: "\"address\" is not a mail address that mail servers accept without encoding"
        }
    }
}
