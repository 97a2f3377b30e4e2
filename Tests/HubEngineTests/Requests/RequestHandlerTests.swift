@testable import HubEngine
import Journal
import JSONTree
import Synchronization
import Testing

/// Each request goes to the part responsible for it, and is answered once.
@Suite(.timeLimit(.minutes(30))) struct RequestHandlerTests {
    private static func bench(limits: EngineLimits = EngineLimits(), root: Node = ["a": 1]) -> Bench {
        let bench = Bench(root: root, limits: limits, lanes: 1)
        bench.suspendedRequests.onResumed = { [weak bench] items, _ in for item in items { bench?.handler.handle(item) } }
        return bench
    }

    private static func ask(_ bench: Bench, _ client: Client, _ requests: Request...) -> [String] {
        bench.run { for (i, request) in requests.enumerated() { bench.handler.handle(.init(request, of: client, token: Int64(i))) } }
        return bench.finish()
    }

    @Test func requests_areAnswered_onceEach() {
        let bench = Self.bench()
        let client = Client.make()
        #expect(Self.ask(bench, client, .begin(sessionID: "s", replacing: nil)).isEmpty && client.sessionID == "s")
        #expect(Self.ask(bench, client, .identify(Identity(auth: ["uid": "u"])), .signOut) == [#"identified 0 {"uid":"u"}"#, "ok 1"])
        #expect(Self.ask(bench, client, .get("a"), .put("b", 2), .get("b")) == ["value 0 1", "ok 1", "value 2 2"])
        #expect(Self.ask(bench, client, .listen("a"), .put("a", 3)) == ["d a 1", "ok 0", "d a 3", "ok 1"], "the echo before its ok")
        #expect(Self.ask(bench, client, .unlisten("a"), .put("a", 4)) == ["ok 0", "ok 1"])
        #expect(Self.ask(bench, client, .events("a", id: 5), .unobserveID(5), .unobserveID(5)) == [
            "ok 0", "initial 5 4", "ok 1", "error 2 unknown_sub",
        ])
        #expect(Self.ask(bench, client, .answer(Array("x".utf8)), .mark(bytes: 7)) == ["x", "marked 7"])
        #expect(Self.ask(bench, client, .onDisconnect([TreeWrite("gone", 1)]), .cancelOnDisconnect("gone")) == ["ok 0", "ok 1"])
        #expect(Self.ask(bench, client, .system([TreeWrite("b", .null)], .accountDeletion)) == ["ok 0"])
        #expect(bench.context.meter.counters.systemCommits == [.accountDeletion: 1])
        #expect(Self.ask(bench, client, .push("list", WriteValue(1))).first?.hasPrefix("pushed 0 -") == true)
        #expect(Self.ask(bench, client, .behind(user: "w")).isEmpty)
        #expect(bench.context.meter.counters.requests == 20)
    }

    @Test func exchanges_areAnsweredWithTheirOutcome() {
        let bench = Self.bench()
        let client = Client.make()
        #expect(Self.ask(bench, client, .exchange(Exchange("a", .read(nil)))) == ["exchanged 0 1"])
        #expect(Self.ask(bench, client, .exchange(Exchange("c", .write([TreeWrite("c", 5)]), wantsContent: true))) == ["exchanged 0 5"])
        #expect(Self.ask(bench, client, .exchange(Exchange("l", .push(WriteValue(5))))) == ["exchanged 0 null"])
        #expect(bench.content.root.child("l").childCount == 1)
    }

    @Test func endedClient_isOnlyRemembered() {
        let bench = Self.bench()
        let client = Client.make()
        #expect(Self.ask(bench, client, .end).isEmpty && client.hasEnded)
        bench.run {
            bench.handler.handle(.init(.put("a", 9), of: client))
            #expect(bench.batch.end().history.steps.count == 1, "for the case that its end is undone")
        }
        #expect(bench.content.root == ["a": 1])
    }

    @Test func goneClient_isReadForNoMore_butItsWritesCount() {
        let bench = Self.bench()
        let client = Client.make()
        client.isGone.store(true, ordering: .relaxed)
        #expect(Self.ask(bench, client, .get("a"), .listen("a"), .put("a", 2)) == ["ok 2"])
        #expect(client.observations.count == 0 && bench.content.root == ["a": 2])
    }

    @Test func revokedClient_isToldAndClosed() {
        let bench = Self.bench()
        let client = Client.make()
        #expect(Self.ask(bench, client, .listen("a"), .revoke(notice: Array("over".utf8))) == ["d a 1", "ok 0", "over", "close"])
        #expect(client.hasEnded && client.observations.count == 0)
    }

    @Test func slowClient_isHeldBack_andCaughtUpWith() {
        let bench = Self.bench()
        let (client, writer) = (Client.make(), Client.make())
        _ = Self.ask(bench, client, .listen("a"))
        #expect(Self.ask(bench, client, .congested, .get("a"), .put("b", 1)).isEmpty)
        #expect(Self.ask(bench, writer, .put("a", 2), .put("a", 3)) == ["ok 0", "ok 1"])
        #expect(Self.ask(bench, client, .drained) == ["d a 3", "value 1 3", "ok 2"], "the newest, then its requests in order")
        #expect(Self.ask(bench, client, .drained).isEmpty)
        // The end of the session also handles its earlier requests.
        #expect(Self.ask(bench, client, .congested, .put("b", 2), .get("b"), .end) == ["ok 1"])
        #expect(bench.content.root == ["a": 3, "b": 2] && client.hasEnded)
    }

    @Test func muchUnread_holdsTheNextRequests() {
        var limits = EngineLimits()
        limits.answerBytes = 20
        let bench = Self.bench(limits: limits, root: ["a": "0123456789"])
        let client = Client.make()
        // 20 bytes, and as many again, which is more than a window.
        let lines = Self.ask(bench, client, .get("a"), .get("a"), .get("a"))
        #expect(lines == [#"value 0 "0123456789""#, #"value 1 "0123456789""#, "probe"])
        #expect(Self.ask(bench, client, .drained) == [#"value 2 "0123456789""#])
    }

    @Test func anotherIdentity_ofManyObservers_givesWay() {
        var limits = EngineLimits()
        limits.removalsAtOnce = 2
        for (count, waits) in [(2, false), (3, true)] {
            let bench = Self.bench(limits: limits)
            let client = Client.make()
            for i in 0..<count { _ = Self.ask(bench, client, .listen(Path([Key("p\(i)")]))) }
            bench.run {
                bench.handler.handle(.init(.identify(Identity(auth: ["uid": "u"])), of: client))
                #expect((client.suspendedRequest != nil) == waits)
                bench.handler.handle(.init(.get("a"), of: client, token: 1))
            }
            bench.run {}
            #expect(bench.finish() == [#"identified 0 {"uid":"u"}"#, "value 1 1"])
            bench.run { bench.handler.handle(.init(.identify(Identity(auth: ["uid": "u"])), of: client)) }
            #expect(client.suspendedRequest == nil, "it is the same one")
            _ = bench.finish()
        }
    }

    @Test func steps_areRepeated() {
        let bench = Self.bench()
        let client = Client.make()
        bench.observe(Observation("a"), by: client)
        bench.run {
            bench.handler.repeatStep(.settled(.init(.identify(Identity(auth: ["uid": "u"])), of: client)))
            #expect(bench.outbox.bytes == 0 && client.identity.user == "u", "its answer has left before")
            bench.handler.repeatStep(.request(.init(.get("a"), of: client, token: 3)))
            bench.handler.repeatStep(.catchUp(client, [Observation("a"): .whole]))
        }
        #expect(bench.finish() == ["value 3 1", "d a 1"])
        bench.run {
            bench.handler.repeatStep(.tooLarge(client, Observation("a")))
            bench.handler.repeatStep(.applyEnded(PendingSession(id: "s", isAdmin: true, writes: [TreeWrite("gone", 1)])))
        }
        #expect(client.observations.count == 0 && bench.content.root == ["a": 1, "gone": 1])
        _ = bench.finish()
        bench.run {
            bench.handler.repeatStep(.relog("s"))
            bench.disconnects.applyDeferred()
            #expect(bench.batch.commits.map(\.pending) == [[.forget(session: "s")]])
            client.hasEnded = true
            for step in [
                BatchHistory.Step.request(.init(.put("a", 9), of: client)), .settled(.init(.signOut, of: client)), .catchUp(client, [:]),
            ] { bench.handler.repeatStep(step) }
        }
        #expect(client.identity.user == "u" && bench.content.root.child("a") == 1, "nothing more is done of what has ended")
        #expect(bench.finish().isEmpty)
    }

    @Test func repeatedRequest_waitsBehindAParkedOne() {
        let bench = Self.bench()
        bench.work.close()
        let client = Client.make()
        bench.run {
            bench.suspendedRequests.suspend(.init(.get("a"), of: client)) { 0 } then: { _ in }
            bench.handler.repeatStep(.request(.init(.get("a"), of: client, token: 1)))
            #expect(client.suspendedRequest?.held.count == 1 && bench.outbox.bytes == 0)
        }
        bench.work.open()
        bench.settle()
    }
}
