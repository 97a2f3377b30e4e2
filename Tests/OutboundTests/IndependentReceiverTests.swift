import Cryptography
import Foundation
import JSONTree
import Mail
import Synchronization
import TestSupport
import Testing

@testable import Outbound

/// Deliveries to receivers of other authors, in Python: run by Tests/Push/run, which installs them.
@Suite(.enabled(if: IndependentReceiver.python != nil, "Tests/Push/run installs the receivers"), .timeLimit(.minutes(30)))
struct IndependentReceiverTests {
    @Test func webPush_isDecryptedByHTTPECE_andVerifiedByPyVAPID() async throws {
        let receiver = try IndependentReceiver()
        let harness = try SenderHarness()
        let key = try VAPIDKey.make()
        let channels = OutboundChannels(try receiver.configuration(), key: key)
        let texts = ["at one", "", String(repeating: "Καλημέρα κόσμε 👋 ", count: 400), String(repeating: "x", count: 3_700)]
        for (i, text) in texts.enumerated() {
            let notification = Notification(
                id: "n-\(i)", title: "Γεύμα", body: text, url: "/n/\(i)", tag: "lunch", isUrgent: i == 1, expiresAt: Samples.now + 60_000)
            let device = try Device([
                "kind": .string(i % 2 == 0 ? "webpush" : "unifiedpush"), "endpoint": .string("http://127.0.0.1:\(receiver.http)/push/\(i)"),
                "keys": ["p256dh": .string(receiver.p256dh), "auth": .string(receiver.auth)], "declarative": .bool(i == 1),
            ], addresses: AddressGuard(allowing: ["127.0.0.1"]))
            let now = Int64(Date().timeIntervalSince1970) * 1000
            let id = harness.send(try channels.delivery(of: notification, to: device, key: "d", now: now))
            #expect(try await harness.outcome(id) == .delivered)
            let seen = try receiver.next()
            #expect(seen["kind"] == "push" && seen["isSigned"] == true, "\(seen.json)")
            #expect(seen["path"] == .string("/push/\(i)") && seen["key"] == .string(key.publicText) && seen["topic"] == "lunch")
            #expect(seen["urgency"] == (i == 1 ? "high" : "normal"))
            #expect(seen["type"] == (i == 1 ? "application/notification+json" : "application/octet-stream"))
            #expect(seen["claims"]?["aud"] == .string("http://127.0.0.1:\(receiver.http)"))
            #expect(seen["claims"]?["sub"] == "mailto:ops@example.org")
            let message = try JSONValue(Array(try #require(seen["message"]?.string).utf8))
            let shown = try #require(message["notification"])
            #expect(message["web_push"] == 8030 && shown["title"] == "Γεύμα" && shown["navigate"] == .string("https://app.example/n/\(i)"))
            let body = try #require(shown["body"]?.string)
            #expect(body == text || (body.hasSuffix("…") && text.hasPrefix(body.dropLast())))
            #expect(shown["data"]?["id"] == .string("n-\(i)"))
        }
    }

    @Test func webhook_isVerifiedByTheDocumentsCode() async throws {
        let receiver = try IndependentReceiver()
        let harness = try SenderHarness(allowing: [])
        let channels = OutboundChannels(try receiver.configuration(), key: nil)
        let device = try Device(["kind": "webhook", "name": "sms", "number": "+30 210"], addresses: AddressGuard())
        let now = Int64(Date().timeIntervalSince1970) * 1000
        let id = harness.send(try channels.delivery(of: Samples.notification(), to: device, key: "d", now: now))
        #expect(try await harness.outcome(id) == .delivered)
        let seen = try receiver.next()
        #expect(seen["isSigned"] == true && seen["isForgeryRefused"] == true, "\(seen.json)")
        #expect(seen["delivery"] == .string(String.id(of: ["n-1", "d"])))
        #expect(try JSONValue(Array(try #require(seen["message"]?.string).utf8))["device"]?["number"] == "+30 210")
    }

    @Test func mails_areReadByAiosmtpd() async throws {
        let receiver = try IndependentReceiver()
        let sender = MailSender(try #require(MailAddress("hub@example.org")), name: "Vigla")
        let smtp = try SMTPSettings(url: "smtp://127.0.0.1:\(receiver.mail)", sender: sender, allowsPlaintext: true)
        let harness = try SenderHarness(mail: SMTPTransport(smtp, now: { Samples.now }))
        let channels = OutboundChannels(try receiver.configuration(), key: nil)
        let address = try #require(MailAddress("ana@example.org"))
        let notification = Notification(id: "1", title: "Γεύμα στη μία", body: "Ώρα\nγια φαγητό", url: "/n/1", language: "el")
        for _ in 0..<2 {
            let id = harness.send(try channels.delivery(of: notification, to: .email(address), key: "d", now: Samples.now))
            #expect(try await harness.outcome(id) == .delivered)
        }
        let (first, second) = (try receiver.next(), try receiver.next())
        #expect(first["to"] == ["ana@example.org"] && first["subject"] == "Γεύμα στη μία" && first["language"] == "el", "\(first.json)")
        #expect(first["message"] == "Ώρα\r\nγια φαγητό\r\n\r\nhttps://app.example/n/1\r\n")
        // A repetition can be recognised.
        #expect(first["id"] == second["id"])
        let id = harness.send(try channels.digest(of: [notification, Notification(id: "2", title: "x", language: "el")], to: address))
        #expect(try await harness.outcome(id) == .delivered)
        #expect(try receiver.next()["subject"] == "2 ειδοποιήσεις")
    }
}

/// The program of Tests/Push/receiver.py.
private final class IndependentReceiver: Sendable {
    /// The interpreter with the packages; nil outside of Tests/Push/run.
    static let python = ProcessInfo.processInfo.environment["VIGLA_PUSH_PYTHON"]
    private static let secret = "a secret of the test"

    let http: Int64
    let mail: Int64
    let p256dh: String
    let auth: String
    private let process: ChildProcess
    private let input = Pipe()
    private let lines: LineReader

    init() throws {
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../Push/receiver.py").path
        let output = Pipe()
        process = try ChildProcess(
            try #require(Self.python), [script, Self.secret], input: .handle(input.fileHandleForReading),
            output: .handle(output.fileHandleForWriting))
        try output.fileHandleForWriting.close()
        try input.fileHandleForReading.close()
        lines = LineReader(output.fileHandleForReading)
        let first = try JSONValue(lines.next())
        http = try #require(first["http"]?.int)
        mail = try #require(first["mail"]?.int)
        p256dh = try #require(first["p256dh"]?.string)
        auth = try #require(first["auth"]?.string)
    }

    deinit {
        try? input.fileHandleForWriting.close()
        process.waitUntilExit()
    }

    /// The next message that it has received.
    func next() throws -> JSONValue { try JSONValue(lines.next()) }

    func configuration() throws -> OutboundConfiguration {
        var configuration = OutboundConfiguration()
        try configuration.set(subject: "mailto:ops@example.org")
        try configuration.set(site: "https://app.example")
        configuration.webhooks = ["sms": try Webhook(
            url: "http://127.0.0.1:\(http)/sms", secret: Self.secret, isPrivate: true, acceptsDevices: true)]
        return configuration
    }

    private final class LineReader: Sendable {
        private let handle: FileHandle
        private let buffer = Mutex<[UInt8]>([])

        init(_ handle: FileHandle) { self.handle = handle }

        /// Blocks until there is a line; empty at the end.
        func next() -> [UInt8] {
            buffer.withLock { buffer in
                while true {
                    if let end = buffer.firstIndex(of: 10) {
                        defer { buffer.removeFirst(end + 1) }
                        return Array(buffer[..<end])
                    }
                    let more = handle.availableData
                    guard !more.isEmpty else { return [] }
                    buffer += more
                }
            }
        }
    }
}
