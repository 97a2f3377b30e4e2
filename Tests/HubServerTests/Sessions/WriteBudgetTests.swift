import HubEngine
import HubServer
import SecurityRules
import TestHub
import Testing
import TestSupport

/// A write over its user's budget, as each protocol reports it.
@Suite(.timeLimit(.minutes(30))) struct WriteBudgetTests {
    private func server(_ clock: FakeClock, _ configure: (inout ServerSettings) -> Void = { _ in }) throws -> TestServer {
        let rules = try RuleSet(parsing: #"{"rules":{".read":true,"rooms":{"$r":{".write":true,".rate":{"perSecond":0.4,"burst":2}}}}}"#)
        return try TestServer(scheduler: clock.scheduler) {
            $0.rules = rules
            $0.namespace = "test"
            configure(&$0)
        }
    }

    @Test func overREST_is429_withTheTimeToWait() throws {
        let clock = FakeClock()
        let peer = try RESTPeer(try server(clock))
        #expect(try peer.put("/rooms/r/a.json", "1") == "200 1" && (try peer.patch("/rooms/r.json", #"{"b":2}"#)).hasPrefix("200 "))
        let refused = try peer.ask("PUT", "/rooms/r/a.json", "3")
        #expect(refused.status == 429 && refused.head.contains("\r\nRetry-After: 3\r\n"))
        #expect(refused.body == "{\n  \"error\" : \"You write too often. Nothing of this was stored; try again in 3 s.\"\n}\n")
        #expect(try peer.ask("POST", "/rooms/r.json", "3").status == 429 && peer.ask("DELETE", "/rooms/r/a.json").status == 429)
        #expect(try peer.refusal("PATCH", "/rooms/r.json", #"{"a":1,"b":2,"c":3}"#).hasPrefix("400 At most 2 places may be"))
        #expect(try peer.get("/rooms.json") == #"200 {"r":{"a":1,"b":2}}"#, "reads are not counted")
        #expect(try peer.put("/rooms/s/a.json", "1") == "200 1", "another place has its own")
        clock.advance(ms: 2_500)
        #expect(try peer.put("/rooms/r/a.json", "3") == "200 3")
    }

    @Test func withoutAnAccount_eachAddressIsOne() throws {
        let proxies = try TrustedProxies(["127.0.0.1"])
        let peer = try RESTPeer(try server(FakeClock()) { $0.trustedProxies = proxies })
        func puts(_ address: String) throws -> [Int] {
            try (0..<3).map { _ in try peer.ask("PUT", "/rooms/r/a.json", "1", ["X-Forwarded-For: \(address)"]).status }
        }
        #expect(try puts("192.0.2.1") == [200, 200, 429])
        #expect(try puts("192.0.2.2") == [200, 200, 429])
        #expect(try puts("192.0.2.1") == [429, 429, 429])
    }

    @Test func inTheObserveProtocol_isACodeOfItsOwn() throws {
        let clock = FakeClock()
        let server = try server(clock)
        let socket = try TestSocket(port: server.port)
        try socket.upgrade("/.observe?ns=test")
        func ask(_ id: Int) throws -> String {
            try socket.sendText(#"{"id":\#(id),"op":"set","path":"/rooms/r","value":\#(id)}"#)
            return try socket.text()
        }
        #expect(try ask(1) == #"{"id":1,"ok":{"seq":1}}"# && ask(2) == #"{"id":2,"ok":{"seq":2}}"#)
        #expect(
            try ask(3) == #"{"id":3,"error":{"code":"over_budget","message":"You write too often. Nothing of this was stored; "#
                + #"try again in 3 s.","retryAfterMs":2500}}"#)
        clock.advance(ms: 2_499)
        #expect(try ask(4).contains(#""retryAfterMs":1}"#))
        clock.advance(ms: 1)
        #expect(try ask(5) == #"{"id":5,"ok":{"seq":3}}"#)
    }

    /// The SDKs treat it as a refusal by the rules: they roll the write back, notify its caller, and send nothing again.
    @Test func overTheRealtimeProtocol_theWriteFails_andTheConnectionGoesOn() throws {
        let clock = FakeClock()
        let server = try server(clock)
        let socket = try server.realtime().socket
        func put(_ number: Int) throws -> String {
            try socket.sendText(#"{"t":"d","d":{"r":\#(number),"a":"p","b":{"p":"/rooms/r","d":\#(number)}}}"#)
            return try socket.text()
        }
        let ok: (Int) -> String = { #"{"t":"d","d":{"r":\#($0),"b":{"s":"ok","d":""}}}"# }
        #expect(try put(1) == ok(1) && put(2) == ok(2))
        #expect(
            try put(3) == #"{"t":"d","d":{"r":3,"b":{"s":"unavailable","d":"You write too often. Nothing of this was stored; "#
                + #"try again in 3 s."}}}"#)
        #expect(try put(4).contains(#""r":4,"b":{"s":"unavailable""#))
        clock.advance(ms: 2_500)
        #expect(try put(5) == ok(5))
        #expect(try server.metric(#"vigla_writes_over_budget_total{namespace="test"}"#) == 2)
        #expect(try server.metric(#"vigla_rule_refusals_total{namespace="test",request="write over budget",place="/rooms/$r"}"#) == 2)
    }

    @Test func settingOfTheHub_holdsForAllPlaces_andNotForAdministrators() throws {
        let server = try TestServer(scheduler: FakeClock().scheduler) {
            $0.namespace = "test"
            $0.limits.engine.writeRate = WriteRate(perSecond: 1, burst: 2)
        }
        let (peer, owner) = (try RESTPeer(server), try RESTPeer.owner(server))
        #expect(try (0..<3).map { try peer.ask("PUT", "/a\($0).json", "1").status } == [200, 200, 429])
        #expect(try (0..<3).map { try owner.ask("PUT", "/a\($0).json", "1").status } == [200, 200, 200])
    }
}
