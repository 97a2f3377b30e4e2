import HubEngine
import JSONTree
import Testing

/// The bytes of clients' disconnect writes are bounded.
@Suite(.timeLimit(.minutes(30))) struct PendingBytesTests {
    private func pend(_ path: Path, _ bytes: Int) -> Request {
        .onDisconnect([TreeWrite(path, WriteValue(.string(String(repeating: "x", count: bytes))))])
    }

    private static func limits(_ one: Int, _ all: Int) -> EngineLimits {
        var limits = EngineLimits.tight
        (limits.pendingBytes, limits.pendingBytesOfAll) = (one, all)
        return limits
    }

    /// Many connections of one address or user leave room for others.
    @Test func bytesOfOneOwner_areBounded() throws {
        let it = try GatedHarness(limits: Self.limits(10_000, 160_000))
        func client(_ address: String, _ auth: Node = .null) -> Client {
            let client = Client(lane: 0, dialect: .realtime, identity: Identity(auth: auth))
            client.address = address
            return client
        }
        func kept(_ make: (Int) -> Client) -> Int { (0..<20).count { it.ask(make($0), pend("a", 9_000)) == ["ok 0"] } }
        #expect(kept { _ in client("192.0.2.1") } == 2, "20,000 of an address")
        #expect(kept { client("192.0.2.1", ["uid": .string(Text("g\($0)")), "provider": "anonymous"]) } == 0, "guests count with it")
        #expect(kept { client("20010db80000\(1_000 + $0)/64") } == 8, "80,000 of a network of IPv6")
        #expect(kept { client("192.0.3.\($0)") } == 3, "120,000 of all strangers")
        let users = (0..<2).map { _ in client("192.0.2.1", ["uid": "u", "provider": "password"]) }
        for user in users { #expect(it.ask(user, pend("a", 9_000)) == ["ok 0"]) }
        #expect(it.ask(client("192.0.2.9", ["uid": "u", "provider": "password"]), pend("a", 9_000)) == ["error 0 unavailable"])
        // Cancelled disconnect writes free their room.
        _ = it.ask(users[0], .cancelOnDisconnect("a"))
        #expect(it.ask(users[1], .cancelOnDisconnect("a"), pend("b", 9_000)) == ["ok 0", "ok 1"])
    }

    @Test func bytesOfOneClient_areBounded_andCountWhatIsKept() throws {
        let it = try GatedHarness(limits: Self.limits(10_000, 1 << 20))
        let one = Client.make()
        #expect(it.ask(one, pend("a", 9_000), pend("b", 2_000)) == ["ok 0", "error 1 too_big"])
        // Overwritten repeatedly, it is kept once.
        for _ in 0..<20 { #expect(it.ask(one, pend("a", 9_000)) == ["ok 0"]) }
        #expect(it.ask(one, .cancelOnDisconnect("a"), pend("b", 2_000), pend("c", 9_000)) == ["ok 0", "ok 1", "error 2 too_big"])
    }

    @Test func bytesOfAllClients_areBounded_andFreeWhenTheirSessionsEnd() throws {
        let it = try GatedHarness(limits: Self.limits(10_000, 25_000))
        let clients = (0..<3).map { _ in Client.make() }
        #expect(clients.map { it.ask($0, pend("a", 9_000)) } == [["ok 0"], ["ok 0"], ["error 0 unavailable"]])
        _ = it.ask(clients[0], .end)
        #expect(it.ask(clients[2], pend("a", 9_000)) == ["ok 0"])
    }

    @Test func bytesThatTheLogRefused_areNotCounted() throws {
        let log = FlakyLog()
        let it = try GatedHarness(log: log, limits: Self.limits(10_000, 12_000))
        let (one, two) = (Client.make(), Client.make())
        _ = it.ask(one, pend("a", 9_000))
        log.refuse()
        #expect(it.hub.take(one) == ["error 0 unavailable"])
        it.hub.passRetryTime()
        _ = it.ask(one, .get("a"))
        log.completeAll()
        _ = it.ask(two, pend("a", 9_000))
        log.completeAll()
        #expect(it.hub.take(two) == ["ok 0"])
    }

    @Test func largeWritesForTheDisconnect_areDecidedInTheBackground() throws {
        let rules = #"{"rules":{"a":{".write":true,"$k":{".validate":"newData.isNumber()"}}}}"#
        let it = try GatedHarness(rules)
        let (one, two) = (Client.make(), Client.make())
        let writes: [Path] = ["a/x", "a/y", "a/z"]
        _ = it.ask(one, .onDisconnect(writes.map { TreeWrite($0, WriteValue(1)) }), .end)
        _ = it.ask(two, .onDisconnect(writes.map { TreeWrite($0, WriteValue("text")) }))
        #expect(it.gate.count == 2)
        it.finish()
        #expect(it.content == ["a": ["x": 1, "y": 1, "z": 1]])
        #expect(it.hub.take(two) == ["error 0 permission_denied"])
    }
}
