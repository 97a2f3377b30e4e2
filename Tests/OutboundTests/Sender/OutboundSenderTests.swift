import Dispatch
import DispatchNet
import JSONTree
import Mail
import Synchronization
import TestCertificates
import TestEndpoint
import TestSupport
import Testing

@testable import Outbound

/// Deliveries over real sockets, with the system's libcurl.
@Suite(.timeLimit(.minutes(30)))
struct OutboundSenderTests {
    @Test func request_arrivesAsItWasMade() async throws {
        let endpoint = try TestEndpoint()
        let harness = try SenderHarness()
        let id = try harness.send(
            endpoint.url("/p/a?b=c"), fields: [("TTL", "60"), ("X-Empty", ""), ("Authorization", "vapid t=x, k=y")], body: "καλημέρα")
        #expect(try await harness.outcome(id) == .delivered)
        let request = try #require(endpoint.requests.first)
        #expect(request.path == "/p/a?b=c" && request.body == Array("καλημέρα".utf8))
        #expect(request.fields == [
            "host": "127.0.0.1:\(endpoint.port)", "ttl": "60", "x-empty": "", "authorization": "vapid t=x, k=y", "content-length": "16",
            "user-agent": "vigla", "accept": "*/*", "content-type": "application/x-www-form-urlencoded",
        ])
    }

    @Test func connections_areKeptAndBounded() async throws {
        let endpoint = try TestEndpoint()
        let harness = try SenderHarness { $0.atOncePerHost = 8 }
        for _ in 0..<500 { try harness.send(endpoint.url()) }
        #expect(await becomes { harness.count == 500 })
        #expect(harness.all.values.allSatisfy { $0 == [.delivered] })
        #expect(endpoint.requests.count == 500 && endpoint.connections <= 8)
    }

    @Test func requestsAtOnce_areLimited_perHostAndInTotal() async throws {
        let endpoint = try TestEndpoint { _ in .silence }
        let harness = try SenderHarness { limits in
            (limits.atOnce, limits.atOnceToNew, limits.atOncePerHost) = (6, 6, 4)
        }
        for i in 0..<40 { try harness.send(endpoint.url(host: "host\(i % 2).test"), mayBePrivate: true) }
        #expect(await becomes { endpoint.most == 6 })
        harness.sender.close()
        #expect(await becomes { harness.count == 40 })
        #expect(endpoint.most == 6 && endpoint.mostOfHost <= 4)
        // Those that had been sent may have arrived.
        #expect(harness.all.values.count { $0 == [.later(afterMs: nil, reason: "the hub is stopping")] } == 6)
        #expect(harness.all.values.count { $0 == [.notAttempted(reason: "the hub is stopping")] } == 34)
    }

    @Test func answers_becomeOutcomes() async throws {
        let endpoint = try TestEndpoint { request in
            let status = request.path.dropFirst()
            return .text("HTTP/1.1 \(status) x\r\nRetry-After: 7\r\nContent-Length: 3\r\n\r\nwhy")
        }
        let harness = try SenderHarness()
        #expect(try await harness.deliver(endpoint.url("/201")) == .delivered)
        #expect(try await harness.deliver(endpoint.url("/410")) == .gone)
        #expect(try await harness.deliver(endpoint.url("/404"), .webhook) == .refused(reason: "answered 404: why"))
        #expect(try await harness.deliver(endpoint.url("/413")) == .refused(reason: "answered 413: why"))
        #expect(try await harness.deliver(endpoint.url("/429")) == .later(afterMs: 7_000, reason: "answered 429: why"))
        #expect(try await harness.deliver(endpoint.url("/503")) == .later(afterMs: 7_000, reason: "answered 503: why"))
    }

    @Test func server_isChecked_overTLS() async throws {
        let files = try TestCertificates.get()
        let endpoint = try TestEndpoint(tls: try TLSServer(certificate: files.certificate("server"), key: files.key("server")))
        let trusting = try SenderHarness(certificates: files.authority)
        #expect(try await trusting.deliver(endpoint.url(host: "localhost", scheme: "https")) == .delivered)
        #expect(try await trusting.deliver(endpoint.url(host: "hub.example", scheme: "https")).isLater)
        #expect(try await SenderHarness().deliver(endpoint.url(host: "localhost", scheme: "https")).isLater)
        #expect(endpoint.requests.count == 1)
    }

    @Test func connections_areClosed_withoutWork_andOpenedAgain() async throws {
        let endpoint = try TestEndpoint()
        let harness = try SenderHarness { $0.idleMs = 30_000 }
        for round in 1...3 {
            #expect(try await harness.deliver(endpoint.url()) == .delivered)
            harness.clock.advance(ms: 29_000)
            #expect(try await harness.deliver(endpoint.url()) == .delivered)
            #expect(endpoint.connections == round)
            harness.clock.advance(ms: 31_000)
            #expect(await becomes { endpoint.ended == round })
        }
        #expect(endpoint.connections == 3)
    }

    @Test func close_endsEachRequestOnce_andRefusesLaterOnes() async throws {
        let endpoint = try TestEndpoint { $0.path == "/slow" ? .silence : .text(TestEndpoint.created) }
        let stuck = DispatchSemaphore(value: 0)
        let harness = try SenderHarness(lookup: { host in
            if host == "stuck.test" { stuck.wait() }
            return [IPAddress(v4: 0x7F00_0001)]
        })
        for i in 0..<200 {
            try harness.send(endpoint.url(i % 2 == 0 ? "/slow" : "/", host: i % 5 == 0 ? "stuck.test" : "a.test"), mayBePrivate: true)
        }
        harness.sender.close()
        #expect(await becomes { harness.count == 200 })
        let id = try harness.send(endpoint.url())
        #expect(try await harness.outcome(id) == .notAttempted(reason: "the hub is stopping"))
        #expect(harness.sender.capacity == 0)
        stuck.signal()
        #expect(harness.all.values.allSatisfy { $0.count == 1 })
    }

    @Test func mails_areSent_aFewAtOnce() async throws {
        let transport = GatedMail()
        let harness = try SenderHarness(mail: transport) { ($0.mailsAtOnce, $0.mailsWaiting) = (2, 3) }
        func mail(_ to: String) throws -> Delivery {
            .mail(try NotificationMail.message(Samples.notification(), to: #require(MailAddress(to))))
        }
        let ids = try ["a@x.org", "never@x.org", "later@x.org", "b@x.org", "c@x.org", "d@x.org"].map { harness.send(try mail($0)) }
        // Two are being sent and three wait.
        #expect(try await harness.outcome(ids[5]) == .notAttempted(reason: "too many mails wait to be sent"))
        #expect(await becomes { transport.active.withLock { $0.now } == 2 })
        transport.open()
        #expect(await becomes { harness.count == 6 })
        #expect(harness.all[ids[0]] == [.delivered] && harness.all[ids[4]] == [.delivered])
        #expect(harness.all[ids[1]] == [.refused(reason: "no")] && harness.all[ids[2]] == [.later(afterMs: nil, reason: "busy")])
        #expect(transport.active.withLock { $0.most } == 2)
        let without = try SenderHarness()
        #expect(try await without.outcome(without.send(mail("a@x.org"))).isRefused)
    }

    @Test func capacity_isWhatIsAccepted() async throws {
        let endpoint = try TestEndpoint { _ in .silence }
        let harness = try SenderHarness { limits in
            (limits.atOnce, limits.atOncePerHost, limits.waiting, limits.exchangeMs) = (2, 2, 3, 600_000)
        }
        #expect(harness.sender.capacity == 5)
        for left in (0..<5).reversed() {
            try harness.send(endpoint.url())
            #expect(harness.sender.capacity == left)
        }
        let id = try harness.send(endpoint.url())
        #expect(try await harness.outcome(id) == .notAttempted(reason: "too many requests wait to be sent"))
        #expect(harness.count == 1)
        harness.sender.close()
        #expect(await becomes { harness.count == 6 })
        #expect(harness.sender.capacity == 0)
    }

    @Test func mailsThatWait_areBoundedInBytes_andGivenBackByClose() async throws {
        let (transport, address) = (GatedMail(), try #require(MailAddress("a@x.org")))
        let text = String(repeating: "x", count: 600)
        let message = Message(kind: nil, language: nil, to: address, subject: "", text: text, html: "", link: nil)
        let harness = try SenderHarness(mail: transport) { ($0.mailsAtOnce, $0.mailBytesWaiting) = (1, 1_000) }
        let sent = harness.send(.mail(message))
        #expect(await becomes { transport.active.withLock { $0.now } == 1 })
        let waiting = harness.send(.mail(message))
        #expect(try await harness.outcome(harness.send(.mail(message))) == .notAttempted(reason: "too many mails wait to be sent"))
        harness.sender.close()
        #expect(try await harness.outcome(waiting) == .notAttempted(reason: "the hub is stopping"))
        #expect(try await harness.outcome(harness.send(.mail(message))) == .notAttempted(reason: "the hub is stopping"))
        #expect(harness.sender.mailCapacity == 0)
        transport.open()
        #expect(try await harness.outcome(sent) == .delivered)
    }
}

/// A mail server that waits until it is opened.
private final class GatedMail: MailTransport {
    let active = Mutex((now: 0, most: 0))
    private let gate = Mutex<(isOpen: Bool, waiting: [CheckedContinuation<Void, Never>])>((false, []))

    func open() {
        let waiting = gate.withLock { gate in
            gate.isOpen = true
            return gate.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    func deliver(_ message: Message) async throws(MailFault) {
        active.withLock { $0 = ($0.now + 1, max($0.most, $0.now + 1)) }
        await withCheckedContinuation { continuation in
            let isOpen = gate.withLock { gate in
                if !gate.isOpen { gate.waiting.append(continuation) }
                return gate.isOpen
            }
            if isOpen { continuation.resume() }
        }
        active.withLock { $0.now -= 1 }
        if message.to.text.hasPrefix("never") { throw .never("no") }
        if message.to.text.hasPrefix("later") { throw .later("busy") }
    }
}
