import HubEngine
import JSONTree
import Testing

/// The delay that many requests of some clients cause others: measured in commits that precede theirs, never in time.
@Suite(.timeLimit(.minutes(30))) struct RequestTurnTests {
    private func limits(_ change: (inout EngineLimits) -> Void = { _ in }) -> EngineLimits {
        var limits = EngineLimits.patient
        limits.turnWork = 200
        change(&limits)
        return limits
    }

    /// A client that is sent the number of its commit.
    private func counting() -> Client { Client(lane: 0, dialect: .rest) }

    /// The commit number of a client's only write.
    private func number(_ hub: EngineHarness, _ client: Client) -> Int? {
        let told = hub.take(client)
        return told.count == 1 ? Int(told[0].filter(\.isNumber)) : nil
    }

    private func place(_ keys: String...) -> Path { Path(keys.map { Key($0) }) }

    /// Stops the database queue while requests are submitted, so that they are drained together.
    private func together(_ hub: EngineHarness, _ submit: () -> Void) {
        let gate = DispatchGate(hub.database)
        submit()
        gate.open()
    }

    @Test(arguments: [1, 20]) func write_isBehindATurnOfOthers_whenTheyHaveAskedThousands(floods: Int) {
        let hub = EngineHarness(limits: limits())
        let (flooding, other) = ((0..<floods).map { _ in Client.make() }, counting())
        together(hub) {
            for i in 0..<2_000 {
                hub.database.submit(.put(place("f", "c\(i % floods)"), .int(Int64(i))), from: flooding[i % floods], token: Int64(i))
            }
            hub.database.submit(.put("other", 1), from: other)
        }
        hub.settle()
        // The first turn belongs to the earliest requests; the second is divided equally.
        #expect(number(hub, other).map { $0 <= 201 } == true)
        for (k, client) in flooding.enumerated() {
            #expect(hub.take(client) == (0..<2_000).filter { $0 % floods == k }.map { "ok \($0)" }, "each in the order of its requests")
        }
        #expect(hub.database.counters.commits == 2_001)
        #expect(hub.database.inboxDepth == 0)
    }

    @Test func fewRequests_areOneBatch_inTheOrderOfArrival() {
        let log = FlakyLog()
        let hub = EngineHarness(log: log, limits: limits())
        let clients = (0..<10).map { _ in Client.make() }
        together(hub) {
            for i in 0..<100 { hub.database.submit(.put("order", .int(Int64(i))), from: clients[i % 10]) }
        }
        hub.settle()
        #expect(log.appended == 1)
        log.completeAll()
        #expect(log.root.child("order") == 99)
    }

    @Test func moreWork_endsTheTurn_whateverItIs() {
        /// Commits before another client's write, when a client sends the same request 400 times.
        func before(_ request: (Int) -> Request, size: Int = 0, watched: Bool = false) -> Int? {
            let hub = EngineHarness(limits: limits())
            let (client, other) = (Client.make(), counting())
            if watched {
                for i in 0..<9 { _ = hub.ask(.make(), .events("p", id: 1, i % 2 == 0 ? .value : .children), .listen(place("p", "n\(i)"))) }
            }
            together(hub) {
                for i in 0..<400 { hub.database.submit(request(i), from: client, size: size) }
                hub.database.submit(.put("other", 1), from: other)
            }
            return number(hub, other)
        }
        #expect(before { .put("p/a", .int(Int64($0))) } == 151, "a request and a place each")
        #expect(before({ .put("p/a", .int(Int64($0))) }, size: 2_560 + 98 * 128) == 4)
        #expect(before { i in .write((0..<99).map { TreeWrite(place("p", "n\($0)"), WriteValue(.int(Int64(i)))) }) } == 4)
        #expect(before({ .put("p/a", .int(Int64($0))) }, watched: true).map { $0 < 120 } == true)
    }

    @Test func largeAnswers_areMoreWork_asEncodedAndAsSelected() {
        /// Writes of a client before another client's, when it reads before each of them.
        func before(_ read: Request) -> Int {
            let children = (0..<800).map { (Key("c\($0)"), Node.bool(true)) }
            let hub = EngineHarness(
                root: ["small": 1, "text": .string(String(repeating: "x", count: 20_000)), "many": .object(children)], limits: limits())
            let (client, other) = (Client.make(), counting())
            together(hub) {
                for i in 0..<400 {
                    hub.database.submit(read, from: client)
                    hub.database.submit(.put("p/a", .int(Int64(i))), from: client)
                }
                hub.database.submit(.put("other", 1), from: other)
            }
            return number(hub, other) ?? .max
        }
        let small = before(.get("small"))
        #expect(before(.get("text")) < small / 4)
        #expect(before(.get("many", query: TreeQuery(index: .key, limit: 1, viewFrom: .first))) > small / 2)
        #expect(before(.get("many", query: TreeQuery(index: .key, limit: 800, viewFrom: .first))) < small / 8)
    }

    @Test func marksAndEnds_comeBehindTheClientsRequests() {
        let hub = EngineHarness(limits: limits())
        let (one, two) = (Client.make(), Client.make())
        _ = hub.ask(one, .onDisconnect([TreeWrite("a/gone", WriteValue(true))]))
        together(hub) {
            for i in 0..<1_000 { hub.database.submit(.put("a/n", .int(Int64(i))), from: one) }
            for i in 0..<1_000 { hub.database.submit(.put("b/n", .int(Int64(i))), from: two) }
            hub.database.submit(.mark(bytes: 7), from: two)
            hub.database.submit(.end, from: one)
        }
        #expect(hub.take(two).last == "marked 7")
        #expect(hub.take(one).count == 1_000)
        #expect(hub.ask(.make(), .get(.root)) == [#"value 0 {"a":{"gone":true,"n":999},"b":{"n":999}}"#])
    }

    @Test func ends_ofManyClients_giveWay() {
        let hub = EngineHarness(limits: limits())
        let (leaving, other) = ((0..<100).map { _ in Client.make() }, counting())
        for (k, client) in leaving.enumerated() {
            _ = hub.ask(client, .onDisconnect((0..<50).map { TreeWrite(place("s", "c\(k)", "n\($0)"), WriteValue(1)) }))
        }
        _ = hub.ask(other, .put("other", 0))
        // Disconnect writes are recorded with a commit number of their own.
        let earlier = 101
        together(hub) {
            for client in leaving { hub.database.submit(.end, from: client) }
            hub.database.submit(.put("other", 1), from: other)
        }
        #expect(number(hub, other).map { $0 <= earlier + 6 } == true)
        #expect(hub.database.counters.commits == 102)
    }

    @Test func heldRequests_giveWay_whenTheirClientGoesOn() {
        let hub = EngineHarness(limits: limits())
        let (slow, other, last) = (Client.make(), counting(), Client.make())
        hub.database.submit(.congested, from: slow)
        for i in 0..<1_000 { hub.database.submit(.put("s", .int(Int64(i))), from: slow, token: Int64(i)) }
        hub.settle()
        together(hub) {
            hub.database.submit(.drained, from: slow)
            hub.database.submit(.put("s", "last"), from: slow, token: 1_000)
            hub.database.submit(.put("other", 1), from: other)
        }
        #expect(number(hub, other).map { $0 < 150 } == true)
        #expect(hub.take(slow) == (0...1_000).map { "ok \($0)" })
        #expect(hub.ask(last, .get("s")) == ["value 0 \"last\""])
    }

    @Test func requestsBehindALargeOne_giveWay() {
        let hub = EngineHarness(limits: limits { $0.largeWritePlaces = 10 })
        let (writer, other) = (Client.make(), counting())
        hub.work.close()
        hub.database.submit(.write((0..<11).map { TreeWrite(place("w", "n\($0)"), WriteValue(1)) }), from: writer, token: 0)
        for i in 1...1_000 { hub.database.submit(.put("w/n0", .int(Int64(i))), from: writer, token: Int64(i)) }
        hub.database.submit(.end, from: writer)
        hub.settle()
        let gate = DispatchGate(hub.database)
        hub.work.open()
        hub.work.finish()
        hub.database.submit(.put("other", 1), from: other)
        gate.open()
        #expect(number(hub, other).map { $0 < 150 } == true)
        #expect(hub.take(writer) == (0...1_000).map { "ok \($0)" })
        #expect(hub.ask(.make(), .get("w/n0")) == ["value 0 1000"])
    }

    @Test func logThatIsBehind_isGivenNoMoreOfThoseWhoWaitForIt() {
        let log = FlakyLog()
        let hub = EngineHarness(log: log, limits: limits())
        let (flooding, other) = ((0..<4).map { _ in Client.make() }, Client.make())
        for i in 0..<4_000 { hub.database.submit(.put("f", .int(Int64(i))), from: flooding[i % 4], token: Int64(i / 4)) }
        hub.settle()
        let given = hub.database.counters.commits
        #expect(given > 100 && given < 400, "\(given) commits wait for the log")
        #expect(hub.database.inboxDepth == 4_000 - given)
        #expect(hub.ask(other, .put("other", 1)) == [])
        #expect(hub.database.counters.commits == given + 1, "who waits for nothing gets on")
        #expect(hub.ask(other, .put("other", 2)) == [])
        #expect(hub.database.counters.commits == given + 1)
        while !log.isIdle {
            log.completeAll()
            hub.settle()
        }
        #expect(hub.take(other) == ["ok 0", "ok 0"])
        for client in flooding { #expect(hub.take(client) == (0..<1_000).map { "ok \($0)" }) }
        #expect(log.root.child("other") == 2)
        #expect(hub.database.counters.commits == 4_002)
    }

    @Test func refusingLog_isFollowedByWhatStillWaits() {
        let log = FlakyLog()
        let hub = EngineHarness(log: log, limits: limits())
        let clients = (0..<4).map { _ in Client.make() }
        for i in 0..<4_000 { hub.database.submit(.put("f", .int(Int64(i))), from: clients[i % 4], token: Int64(i / 4)) }
        hub.settle()
        log.refuse()
        hub.settle()
        for client in clients { #expect(hub.take(client) == (0..<1_000).map { "error \($0) unavailable" }) }
        #expect(hub.database.inboxDepth == 0)
    }

    @Test func lastSnapshot_seesAllThatWasAsked() async {
        let hub = EngineHarness(limits: limits())
        let client = Client.make()
        let gate = DispatchGate(hub.database)
        for i in 0..<2_000 { hub.database.submit(.put("n", .int(Int64(i))), from: client) }
        let root = await withCheckedContinuation { told in
            hub.database.snapshot(behindRequests: true) { root, _, _ in told.resume(returning: root) }
            gate.open()
        }
        #expect(root.child("n") == 1_999)
    }
}
