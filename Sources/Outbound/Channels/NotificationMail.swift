import Curl
import JSONTree
import Mail

/// Mails for notifications: one for each, or a digest of several.
enum NotificationMail {
    /// Longer texts are cut: mail servers accept more, but a reader does not.
    static let subjectBytes = 300, textBytes = 64_000
    /// Most notifications in a digest; further ones are counted.
    static let digestCount = 100

    /// - Throws: without title and body.
    static func message(_ notification: Notification, to address: MailAddress) throws(RequestFault) -> Message {
        let subject = notification.title.isEmpty ? notification.body : notification.title
        guard !subject.isEmpty else { throw RequestFault("the notification has neither title nor body") }
        return message(subject: subject, [notification], ids: [notification.id], notification.language, to: address)
    }

    /// One mail with several notifications, in their order. Its language is theirs if they agree, else English.
    /// - Throws: without any.
    static func digest(_ notifications: [Notification], to address: MailAddress) throws(RequestFault) -> Message {
        guard let first = notifications.first else { throw RequestFault("the digest is empty") }
        guard notifications.count > 1 else { return try message(first, to: address) }
        let language = notifications.allSatisfy { $0.language == first.language } ? first.language : nil
        let subject = switch language.flatMap({ Language(tag: $0) }) ?? .english {
        case .english: "\(notifications.count) notifications"
        case .greek: "\(notifications.count) ειδοποιήσεις"
        }
        return message(
            subject: subject, Array(notifications.prefix(digestCount)), ids: notifications.map(\.id), language, to: address,
            isList: true)
    }

    private static func message(
        subject: String, _ notifications: [Notification], ids: [String], _ language: String?, to address: MailAddress, isList: Bool = false
    ) -> Message {
        let room = textBytes / notifications.count
        var (texts, html) = ([String](), "")
        for notification in notifications {
            let (body, link) = (notification.body.cut(toBytes: room), link(notification))
            let title = notification.title.cut(toBytes: subjectBytes)
            texts.append([isList ? title : "", body, link ?? ""].filter { !$0.isEmpty }.joined(separator: "\n\n"))
            html += section(title: title, body: body, link: link)
        }
        return Message(
            kind: nil, id: String.id(of: ids + [address.text]), language: language, to: address,
            subject: subject.cut(toBytes: subjectBytes),
            text: texts.joined(separator: "\n\n---\n\n") + "\n", html: page(html), link: isList ? nil : notifications.first.flatMap(link))
    }

    /// Other addresses than those of web pages are not links: `javascript:` is one, too.
    private static func link(_ notification: Notification) -> String? {
        notification.url.flatMap { CurlURL($0) == nil ? nil : $0 }
    }

    private static func section(title: String, body: String, link: String?) -> String {
        let lines = HTMLText.escape(body).split(separator: "\n", omittingEmptySubsequences: false).joined(separator: "<br>\n")
        let heading = HTMLText.escape(title.isEmpty ? link ?? "" : title)
        let linked = link.map { "<a href=\"\(HTMLText.escape($0))\">\(heading)</a>" } ?? heading
        return "<p style=\"margin:0 0 8px;font-size:18px;font-weight:600\">\(linked)</p>\n<p style=\"margin:0 0 24px\">\(lines)</p>\n"
    }

    private static func page(_ sections: String) -> String {
        """
        <!doctype html>
        <html>
        <head><meta charset="utf-8"><meta name="viewport" content="width=device-width">\
        <meta name="color-scheme" content="light dark"></head>
        <body style="margin:0;padding:32px 16px;font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;\
        font-size:16px;line-height:24px">
        <div style="max-width:520px;margin:0 auto">
        \(sections)</div>
        </body>
        </html>

        """
    }
}
