import Cryptography
import JSONTree

/// Signed requests to other programs:
///
///     Vigla-Delivery: n-8Kq2                           the same for each attempt
///     Vigla-Signature: t=1790000000,v1=5f0c…           seconds of this attempt; HMAC in lower-case hexadecimal
///
/// `v1` is HMAC-SHA256 with the webhook's secret over `1790000000.n-8Kq2.` and the bytes of the body. Receivers verify the bytes as they
/// arrived, compare in constant time, refuse a time that is more than five minutes away, and answer 200 to an id that they know.
/// Tests/Push runs this:
///
/// ```python
/// import hashlib, hmac, time
///
/// def is_genuine(secret, headers, body):
///     parts = dict(part.split("=", 1) for part in headers["Vigla-Signature"].split(","))
///     signed = f"{parts['t']}.{headers['Vigla-Delivery']}.".encode() + body
///     expected = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
///     return hmac.compare_digest(expected, parts["v1"]) and abs(time.time() - int(parts["t"])) < 300
/// ```
///
/// Bodies:
///
///     {"type": "notification", "notification": {"id": "n-1", "title": "Lunch", "body": "at one", …}, "device": {"kind": "webhook", …}}
///     {"type": "event", "event": …}
enum WebhookRequest {
    /// Longer bodies are refused.
    static let bodyBytes = 1 << 20

    /// - Parameters:
    ///   - id: recognises repetitions. Ids other than 1 to 64 letters of the URL-safe base64 alphabet are sent as their hash.
    ///   - body: JSON.
    ///   - now: ms since the epoch.
    /// - Throws: for a body that is too long.
    static func make(
        _ service: OutboundRequest.Service, id: String, body: [UInt8], to webhook: Webhook, now: Int64
    ) throws(RequestFault) -> OutboundRequest {
        guard body.count <= bodyBytes else { throw RequestFault("the body has \(body.count) bytes; at most \(bodyBytes) are sent") }
        let (delivery, seconds) = (id.urlSafe(limit: 64), now / 1000)
        let fields = webhook.fields + [
            ("Content-Type", "application/json"), ("Vigla-Delivery", delivery),
            ("Vigla-Signature", "t=\(seconds),v1=\(signature(seconds: seconds, delivery: delivery, body: body, webhook.secret))"),
        ]
        return OutboundRequest(
            service, webhook.url, fields: fields, body: body, mayBePrivate: webhook.isPrivate, timeoutMs: webhook.timeoutMs)
    }

    static func signature(seconds: Int64, delivery: String, body: [UInt8], _ secret: SecretBytes) -> String {
        let code = HashFunction.sha256.authenticationCode(of: Array("\(seconds).\(delivery).".utf8) + body, key: secret)
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: code.copy.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }

    /// The body for an event, which is JSON. `type` is signed with it: a row of a device, which a user writes, cannot pass for an event.
    static func body(event: [UInt8]) -> [UInt8] { Array("{\"type\":\"event\",\"event\":".utf8) + event + [0x7D] }

    /// The body for a notification: its members, and the device's row.
    static func body(_ notification: Notification, device: Node) -> [UInt8] {
        var members: [JSONValue.Member] = []
        members.add("id", notification.id)
        members.add("title", notification.title)
        members.add("body", notification.body)
        members.add("url", notification.url)
        members.add("tag", notification.tag)
        members.add("urgent", .bool(notification.isUrgent))
        members.add("silent", .bool(notification.isSilent))
        members.add("language", notification.language)
        members.add("badge", notification.badge.map { .int(Int64($0)) })
        if !notification.labels.isEmpty { members.add("labels", .array(notification.labels.map { .string($0) })) }
        members.add("expires", notification.expiresAt.map { .int($0) })
        var writer = JSONWriter()
        writer.raw("{\"type\":\"notification\",\"notification\":")
        JSONValue.object(members).write(to: &writer)
        writer.raw(",\"device\":")
        writer.node(device)
        writer.raw("}")
        return writer.bytes
    }
}
