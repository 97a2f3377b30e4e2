import Curl
import JSONTree

/// Publishing to a topic of an ntfy server, in its JSON form (docs.ntfy.sh/publish): header fields could carry
/// ASCII only.
///
///     {"topic": "alerts-x8Kq", "title": "Lunch", "priority": 3, "tags": ["food"], "click": "https://app.example/n/1",
///      "sequence_id": "lunch", "message": "at one"}
enum NtfyRequest {
    /// ntfy turns longer messages into attachments.
    static let messageBytes = 4_000
    static let titleBytes = 250
    /// Servers read twice the length of a message, with what JSON escapes.
    static let bodyBytes = 8_192

    /// - Throws: without title and body, or for a topic that devices may not name.
    static func make(_ notification: Notification, topic: String, _ server: NtfyServer) throws(RequestFault) -> OutboundRequest {
        if let prefix = server.topicPrefix, !topic.hasPrefix(prefix) {
            throw RequestFault("the configuration allows topics on this ntfy server that begin with \"\(prefix)\" only")
        }
        // ntfy replaces an empty message by a word of its own.
        let hasBody = !notification.body.isEmpty
        let message = hasBody ? notification.body : notification.title
        guard !message.isEmpty else { throw RequestFault("the notification has neither title nor body") }
        var members: [JSONValue.Member] = [.init("topic", .string(topic))]
        if hasBody, !notification.title.isEmpty {
            members.add("title", notification.title.cut(toBytes: titleBytes).cut(toEscapedBytes: 2 * titleBytes))
        }
        // 5 rings until it is seen, 2 makes no sound.
        members.add("priority", notification.isUrgent ? 5 : notification.isSilent ? 2 : 3)
        if !notification.labels.isEmpty {
            members.add("tags", .array(notification.labels.prefix(10).map { .string($0.cut(toEscapedBytes: 64)) }))
        }
        // Paths are whole addresses by now. Phones would open others, such as `javascript:` or those of any app.
        if let url = notification.url, CurlURL(url) != nil, url.escapedBytes <= 2_048 { members.add("click", url) }
        // From ntfy 2.16 on, a message with the same id replaces the earlier one, also when it is a repetition.
        members.add("sequence_id", (notification.tag ?? notification.id).urlSafe(limit: 64))
        let room = bodyBytes - JSONValue.object(members).bytes.count - ",\"message\":\"\"".utf8.count
        members.add("message", message.cut(toBytes: messageBytes).cut(toEscapedBytes: room))
        var fields = [(name: "Content-Type", value: "application/json")]
        // The topic is a user's choice: without a prefix, the operator's token would open every topic of the server to every user.
        if let token = server.token, server.topicPrefix != nil { fields.append(("Authorization", "Bearer \(token)")) }
        return OutboundRequest(.ntfy, server.url, fields: fields, body: JSONValue.object(members).bytes, mayBePrivate: server.isPrivate)
    }
}
