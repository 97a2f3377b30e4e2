import Cryptography
import Curl
import JSONTree

/// Requests to push services (RFC 8030 §5): a body that only the device can read (RFC 8291), with `TTL` until the notification expires,
/// `Urgency` `high` or `normal`, `Topic` by which a later message replaces an undelivered one, and the hub's token (RFC 8292).
enum WebPushRequest {
    /// - Parameters:
    ///   - signer: names this hub.
    ///   - site: where a tap leads without a URL in the notification, for devices that show messages themselves; nil: they need one.
    ///   - now: ms since the epoch.
    /// - Throws: for a notification without a title, or without a URL where one is needed, or if libcrypto refuses.
    static func make(
        _ notification: Notification, for subscription: PushSubscription, _ signer: VAPIDSigner, site: String? = nil, now: Int64
    ) throws(RequestFault) -> OutboundRequest {
        var notification = notification
        if subscription.isDeclarative { notification.url = try link(of: notification, site) }
        let message = try PushMessage(notification).bytes(limit: WebPushEncryption.maxBytes)
        let (body, authorization): ([UInt8], String)
        do throws(CryptographyError) {
            body = try WebPushEncryption.encrypt(
                message, for: subscription, ephemeral: PrivateKey.make(.p256), salt: SecureRandom.bytes(16))
            authorization = try signer.authorization(for: subscription.endpoint.origin, now: now)
        } catch { throw RequestFault("the message cannot be encrypted: \(error)") }
        var fields = [
            ("TTL", String(notification.lifeSeconds(now: now))),
            ("Urgency", notification.isUrgent ? "high" : "normal"),
            ("Content-Encoding", "aes128gcm"),
            // Tells a device that understands it that no service worker is needed.
            ("Content-Type", subscription.isDeclarative ? "application/notification+json" : "application/octet-stream"),
            ("Authorization", authorization),
        ]
        if let tag = notification.tag { fields.append(("Topic", tag.urlSafe(limit: 32))) }
        return OutboundRequest(.push, subscription.endpoint, fields: fields.map { (name: $0.0, value: $0.1) }, body: body)
    }

    /// The declarative form requires `navigate`: browsers ignore messages without it.
    static func link(of notification: Notification, _ site: String?) throws(RequestFault) -> String {
        if let url = notification.url, CurlURL(url) != nil { return url }
        guard let site else {
            throw RequestFault("the device shows messages itself: it needs an http or https URL, in the notification or as \"site\"")
        }
        return site + "/"
    }
}

/// The text inside a push message. It is in the declarative form of the Push API, which Safari shows by itself; service workers of other
/// browsers read the same members:
///
///     {"web_push": 8030,
///      "notification": {"title": "…", "body": "…", "navigate": "https://…", "tag": "…", "lang": "el", "silent": true,
///                       "data": {"id": "…", "url": "…"}},
///      "app_badge": 3}
struct PushMessage {
    private let notification: Notification

    init(_ notification: Notification) { self.notification = notification }

    /// The message; body, then title are cut until it fits.
    /// - Throws: without a title, or if the other members alone are too long.
    func bytes(limit: Int) throws(RequestFault) -> [UInt8] {
        guard !notification.title.isEmpty else { throw RequestFault("the notification has no title") }
        let bare = value(title: "", body: "").bytes.count
        guard bare < limit else { throw RequestFault("the notification's id, tag and URL have \(bare) bytes; \(limit) fit into a message") }
        let title = notification.title.cut(toEscapedBytes: min(1_000, limit - bare))
        let rest = limit - bare - title.escapedBytes
        return value(title: title, body: notification.body.cut(toEscapedBytes: rest)).bytes
    }

    private func value(title: String, body: String) -> JSONValue {
        var shown: [JSONValue.Member] = []
        shown.add("title", title)
        shown.add("body", .string(body))
        shown.add("navigate", notification.url)
        shown.add("tag", notification.tag)
        shown.add("lang", notification.language)
        if notification.isSilent { shown.add("silent", .bool(true)) }
        if notification.isUrgent { shown.add("requireInteraction", .bool(true)) }
        var data = [JSONValue.Member("id", .string(notification.id))]
        data.add("url", notification.url)
        shown.add("data", .object(data))
        var message: [JSONValue.Member] = [.init("web_push", 8030), .init("notification", .object(shown))]
        if let badge = notification.badge { message.add("app_badge", .int(Int64(max(0, badge)))) }
        return .object(message)
    }
}

extension String {
    /// The number of bytes inside a JSON text.
    var escapedBytes: Int { JSONValue.string(self).bytes.count - 2 }

    /// As `cut(toBytes:)`, by the bytes inside a JSON text, where some characters take six.
    func cut(toEscapedBytes limit: Int) -> String {
        // The common case, and one that bounds the search by the limit, not by the text.
        var text = utf8.count > limit ? cut(toBytes: max(0, limit)) : self
        while !text.isEmpty, text.escapedBytes > limit {
            text = cut(toBytes: text.utf8.count - max(1, (text.escapedBytes - limit) / 6))
        }
        return text
    }
}
