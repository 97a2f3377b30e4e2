import Curl
import JSONTree
import Scheduling
import Synchronization
import TestEndpoint
import TestSupport
import Testing

@testable import Outbound

/// Endpoints are chosen by users. Each bad one ends in a bounded outcome, reaches nothing private, and takes no proven host's place.
@Suite(.timeLimit(.minutes(30)))
struct HostileEndpointTests {
    @Test func privateAddresses_areNeverConnectedTo() async throws {
        let endpoint = try TestEndpoint()
        let names = [
            "ten.test": "10.0.0.1", "mapped.test": "::ffff:127.0.0.1", "nat.test": "64:ff9b::7f00:1", "link.test": "169.254.169.254",
        ]
        let harness = try SenderHarness(allowing: [], lookup: { host in
            host == "localhost" ? SystemLookup.lookup(host) : names[host].flatMap(IPAddress.init).map { [$0] }
        })
        for host in [
            "127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "0x7f.1",
            "2130706433", "127.1", "10.0.0.1", "ten.test", "mapped.test", "nat.test", "link.test", "224.0.0.1", "100.64.0.1",
        ] {
            let outcome = try await harness.deliver(endpoint.url(host: host, scheme: "https"))
            #expect(outcome == .refused(reason: AddressGuard.refusal), "\(host)")
        }
        #expect(endpoint.connections == 0)
        #expect(try await harness.deliver(endpoint.url(host: "unknown.test", scheme: "https"))
            == .later(afterMs: nil, reason: "the endpoint's host name cannot be resolved"))
    }

    @Test func privateAddress_isReached_whereTheOperatorNamedTheEndpoint() async throws {
        let endpoint = try TestEndpoint()
        let harness = try SenderHarness(allowing: [])
        #expect(try await harness.deliver(endpoint.url(host: "sms.lan"), mayBePrivate: true) == .delivered)
        #expect(try await harness.deliver(endpoint.url(host: "sms.lan")).isRefused)
        #expect(endpoint.requests.count == 1)
    }

    @Test func endpointWithoutTLS_isRefused_alsoIfItsAddressIsPublic() async throws {
        let harness = try SenderHarness(allowing: [], lookup: { _ in [IPAddress(v4: 0x0808_0808)] })
        #expect(try await harness.deliver("http://push.example/") == .refused(reason: DeviceFault.notSecure.description))
    }

    /// The name has an allowed address when it is first looked up, and another one later.
    @Test func changingAddress_isCheckedAgain() async throws {
        let endpoint = try TestEndpoint()
        let lookups = Mutex(0)
        let harness = try SenderHarness(allowing: ["127.0.0.1"], lookup: { _ in
            lookups.withLock { $0 += 1; return $0 } == 1 ? [IPAddress(v4: 0x7F00_0001)] : [IPAddress(v4: 0x7F00_0002)]
        }) { ($0.namesFreshMs, $0.namesStaleMs) = (0, 0) }
        // Over https, as http needs a name that is allowed to be private: then any address would do.
        let url = try #require(CurlURL(endpoint.url(host: "rebind.test", scheme: "https")))
        let request = OutboundRequest(.push, url, fields: [], body: [])
        let first = harness.send(.request(request))
        #expect(await becomes { endpoint.connections == 1 })
        // The endpoint does not speak TLS.
        try await harness.pass(ms: SenderLimits().connectMs)
        #expect(try await harness.outcome(first).isLater)
        #expect(try await harness.outcome(harness.send(.request(request))) == .refused(reason: AddressGuard.refusal))
        #expect(endpoint.connections == 1 && lookups.withLock { $0 } == 2)
    }

    /// The check of the socket's address alone, without the one before.
    @Test func socket_isNotOpened_forAnAddressThatIsRefused() throws {
        let endpoint = try TestEndpoint()
        let multi = try #require(CurlMulti(keptConnections: 4))
        for host in ["127.0.0.1", "rebind.test"] {
            let request = OutboundRequest(.push, try #require(CurlURL(endpoint.url(host: host))), fields: [], body: [])
            let seen = Mutex<[IPAddress]>([])
            let exchange = Exchange(
                request, SendQueue.Place(id: 1, host: host, part: .new), addresses: [IPAddress(v4: 0x7F00_0001)],
                permits: { address in seen.withLock { $0.append(address) }; return false }, certificates: nil, SenderLimits(), now: 0)
            #expect(try outcome(of: exchange, multi) == .refused(reason: AddressGuard.refusal))
            #expect(seen.withLock { $0 } == [IPAddress(v4: 0x7F00_0001)])
        }
        #expect(endpoint.connections == 0)
    }

    private func outcome(of exchange: Exchange, _ multi: CurlMulti) throws -> DeliveryOutcome {
        try multi.add(exchange.transfer)
        var ended: [(transfer: CurlTransfer, fault: CurlFault?)] = []
        while ended.isEmpty {
            ended = multi.perform()
            multi.wait(ms: 10)
        }
        return exchange.outcome(ended[0].fault, now: 0)
    }

    /// No socket is opened for it, so only the check before the request sees the connection's address.
    @Test func keptConnection_isNotUsed_byARequestThatMayNotReachItsAddress() throws {
        let endpoint = try TestEndpoint()
        let multi = try #require(CurlMulti(keptConnections: 4))
        func deliver(_ addresses: IPAddress, _ permits: @escaping (IPAddress) -> Bool) throws -> DeliveryOutcome {
            let request = OutboundRequest(.push, try #require(CurlURL(endpoint.url(host: "sms.lan"))), fields: [], body: [])
            return try outcome(of: Exchange(
                request, SendQueue.Place(id: 1, host: "sms.lan", part: .new), addresses: [addresses], permits: permits,
                certificates: nil, SenderLimits(), now: 0), multi)
        }
        #expect(try deliver(IPAddress(v4: 0x7F00_0001)) { _ in true } == .delivered)
        #expect(try deliver(IPAddress(v4: 0x7F00_0001)) { _ in true } == .delivered)
        #expect(endpoint.connections == 1 && endpoint.requests.count == 2)
        #expect(try deliver(IPAddress(v4: 0x0808_0808)) { $0.isPublic } == .refused(reason: AddressGuard.refusal))
        #expect(endpoint.requests.count == 2)
    }

    @Test func redirect_isNotFollowed() async throws {
        let inner = try TestEndpoint()
        let endpoint = try TestEndpoint { _ in
            .text("HTTP/1.1 307 x\r\nLocation: http://127.0.0.1:\(inner.port)/\r\nContent-Length: 0\r\n\r\n")
        }
        let harness = try SenderHarness()
        #expect(try await harness.deliver(endpoint.url())
            == .refused(reason: "answered 307, a redirect, which is not followed"))
        #expect(inner.connections == 0 && endpoint.requests.count == 1)
    }

    @Test func brokenEndpoints_haveBoundedOutcomes() async throws {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n"
        let lines = String(repeating: "X-Line: \(String(repeating: "y", count: 90))\r\n", count: 10_000)
        let answers: [(name: String, answer: TestEndpoint.Answer)] = [
            ("endless body", .text(head + String(repeating: "x", count: 4 << 20))),
            ("unfinished body", .text(head + "x")),
            ("endless head", .text("HTTP/1.1 200 OK\r\n" + lines)),
            ("endless line", .text("HTTP/1.1 200 OK\r\nX: " + String(repeating: "y", count: 4 << 20))),
            ("informational", .text(String(repeating: "HTTP/1.1 103 Early Hints\r\n\r\n", count: 10_000))),
            ("garbage", .text("\u{0}\u{1}garbage\r\n\r\n")),
            ("close", .close),
            ("silence", .silence),
        ]
        let endpoints = try answers.map { answer in
            try TestEndpoint { $0.path == "/fine" ? .text(TestEndpoint.created) : answer.answer }
        }
        let harness = try SenderHarness()
        let ids = try endpoints.map { try harness.send($0.url()) }
        let timedOut = Set(answers.indices.filter { ["unfinished body", "silence"].contains(answers[$0].name) }.map { ids[$0] })
        #expect(await becomes { Set(harness.all.keys).isSuperset(of: Set(ids).subtracting(timedOut)) })
        for (endpoint, id) in zip(endpoints, ids) where timedOut.contains(id) {
            #expect(await becomes { endpoint.requests.count == 1 })
            // It answers in order, so what there is of the first answer has arrived as well.
            #expect(try await harness.deliver(endpoint.url("/fine")) == .delivered)
            #expect(harness.all[id] == nil)
        }
        try await harness.pass(ms: SenderLimits().exchangeMs)
        for (answer, id) in zip(answers, ids) {
            let outcome = try await harness.outcome(id)
            // Accepted, if the head says so: the rest is not read.
            #expect(answer.name.hasSuffix("body") ? outcome == .delivered : outcome.isLater, "\(answer.name): \(outcome)")
        }
        // Nobody listens on port 1.
        #expect(try await harness.deliver("http://127.0.0.1:1/").isLater)
    }

    @Test func exchange_hasItsTime_orThatOfItsWebhook() async throws {
        let endpoint = try TestEndpoint { _ in .silence }
        let harness = try SenderHarness { $0.exchangeMs = 10_000 }
        let (usual, patient) = (try harness.send(endpoint.url()), try harness.send(endpoint.url(), timeoutMs: 60_000))
        #expect(await becomes { endpoint.requests.count == 2 })
        harness.clock.advance(ms: 9_500)
        try await harness.settle()
        #expect(harness.all[usual] == nil)
        harness.clock.advance(ms: 1_000)
        #expect(try await harness.outcome(usual) == .later(afterMs: nil, reason: "not delivered: Timeout was reached"))
        harness.clock.advance(ms: 48_500)
        try await harness.settle()
        #expect(harness.all[patient] == nil)
        harness.clock.advance(ms: 1_500)
        #expect(try await harness.outcome(patient) == .later(afterMs: nil, reason: "not delivered: Timeout was reached"))
        // Their connections are closed.
        #expect(await becomes { endpoint.ended == 2 })
    }

    /// The endpoint accepts connections, and says nothing in TLS.
    @Test func connecting_hasLessTime() async throws {
        let endpoint = try TestEndpoint { _ in .silence }
        let harness = try SenderHarness { ($0.connectMs, $0.exchangeMs) = (5_000, 600_000) }
        let id = try harness.send(endpoint.url(scheme: "https"))
        #expect(await becomes { endpoint.connections == 1 })
        harness.clock.advance(ms: 4_500)
        try await harness.settle()
        #expect(harness.all[id] == nil)
        harness.clock.advance(ms: 1_000)
        #expect(try await harness.outcome(id) == .later(afterMs: nil, reason: "not delivered: Timeout was reached"))
    }

    /// With the system's clock. On a slow machine the exchange may end while it connects.
    @Test func silence_endsByItself() async throws {
        let endpoint = try TestEndpoint { _ in .silence }
        let harness = try SenderHarness(scheduler: .system(), lookup: { _ in [IPAddress(v4: 0x7F00_0001)] }) { $0.exchangeMs = 1 }
        #expect(try await harness.deliver(endpoint.url()) == .later(afterMs: nil, reason: "not delivered: Timeout was reached"))
    }

    @Test func bodyOfAnAnswer_isReadUpToTheLimit() async throws {
        let endpoint = try TestEndpoint { request in
            let count = Int(request.path.dropFirst()) ?? 0
            return .text("HTTP/1.1 200 OK\r\nContent-Length: \(count)\r\n\r\n" + String(repeating: "x", count: count))
        }
        let harness = try SenderHarness { $0.bodyBytes = 1_000 }
        #expect(try await harness.deliver(endpoint.url("/1000")) == .delivered)
        #expect(try await harness.deliver(endpoint.url("/1000")) == .delivered)
        #expect(endpoint.connections == 1)
        // Beyond it the connection is closed.
        #expect(try await harness.deliver(endpoint.url("/1001")) == .delivered)
        #expect(try await harness.deliver(endpoint.url("/1000")) == .delivered)
        #expect(endpoint.connections == 2)
    }

    @Test func slowNewHosts_delayNoProvenHost() async throws {
        let endpoint = try TestEndpoint { $0.fields["host"]?.hasPrefix("fast") == true ? .text(TestEndpoint.created) : .silence }
        let harness = try SenderHarness(allowing: ["127.0.0.1"], lookup: { _ in [IPAddress(v4: 0x7F00_0001)] }) { limits in
            (limits.atOnce, limits.atOnceToNew, limits.atOncePerHost) = (8, 4, 2)
            limits.exchangeMs = 600_000
        }
        // The service has answered before.
        #expect(try await harness.deliver(endpoint.url(host: "fast.test"), mayBePrivate: true) == .delivered)
        for i in 0..<100 { try harness.send(endpoint.url(host: "slow\(i).test"), mayBePrivate: true) }
        #expect(await becomes { endpoint.most == 4 })
        let ids = try (0..<50).map { _ in try harness.send(endpoint.url(host: "fast.test"), mayBePrivate: true) }
        for id in ids { #expect(try await harness.outcome(id) == .delivered) }
        #expect(harness.count == 51 && endpoint.requests.count == 55)
    }

    @Test func slowNameServers_delayNoKnownName() async throws {
        let endpoint = try TestEndpoint()
        let gate = DispatchSemaphoreBox()
        let harness = try SenderHarness(allowing: ["127.0.0.1"], lookup: { host in
            if host.hasPrefix("stuck") { gate.wait() }
            return [IPAddress(v4: 0x7F00_0001)]
        }) { limits in
            (limits.lookupsAtOnce, limits.lookupMs, limits.namesFreshMs) = (2, 4_000, 0)
        }
        #expect(try await harness.deliver(endpoint.url(host: "known.test"), mayBePrivate: true) == .delivered)
        let stuck = try (0..<50).map { try harness.send(endpoint.url(host: "stuck\($0).test"), mayBePrivate: true) }
        for _ in 0..<20 { #expect(try await harness.deliver(endpoint.url(host: "known.test"), mayBePrivate: true) == .delivered) }
        try await harness.pass(ms: 4_000)
        for (i, id) in stuck.enumerated() {
            // The name server was asked for the first two only.
            #expect(try await harness.outcome(id) == (i < 2
                ? .later(afterMs: nil, reason: "the endpoint's host name was not resolved in time")
                : .notAttempted(reason: "too many names are being looked up")))
        }
        gate.open()
    }

    @Test func requestsThatWait_areBounded() async throws {
        let endpoint = try TestEndpoint { _ in .silence }
        let harness = try SenderHarness { limits in
            (limits.atOncePerHost, limits.waitingPerHost, limits.waiting, limits.exchangeMs) = (1, 3, 5, 600_000)
            limits.atOnce = 2
        }
        func send(_ host: String, _ count: Int) async throws -> [Int] {
            let ids = try (0..<count).map { _ in try harness.send(endpoint.url(host: host), mayBePrivate: true) }
            return ids
        }
        _ = try await send("a.test", 1)
        #expect(await becomes { endpoint.requests.count == 1 })
        let first = try await send("a.test", 4)
        #expect(try await harness.outcome(first[3]) == .notAttempted(reason: "too many requests wait to be sent"))
        #expect(harness.count == 1)
        _ = try await send("b.test", 1)
        #expect(await becomes { endpoint.requests.count == 2 })
        let second = try await send("b.test", 3)
        #expect(try await harness.outcome(second[2]) == .notAttempted(reason: "too many requests wait to be sent"))
        #expect(harness.count == 2)
    }

    @Test func bytesThatWait_areBounded() async throws {
        let endpoint = try TestEndpoint { $0.path == "/" ? .silence : .text(TestEndpoint.created) }
        let harness = try SenderHarness { ($0.waitingBytes, $0.exchangeMs) = (1_000, 600_000) }
        // One is accepted, whatever its size.
        #expect(try await harness.outcome(harness.send(endpoint.url("/large"), body: String(repeating: "x", count: 1_001))) == .delivered)
        try harness.send(endpoint.url(), body: String(repeating: "x", count: 600))
        try harness.send(endpoint.url(), body: String(repeating: "x", count: 400))
        #expect(await becomes { endpoint.requests.count == 3 })
        #expect(try await harness.outcome(harness.send(endpoint.url(), body: "x"))
            == .notAttempted(reason: "too many requests wait to be sent"))
        #expect(harness.count == 2)
    }

    @Test func requestsThatWaitForTooLong_areGivenBack() async throws {
        let endpoint = try TestEndpoint { _ in .silence }
        let harness = try SenderHarness { ($0.atOncePerHost, $0.waitMs, $0.exchangeMs) = (1, 50, 600_000) }
        let ids = try (0..<3).map { _ in try harness.send(endpoint.url()) }
        #expect(await becomes { endpoint.requests.count == 1 })
        try await harness.pass(ms: 50)
        for id in ids[1...] {
            #expect(try await harness.outcome(id) == .notAttempted(reason: "its host had no free place in time"))
        }
        #expect(harness.all[ids[0]] == nil)
    }
}
