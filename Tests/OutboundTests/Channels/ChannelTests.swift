import Cryptography
import Curl
import JSONTree
import Mail
import Testing

@testable import Outbound

/// Deliveries of one notification over each channel.
struct ChannelTests {
    private func configuration(_ change: (inout OutboundConfiguration) throws -> Void = { _ in }) throws -> OutboundConfiguration {
        var configuration = OutboundConfiguration()
        try configuration.set(subject: "mailto:ops@example.org")
        try configuration.set(site: "https://app.example")
        configuration.ntfyServers = ["home": try NtfyServer(url: "https://ntfy.example", token: "tk_1", topicPrefix: "t")]
        configuration.webhooks = ["sms": try Webhook(
            url: "https://sms.example/send", secret: "0123456789abcdef", fields: [("X-App", "a")], acceptsDevices: true)]
        try change(&configuration)
        return configuration
    }

    private func request(
        _ notification: Notification, _ row: Node, _ configuration: OutboundConfiguration, key: String = "devices/ana/1"
    ) throws -> OutboundRequest {
        let channels = OutboundChannels(configuration, key: try VAPIDKey.make())
        return try #require(
            channels.delivery(of: notification, to: Device(row, addresses: AddressGuard()), key: key, now: Samples.now).request)
    }

    @Test func ntfy_publishesJSON() throws {
        var notification = Samples.notification()
        notification.isUrgent = true
        notification.labels = ["warning", "παρέα"]
        let request = try request(notification, ["kind": "ntfy", "topic": "t1"], configuration())
        #expect(request.url.text == "https://ntfy.example/" && request.field("Authorization") == "Bearer tk_1")
        #expect(try JSONValue(request.body) == [
            "topic": "t1", "title": "Lunch", "priority": 5, "tags": ["warning", "παρέα"], "click": "https://app.example/n/1",
            "sequence_id": "lunch", "message": "at one",
        ])
        var bare = Notification(id: "an id", title: "Only a title", url: "/n/7", isSilent: true)
        #expect(try JSONValue(self.request(bare, ["kind": "ntfy", "topic": "t1"], configuration()).body) == [
            "topic": "t1", "priority": 2, "click": "https://app.example/n/7",
            "sequence_id": .string("an id".urlSafe(limit: 64)), "message": "Only a title",
        ])
        bare.title = ""
        #expect(throws: RequestFault.self) { try self.request(bare, ["kind": "ntfy", "topic": "t1"], configuration()) }
    }

    @Test func ntfyTexts_areCut() throws {
        let long = Samples.notification(title: String(repeating: "α", count: 500), body: String(repeating: "β", count: 5_000))
        let body = try JSONValue(request(long, ["kind": "ntfy", "topic": "t1"], configuration()).body)
        #expect(body["title"]?.string.map { 247...250 ~= $0.utf8.count && $0.hasSuffix("…") } == true)
        #expect(body["message"]?.string.map { 3_997...4_000 ~= $0.utf8.count && $0.hasSuffix("…") } == true)
    }

    @Test func ntfyBody_isBounded_whateverIsEscaped() throws {
        var notification = Samples.notification(
            title: String(repeating: "\u{1}", count: 900), body: String(repeating: "\u{2}\"", count: 9_000))
        notification.labels = (0..<20).map { "\($0)" + String(repeating: "\u{3}", count: 90) }
        notification.url = "https://app.example/" + String(repeating: "a", count: 2_028)
        let bytes = try request(notification, ["kind": "ntfy", "topic": "t1"], configuration()).body
        let body = try JSONValue(bytes)
        #expect(8_180...8_192 ~= bytes.count && body["click"]?.string == notification.url)
        notification.url? += "a"
        #expect(try JSONValue(request(notification, ["kind": "ntfy", "topic": "t1"], configuration()).body)["click"] == nil)
    }

    @Test func ntfyClick_isAWebAddress() throws {
        let cases: [(String, String?)] = [
            ("https://a.example/x", "https://a.example/x"), ("/n/1", "https://app.example/n/1"), ("javascript:alert(1)", nil), ("n/1", nil),
            ("//evil.example/", nil), ("intent://x", nil), ("", nil),
        ]
        for (url, click) in cases {
            let notification = Notification(id: "1", title: "x", url: url)
            let body = try JSONValue(request(notification, ["kind": "ntfy", "topic": "t1"], configuration()).body)
            #expect(body["click"]?.string == click, "\(url)")
        }
        var configuration = OutboundConfiguration()
        configuration.ntfyServers = ["home": try NtfyServer(url: "https://ntfy.example")]
        let bare = try request(Notification(id: "1", title: "x", url: "/n/1"), ["kind": "ntfy", "topic": "t1"], configuration)
        #expect(try JSONValue(bare.body)["click"] == nil)
    }

    @Test func declarativePush_needsAnAddress() throws {
        let fixed = Notification(id: "1", title: "x", url: "/n/1"), bare = Notification(id: "1", title: "x")
        for notification in [fixed, bare] { _ = try request(notification, Samples.pushRow(declarative: true), configuration()) }
        var configuration = OutboundConfiguration()
        try configuration.set(subject: "mailto:ops@example.org")
        for notification in [fixed, bare] {
            #expect(throws: RequestFault.self) { try request(notification, Samples.pushRow(declarative: true), configuration) }
            #expect(try WebPushRequest.link(of: notification, "https://app.example") == "https://app.example/")
            // A service worker decides itself where a tap leads.
            _ = try request(notification, Samples.pushRow(), configuration)
        }
    }

    @Test func ntfyServer_isChosenByName() throws {
        func url(_ row: Node, _ change: (inout OutboundConfiguration) throws -> Void) -> String? {
            try? request(Samples.notification(), row, configuration(change)).url.host
        }
        let (bare, named): (Node, Node) = (["kind": "ntfy", "topic": "t"], ["kind": "ntfy", "topic": "t", "server": "work"])
        #expect(url(bare) { $0.ntfyServers = [:] } == nil)
        #expect(url(bare) { _ in } == "ntfy.example")
        #expect(url(named) { _ in } == nil)
        let work: (inout OutboundConfiguration) throws -> Void = { $0.ntfyServers["work"] = try NtfyServer(url: "https://work.example") }
        #expect(url(bare, work) == nil)
        #expect(url(named, work) == "work.example")
        #expect(url(bare) { try work(&$0); $0.ntfyServers["default"] = try NtfyServer(url: "https://first.example") } == "first.example")
    }

    @Test func webhook_isSignedOverTimeIdAndBody() throws {
        let row: Node = ["kind": "webhook", "name": "sms", "number": "+30 1"]
        let request = try request(Samples.notification(), row, configuration())
        #expect(request.url.text == "https://sms.example/send" && request.field("X-App") == "a" && request.timeoutMs == 10_000)
        let id = try #require(request.field("Vigla-Delivery"))
        #expect(request.field("Content-Type") == "application/json" && id.utf8.count == 32 && id.urlSafe(limit: 64) == id)
        let signed = Array("1790000000.\(id).".utf8) + request.body
        let code = HashFunction.sha256.authenticationCode(of: signed, key: SecretBytes(Array("0123456789abcdef".utf8))).copy
        let digits = code.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        #expect(request.field("Vigla-Signature") == "t=1790000000,v1=\(digits)")
        let body = try JSONValue(request.body)
        #expect(body["type"] == "notification" && body["device"]?["number"] == "+30 1")
        #expect(body["notification"] == [
            "id": "n-1", "title": "Lunch", "body": "at one", "url": "https://app.example/n/1", "tag": "lunch", "urgent": false,
            "silent": false, "language": "en", "badge": 3,
        ])
        #expect(throws: RequestFault.self) {
            try self.request(Samples.notification(), ["kind": "webhook", "name": "other"], configuration())
        }
    }

    @Test func deliveryID_isTheSameForEachAttempt_andDiffersForEachDevice() throws {
        func id(_ notification: String, _ key: String, _ row: Node = ["kind": "webhook", "name": "sms"]) throws -> String? {
            try request(Notification(id: notification, title: "x"), row, configuration(), key: key).field("Vigla-Delivery")
        }
        #expect(try id("n-1", "ana/1") == id("n-1", "ana/1", ["kind": "webhook", "name": "sms", "seen": 7]))
        #expect(try Set([id("n-1", "ana/1"), id("n-1", "ana/2"), id("n-1", "ben/1"), id("n-2", "ana/1"), id("n-1a", "na/1")]).count == 5)
    }

    @Test func webhookBody_has1MiBAtMost() throws {
        let channels = OutboundChannels(try configuration(), key: nil)
        let longest = [0x37] + [UInt8](repeating: 0x20, count: (1 << 20) - #"{"type":"event","event":7}"#.utf8.count)
        let delivery = try channels.webhook(named: "sms", id: "a.b", event: longest, now: Samples.now)
        let request = try #require(delivery.request)
        #expect(request.body.count == 1 << 20 && request.field("Vigla-Delivery") == "a.b".urlSafe(limit: 64))
        #expect(try JSONValue(request.body) == ["type": "event", "event": 7])
        #expect(throws: RequestFault.self) { try channels.webhook(named: "sms", id: "1", event: longest + [0x20], now: Samples.now) }
    }

    /// Any user may write a row of devices, so a row must not reach what the operator made for the hub's own events.
    @Test func webhook_isReachedByDevices_onlyIfItAcceptsThem() throws {
        let configuration = try configuration {
            $0.webhooks["payments"] = try Webhook(url: "https://pay.example/", secret: "0123456789abcdef")
        }
        #expect(throws: RequestFault("the webhook of this name does not accept devices")) {
            try request(Samples.notification(), ["kind": "webhook", "name": "payments"], configuration)
        }
        let channels = OutboundChannels(configuration, key: nil)
        let event = try channels.webhook(named: "payments", id: "1", event: Array("{}".utf8), now: Samples.now)
        #expect(try #require(event.request).url.host == "pay.example")
    }

    @Test func ntfyToken_isSent_forTopicsOfTheDeclaredPrefixOnly() throws {
        func authorization(_ topic: String, token: String?, prefix: String?) throws -> String? {
            let configuration = try configuration {
                $0.ntfyServers = ["home": try NtfyServer(url: "https://ntfy.example", token: token, topicPrefix: prefix)]
            }
            return try request(Samples.notification(), ["kind": "ntfy", "topic": .string(topic)], configuration).field("Authorization")
        }
        #expect(try authorization("users-x", token: "tk_1", prefix: "users-") == "Bearer tk_1")
        #expect(try authorization("admin", token: "tk_1", prefix: nil) == nil)
        for (topic, token) in [("admin", "tk_1"), ("user", "tk_1"), ("admin", nil)] {
            #expect(throws: RequestFault("the configuration allows topics on this ntfy server that begin with \"users-\" only")) {
                try authorization(topic, token: token, prefix: "users-")
            }
        }
    }

    @Test func push_isOff_withoutSubjectOrKey() throws {
        let device = try Device(Samples.pushRow(), addresses: AddressGuard())
        for channels in [OutboundChannels(OutboundConfiguration(), key: try .make()), OutboundChannels(try configuration(), key: nil)] {
            #expect(channels.applicationServerKey == nil)
            #expect(throws: RequestFault.self) { try channels.delivery(of: Samples.notification(), to: device, key: "d", now: Samples.now) }
        }
    }

    @Test func mail_hasTextAndEscapedHTML() throws {
        let address = try #require(MailAddress("ana@example.org"))
        let channels = OutboundChannels(try configuration(), key: nil)
        let notification = Notification(
            id: "1", title: "Ana & <b>", body: "a\n<script>", url: "https://app.example/?a=1&b=\"", language: "de")
        let mail = try #require(channels.delivery(of: notification, to: .email(address), key: "d", now: 0).mail)
        #expect(mail.subject == "Ana & <b>" && mail.language == "de" && mail.kind == nil && mail.to == address)
        #expect(mail.text == "a\n<script>\n\nhttps://app.example/?a=1&b=\"\n")
        #expect(mail.html.contains("Ana &amp; &lt;b&gt;") && mail.html.contains("a<br>\n&lt;script&gt;") && !mail.html.contains("<script>"))
        #expect(mail.html.contains("href=\"https://app.example/?a=1&amp;b=&quot;\""))
        let again = try #require(channels.delivery(of: notification, to: .email(address), key: "d", now: 9).mail)
        #expect(again.id == mail.id && mail.id?.utf8.count == 32)
        var other = notification
        other.id = "2"
        other.url = "javascript:alert(1)"
        let second = try #require(channels.delivery(of: other, to: .email(address), key: "d", now: 9).mail)
        #expect(second.id != mail.id && !second.html.contains("javascript") && second.link == nil)
    }

    @Test func digest_hasEachNotification() throws {
        let address = try #require(MailAddress("ana@example.org"))
        let channels = OutboundChannels(try configuration(), key: nil)
        let greek = (1...3).map {
            Notification(id: "\($0)", title: "Τίτλος \($0)", body: "Κείμενο \($0)", url: "/n/\($0)", language: "el-GR")
        }
        let mail = try #require(channels.digest(of: greek, to: address).mail)
        #expect(mail.subject == "3 ειδοποιήσεις" && mail.language == "el-GR" && mail.link == nil)
        for i in 1...3 {
            #expect(mail.text.contains("Τίτλος \(i)\n\nΚείμενο \(i)\n\nhttps://app.example/n/\(i)"))
            #expect(mail.html.contains("<a href=\"https://app.example/n/\(i)\">Τίτλος \(i)</a>"))
        }
        let one = try #require(channels.digest(of: [greek[0]], to: address).mail)
        #expect(one.subject == "Τίτλος 1")
        let mixed = greek + [Notification(id: "4", title: "x", language: "en")]
        let english = try #require(channels.digest(of: mixed, to: address).mail)
        #expect(english.subject == "4 notifications" && english.language == nil)
        #expect(throws: RequestFault.self) { try channels.digest(of: [], to: address) }
        let many = (1...5_000).map { Notification(id: "\($0)", title: "t\($0)", body: String(repeating: "b", count: 2_000)) }
        let large = try #require(channels.digest(of: many, to: address).mail)
        #expect(large.subject == "5000 notifications" && large.text.utf8.count < 100_000)
        #expect(large.text.contains("t100") && !large.text.contains("t101"))
    }
}
