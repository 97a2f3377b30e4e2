@testable import HubEngine
import JSONTree
import SecurityRules
import Synchronization
import Testing

/// Requests for observers: the initial messages, their order, and the reasons for a failure.
@Suite(.timeLimit(.minutes(30))) struct ObserveRequestsTests {
    private static let rules = #"{"rules":{"q":{".read":true,".indexOn":".value"},"s":{".read":true},"m":{".read":"auth.uid === 'u'"}}}"#
    private static let plain = ObserverStyle.patches(tag: nil)
    private static let stream = ObserverStyle.stream(.plain)

    private static func bench(_ limits: EngineLimits = EngineLimits(), root: Node = ["q": ["a": 2, "b": 1], "s": "text"]) throws -> Bench {
        Bench(root: root, rules: try RuleSet(parsing: rules), limits: limits, lanes: 1)
    }

    private static func observe(_ bench: Bench, _ observation: Observation, _ client: Client, hash: String = "", token: Int64 = 0) {
        let request = Request.observe(observation.path, query: observation.query, style: observation.style, hash: hash)
        bench.run { bench.observers.observe(observation, hash: hash, .init(request, of: client, token: token)) }
    }

    @Test func firstContent_andAnswer_areInTheOrderOfTheStyle() throws {
        let bench = try Self.bench()
        let client = Client.make()
        Self.observe(bench, Observation("s"), client, token: 1)
        Self.observe(bench, Observation("s", style: .events(id: 7, kinds: .value)), client, token: 2)
        let query = TreeQuery(index: .value, limit: 1, viewFrom: .first)
        Self.observe(bench, Observation("q", query, style: .patches(tag: 3)), client, token: 3)
        #expect(bench.finish() == [#"d s "text""#, "ok 1", "ok 2", #"initial 7 "text""#, #"d q {"b":1}"#, "ok 3"])
        let streaming = Client(lane: 0, dialect: .rest)
        Self.observe(bench, Observation("s", style: Self.stream), streaming)
        let reply = Reply.observing(sequence: bench.content.sequence, lacksIndex: false)
        #expect(bench.finish() == ["\(reply)", #"d s "text""#])
        #expect(client.observations.count == 3 && streaming.observations.count == 1)
    }

    @Test func sameContent_isNotSentAgain() throws {
        let bench = try Self.bench()
        let hash = bench.content.root.child("s").hash
        Self.observe(bench, Observation("s"), .make(), hash: hash, token: 1)
        Self.observe(bench, Observation("s"), .make(), hash: "another", token: 2)
        Self.observe(bench, Observation("q/nothing"), .make(), token: 3)
        Self.observe(bench, Observation("q/nothing"), .make(), hash: "another", token: 4)
        #expect(bench.finish() == ["ok 1", #"d s "text""#, "ok 2", "ok 3", "d q/nothing null", "ok 4"])
    }

    @Test func observer_isToldOfCommits_fromThenOn() throws {
        let bench = try Self.bench()
        let client = Client.make()
        Self.observe(bench, Observation("q", TreeQuery(index: .value, limit: 1, viewFrom: .first)), client)
        _ = bench.finish()
        try bench.run { _ = try bench.commits.commit([TreeWrite("q/a", 0)], by: .client(.admin)) }
        #expect(Set(bench.finish()) == [#"m q {"b":null,"a":0}"#])
        bench.run { bench.observers.unobserve("q", Self.plain, .init(.unobserve("q", style: Self.plain), of: client, token: 5)) }
        try bench.run { _ = try bench.commits.commit([TreeWrite("q/a", 3)], by: .client(.admin)) }
        #expect(bench.finish() == ["ok 5"] && client.observations.count == 0)
    }

    @Test func refused_isAnswered_andThereNoMore() throws {
        var limits = EngineLimits()
        limits.listens = 1
        limits.queryBytes = 4
        let bench = try Self.bench(limits)
        let client = Client.make()
        Self.observe(bench, Observation("m"), client, token: 1)
        Self.observe(bench, Observation("q", TreeQuery(index: .value, start: .init(value: "12345"))), client, token: 2)
        Self.observe(bench, Observation("q", TreeQuery(index: .child("x"), limit: 1), style: Self.stream), client, token: 3)
        Self.observe(bench, Observation("s"), client, token: 4)
        Self.observe(bench, Observation("q"), client, token: 5)
        // A repeated request does not count as one more.
        Self.observe(bench, Observation("s"), client, token: 6)
        #expect(bench.finish() == [
            "error 1 permission_denied", "error 2 too_big", "error 3 missing_index", #"d s "text""#, "ok 4", "error 5 too_big",
            #"d s "text""#, "ok 6",
        ])
        // A client that is refused assumes that its observer is gone.
        bench.run { bench.content.deploy(.denyAll) }
        Self.observe(bench, Observation("s"), client, token: 7)
        #expect(bench.finish() == ["error 7 permission_denied"] && client.observations.count == 0)
    }

    @Test func subscriptionID_isTakenOnce() throws {
        let bench = try Self.bench()
        let client = Client.make()
        let events = Observation("s", style: .events(id: 7, kinds: .value))
        Self.observe(bench, events, client, token: 1)
        Self.observe(bench, Observation("q", style: .events(id: 7, kinds: .children)), client, token: 2)
        bench.run {
            bench.observers.unobserve(7, .init(.unobserveID(7), of: client, token: 3))
            bench.observers.unobserve(7, .init(.unobserveID(7), of: client, token: 4))
        }
        #expect(bench.finish() == ["ok 1", #"initial 7 "text""#, "error 2 duplicate_id", "ok 3", "error 4 unknown_sub"])
    }

    @Test func firstContent_hasSoManyBytes() throws {
        var limits = EngineLimits()
        // `d s ` and the text with its quotes.
        limits.readBytes = 10
        for (text, isTold) in [("1234", true), ("12345", false)] {
            let bench = try Self.bench(limits, root: ["s": .string(Text(text))])
            let client = Client.make()
            Self.observe(bench, Observation("s"), client)
            #expect(bench.finish() == (isTold ? ["d s \"\(text)\"", "ok 0"] : ["error 0 too_big"]))
            #expect(client.observations.count == (isTold ? 1 : 0))
        }
    }

    @Test func largeFirstContent_isEncodedLater_withItsAnswer() throws {
        var limits = EngineLimits()
        limits.inlineBytes = 20
        limits.readBytes = 100
        let bench = try Self.bench(limits, root: ["s": .string(Text(String(repeating: "x", count: 30)))])
        bench.work.close()
        let (plain, events, same, gone) = (Client.make(), Client.make(), Client.make(), Client.make())
        Self.observe(bench, Observation("s"), plain, token: 1)
        Self.observe(bench, Observation("s", style: .events(id: 7, kinds: .value)), events, token: 2)
        Self.observe(bench, Observation("s"), same, hash: bench.content.root.child("s").hash, token: 3)
        Self.observe(bench, Observation("s"), gone, token: 4)
        gone.isGone.store(true, ordering: .relaxed)
        bench.endBatch()
        #expect(bench.lines(to: plain) == ["later", "probe"])
        #expect(plain.lag?.isSuspended == false && events.lag?.isSuspended == true, "values may stand for older ones")
        bench.work.open()
        bench.settle()
        let text = "\"" + String(repeating: "x", count: 30) + "\""
        #expect(bench.lines(to: plain)[0] == "d s \(text)ok 1" && bench.lines(to: events)[0] == "ok 2initial 7 \(text)")
        #expect(bench.lines(to: same)[0] == "ok 3" && bench.lines(to: gone)[0] == "")
    }

    @Test func tooLargeAfterAll_isWithdrawn() throws {
        var limits = EngineLimits()
        limits.inlineBytes = 20
        limits.readBytes = 30
        let bench = try Self.bench(limits, root: ["s": .string(Text(String(repeating: "x", count: 40)))])
        bench.work.close()
        let (client, abandoned) = (Client.make(), Client.make())
        Self.observe(bench, Observation("s"), client, token: 1)
        bench.endBatch()
        #expect(client.observations.count == 1)
        bench.work.open()
        bench.settle()
        #expect(bench.lines() == ["error 1 too_big", "probe"] && client.observations.count == 0)
        // The batch was rolled back, but the observer has been created again and stays.
        bench.work.close()
        Self.observe(bench, Observation("s"), abandoned, token: 2)
        let givenUp = bench.run { bench.outbox.end(next: 9) }
        givenUp.giveUp()
        bench.work.open()
        bench.settle()
        withExtendedLifetime(givenUp) { #expect(abandoned.observations.count == 1) }
    }

    @Test func parkedObserver_isPermittedAgain_andRestsOnNothingUntilItIsThere() throws {
        var limits = EngineLimits()
        limits.inlineChildren = 1
        let rules = #"{"rules":{"q":{".read":"root.child('open').val() === true",".indexOn":".value"}}}"#
        for staysOpen in [true, false] {
            let bench = Bench(root: ["open": true, "q": ["a": 2, "b": 1]], rules: try RuleSet(parsing: rules), limits: limits, lanes: 1)
            bench.work.close()
            let client = Client.make()
            Self.observe(bench, Observation("q", TreeQuery(index: .value, limit: 1)), client)
            #expect(client.suspendedRequest != nil && client.observations.count == 0 && bench.places.dependentCount == 0)
            if !staysOpen { try bench.run { _ = try bench.commits.commit([TreeWrite("open", false)], by: .client(.admin)) } }
            bench.work.open()
            bench.settle()
            #expect(bench.finish() == (staysOpen ? [#"d q {"a":2}"#, "ok 0"] : ["error 0 permission_denied"]))
            #expect(client.observations.count == (staysOpen ? 1 : 0) && (bench.places.dependentCount > 0) == staysOpen)
        }
    }
}
