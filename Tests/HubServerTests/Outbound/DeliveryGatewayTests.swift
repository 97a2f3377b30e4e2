import Cryptography
import HubEngine
import JSONTree
import Mail
import Outbound
import Synchronization
import TestEndpoint
import TestSupport
import Testing

@testable import HubServer

/// The engine's deliveries, from a row to a real endpoint and back.
@Suite(.timeLimit(.minutes(30))) struct DeliveryGatewayTests {
    @Test func notification_isEncrypted_forAPushService() async throws {
        let endpoint = try TestEndpoint()
        let gateway = try Gateway(key: .make())
        var notification = Samples.notification
        (notification.isUrgent, notification.expiresAt) = (true, gateway.clock.ms + 60_000)
        #expect(try await gateway.send(
            .notification(notification, row: Samples.pushRow(endpoint), path: Path("/devices/ana/d1"))) == .delivered)
        let request = try #require(endpoint.requests.first)
        #expect(request.path == "/p" && request.fields["content-encoding"] == "aes128gcm")
        #expect(request.fields["ttl"] == "60" && request.fields["urgency"] == "high" && request.fields["topic"] == "lunch")
        let key = try #require(gateway.gateway.applicationServerKey)
        let authorization = try #require(request.fields["authorization"])
        #expect(authorization.hasPrefix("vapid t=") && authorization.hasSuffix("k=\(key)"))
        #expect(request.body.firstRange(of: Array("Lunch".utf8)) == nil && request.body.count > 86)
    }

    @Test func notification_isSent_toNtfyAndWebhooks() async throws {
        let endpoint = try TestEndpoint()
        let gateway = try Gateway { configuration in
            configuration.ntfyServers = ["home": try NtfyServer(url: endpoint.url(), isPrivate: true)]
            configuration.webhooks = ["sms": try Samples.webhook(endpoint, acceptsDevices: true)]
        }
        let notification = Samples.notification
        #expect(try await gateway.send(
            .notification(notification, row: ["kind": "ntfy", "topic": "alerts"], path: Path("/devices/ana/d1"))) == .delivered)
        for device in ["d2", "d3"] {
            let row: Node = ["kind": "webhook", "name": "sms", "number": "+30 210"]
            #expect(try await gateway.send(
                .notification(notification, row: row, path: Path(parsing: "/devices/ana/\(device)"))) == .delivered)
        }
        let requests = endpoint.requests
        #expect(requests.count == 3)
        #expect(String(decoding: requests[0].body, as: UTF8.self).contains("Lunch"))
        let body = try JSONValue(requests[1].body)
        #expect(body["notification"]?["title"] == "Lunch" && body["notification"]?["urgent"] == false)
        #expect(body["device"]?["number"] == "+30 210")
        // One message for two devices: the receiver must not take the second for a repetition.
        #expect(requests[1].fields["vigla-delivery"] != requests[2].fields["vigla-delivery"])
    }

    @Test func event_isSentWithItsId() async throws {
        let endpoint = try TestEndpoint()
        let gateway = try Gateway { $0.webhooks = ["site": try Samples.webhook(endpoint, acceptsDevices: false)] }
        let event: Node = ["path": "/feedback/f1", "before": .null, "after": ["text": "Καλημέρα"], "seq": 42, "at": 1_790_000_000_000]
        for _ in 0..<2 { #expect(try await gateway.send(.event(id: "e-1", webhook: "site", event)) == .delivered) }
        let requests = endpoint.requests
        #expect(requests.map { $0.fields["vigla-delivery"] } == ["e-1", "e-1"])
        #expect(requests[0].fields["vigla-signature"]?.hasPrefix("t=1790000000,v1=") == true)
        let body = try JSONValue(requests[0].body)
        #expect(body["type"] == "event" && body["event"]?["path"] == "/feedback/f1" && body["event"]?["seq"] == 42)
        #expect(body["event"]?["after"]?["text"] == "Καλημέρα")
    }

    @Test func mails_areSent_oneByOneOrTogether() async throws {
        let mail = RecordedMail()
        let gateway = try Gateway(mail: mail) { try $0.set(site: "https://app.example") }
        let row: Node = ["kind": "email", "address": "ana@example.org"]
        let (first, path) = (Samples.notification, Path("/devices/ana/d1"))
        var second = first
        (second.id, second.title) = ("n-2", "Dinner")
        #expect(try await gateway.send(.notification(first, row: row, path: path)) == .delivered)
        #expect(try await gateway.send(.digest([first, second], row: row, path: path)) == .delivered)
        let messages = mail.messages.withLock { $0 }
        #expect(messages.map(\.to.text) == ["ana@example.org", "ana@example.org"] && messages[0].subject == "Lunch")
        #expect(messages[0].text.contains("https://app.example/n/1"))
        #expect(messages[1].text.contains("Lunch") && messages[1].text.contains("Dinner"))
    }

    @Test func answers_becomeResults() async throws {
        let endpoint = try TestEndpoint { request in
            .text("HTTP/1.1 \(request.path.dropFirst()) x\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n")
        }
        let gateway = try Gateway(key: .make())
        let path = Path("/devices/ana/d1")
        for (status, result) in [
            (201, DeliveryResult.delivered), (410, .gone), (404, .gone), (503, .later(afterMs: 7_000, reason: "answered 503")),
            (400, .refused(reason: "answered 400")),
        ] {
            #expect(try await gateway.send(
                .notification(Samples.notification, row: Samples.pushRow(endpoint, "/\(status)"), path: path)) == result)
        }
        let counts = gateway.gateway.counts
        #expect(counts.attempts.filter { $0.count > 0 }.map { "\($0.kind) \($0.outcome) \($0.count)" } == [
            "push delivered 1", "push gone 2", "push later 1", "push refused 1",
        ])
        #expect(counts.active == 0)
    }

    @Test func faultyDeliveries_areRefused_withTheReason() async throws {
        let endpoint = try TestEndpoint()
        let gateway = try Gateway { $0.webhooks = ["site": try Samples.webhook(endpoint, acceptsDevices: false)] }
        let (notification, path) = (Samples.notification, Path("/devices/ana/d1"))
        let email: Node = ["kind": "email", "address": "ana@example.org"], ntfy: Node = ["kind": "ntfy", "topic": "alerts"]
        for (delivery, reason) in [
            (OutgoingDelivery.notification(notification, row: .null, path: path), "the device is not an object"),
            (.notification(notification, row: ["kind": "pigeon"], path: path), #"there is no kind "pigeon""#),
            (.notification(notification, row: ntfy, path: path), "no ntfy server is configured"),
            (.notification(notification, row: email, path: path), "no mail server is configured"),
            (.notification(notification, row: try Samples.pushRow(endpoint), path: path), "Web Push is off"),
            (.notification(notification, row: ["kind": "webhook", "name": "site"], path: path), "does not accept devices"),
            (.notification(notification, row: ["kind": "webhook", "name": "x"], path: path), "there is no webhook of this name"),
            (.digest([notification], row: ntfy, path: path), "only devices of the kind email"),
            (.event(id: "e", webhook: "x", 1), "there is no webhook of this name"),
            (.event(id: "e", webhook: "site", .string(String(repeating: "x", count: 1 << 20))), "at most 1048576 are sent"),
        ] {
            let result = try await gateway.send(delivery)
            guard case .refused(let text) = result else { Issue.record("\(reason): \(result)"); continue }
            #expect(text.contains(reason))
        }
        #expect(endpoint.connections == 0)
        // Without a mail server there was an attempt; the others were none.
        let counts = gateway.gateway.counts
        #expect(counts.attempts.filter { $0.count > 0 }.map { "\($0.kind) \($0.outcome) \($0.count)" } == ["email refused 1"])
        #expect(counts.active == 0 && counts.preparing == 0)
    }

    @Test func capacity_countsWhatIsBeingPrepared_andIsNoneAfterClose() async throws {
        let endpoint = try TestEndpoint { _ in .silence }
        let gateway = try Gateway { $0.webhooks = ["site": try Samples.webhook(endpoint, acceptsDevices: false)] }
        let all = gateway.gateway.capacity
        let results = Mutex<[DeliveryResult]>([])
        for i in 1...20 {
            gateway.gateway.send(.event(id: "e-\(i)", webhook: "site", 1)) { result in results.withLock { $0.append(result) } }
            #expect(gateway.gateway.capacity == all - i)
        }
        #expect(await becomes { endpoint.requests.count == 20 })
        #expect(gateway.gateway.counts.active == 20)
        gateway.gateway.close()
        #expect(await becomes { results.withLock { $0.count } == 20 })
        #expect(results.withLock { $0 }.allSatisfy { $0 == .later(afterMs: nil, reason: "the hub is stopping") })
        #expect(gateway.gateway.capacity == 0)
        #expect(try await gateway.send(.event(id: "e", webhook: "site", 1)) == .notAttempted(reason: "the hub is stopping"))
    }
}

/// A gateway, by a clock of its own.
private struct Gateway {
    let clock = FakeClock()
    let gateway: DeliveryGateway

    init(
        key: VAPIDKey? = nil, mail: (any MailTransport)? = nil,
        _ change: (inout OutboundConfiguration) throws -> Void = { _ in }
    ) throws {
        var configuration = OutboundConfiguration()
        try configuration.set(subject: "mailto:ops@example.org")
        try configuration.set(privateHosts: ["127.0.0.1"])
        try change(&configuration)
        gateway = DeliveryGateway(configuration, key: key, mail: mail, scheduler: clock.scheduler)
    }

    /// A second completion would trap.
    func send(_ delivery: OutgoingDelivery) async throws -> DeliveryResult {
        await withCheckedContinuation { continuation in gateway.send(delivery) { continuation.resume(returning: $0) } }
    }
}

private enum Samples {
    static let notification = OutgoingNotification(
        id: "n-1", title: "Lunch", body: "at one", url: "/n/1", tag: "lunch", isUrgent: false, language: "en", expiresAt: nil)

    static func pushRow(_ endpoint: TestEndpoint, _ path: String = "/p") throws -> Node {
        let point = try #require(try PrivateKey.make(.p256).publicKey.point)
        return [
            "kind": "webpush", "endpoint": .string(endpoint.url(path)),
            "keys": ["p256dh": .string(Base64.encodeURL(point)), "auth": .string(Base64.encodeURL([UInt8](repeating: 7, count: 16)))],
        ]
    }

    static func webhook(_ endpoint: TestEndpoint, acceptsDevices: Bool) throws -> Webhook {
        try Webhook(url: endpoint.url("/hook"), secret: "a secret of the test", isPrivate: true, acceptsDevices: acceptsDevices)
    }
}

private final class RecordedMail: MailTransport {
    let messages = Mutex<[Message]>([])
    func deliver(_ message: Message) async throws(MailFault) { messages.withLock { $0.append(message) } }
}
