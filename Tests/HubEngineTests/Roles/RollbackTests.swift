@testable import HubEngine
import JSONTree
import SecurityRules
import TestSupport
import Testing

/// Batches that the log refuses: content and sessions are rolled back, and the requests run again.
@Suite(.timeLimit(.minutes(30))) struct RollbackTests {
    /// A bench whose pipeline rolls back batches that the log refuses.
    private static func bench(root: Node = .null, rules: RuleSet = .allowAll, limits: EngineLimits = .patient) -> Bench {
        let bench = Bench(root: root, rules: rules, limits: limits, lanes: 1)
        bench.durability.onRefused = { [weak bench] in
            bench?.rollback.run($0)
            bench?.loop.scheduleTurn()
        }
        bench.suspendedRequests.onResumed = { [weak bench] items, client in bench?.loop.resume(items, of: client) }
        bench.permissions.onStreamCancelled = { [weak bench] in bench?.sessions.end($0) }
        return bench
    }

    /// Handles requests as one batch; the first one's answer has the number 0.
    private static func batch(_ bench: Bench, _ client: Client, _ requests: Request...) {
        bench.run { bench.loop.handle(requests.enumerated().map { .init($1, of: client, token: Int64($0)) }) }
    }

    private static func refuse(_ bench: Bench, _ reason: CommitRefusal = .diskFull) {
        bench.log.refuse(reason)
        for _ in 0..<3 { bench.run {} }
    }

    @Test func batches_areCarriedOutAgain_inTheirOrder() {
        let bench = Self.bench(root: ["a": 0])
        let (one, two) = (Client.make(), Client.make())
        Self.batch(bench, one, .put("a", 1), .get("a"))
        Self.batch(bench, two, .get("a"), .put("b", 2))
        Self.batch(bench, one, .get("b"), .answer(Array("x".utf8)))
        #expect(bench.lines().isEmpty && bench.content.root == ["a": 1, "b": 2])
        Self.refuse(bench)
        #expect(bench.lines(to: one) == ["error 0 unavailable", "value 1 0", "value 0 null", "x"])
        #expect(bench.lines(to: two) == ["value 0 0", "error 1 unavailable"])
        #expect(bench.content.root == ["a": 0] && bench.content.sequence == 0 && bench.commits.recent.places(since: 0) == [])
        #expect(bench.durability.waitingCommits == 0 && bench.context.meter.counters.refusals == 1)
        #expect(bench.context.meter.counters.refusal == .diskFull)
    }

    @Test func whatWasDurable_staysSaid() {
        let bench = Self.bench()
        let client = Client.make()
        Self.batch(bench, client, .put("a", 1))
        Self.batch(bench, client, .put("a", 2))
        bench.log.complete()
        bench.run {}
        Self.refuse(bench)
        #expect(bench.lines() == ["ok 0", "error 0 unavailable"])
        #expect(bench.content.root == ["a": 1] && bench.content.sequence == 1)
    }

    @Test func changes_areUndoneNewestFirst() {
        let bench = Self.bench(rules: .allowAll)
        let client = Client.make()
        Self.batch(bench, client, .begin(sessionID: "s", replacing: nil), .put("x", 1))
        bench.log.completeAll()
        bench.run {}
        _ = bench.lines()
        // Each of them changes the disconnect writes of the previous one.
        Self.batch(bench, client, .onDisconnect([TreeWrite("a", 1)]))
        Self.batch(bench, client, .onDisconnect([TreeWrite("b", 1)]))
        Self.batch(bench, client, .end)
        #expect(bench.content.root == ["x": 1, "a": 1, "b": 1])
        Self.refuse(bench)
        // The end of the session ran again, with no disconnect writes left.
        #expect(client.hasEnded && client.pendingID == nil && client.pending.isEmpty)
        #expect(bench.content.root == ["x": 1] && bench.disconnects.pendingSessions.isEmpty)
    }

    @Test func session_isAsBefore_whenItsEndIsUndone() {
        let bench = Self.bench(root: ["a": 1])
        let (old, new) = (Client.make(), Client.make())
        Self.batch(bench, old, .begin(sessionID: "s", replacing: nil), .listen("a"), .onDisconnect([TreeWrite("gone", 1)]))
        bench.log.completeAll()
        bench.run {}
        #expect(bench.lines() == ["d a 1", "ok 1", "ok 2"])
        Self.batch(bench, new, .begin(sessionID: "t", replacing: "s"))
        Self.refuse(bench)
        // Run again, it takes the session over as before; the old session's disconnect writes are pending.
        #expect(old.hasEnded && bench.lines() == ["close"] && bench.content.root == ["a": 1])
        #expect(bench.disconnects.pendingSessions.map(\.id) == ["s"])
    }

    @Test func observers_seeTheDurableContent() {
        let bench = Self.bench(root: ["q": ["a": 1, "b": 2, "c": 3]])
        let (before, during) = (Client.make(), Client.make())
        let query = TreeQuery(index: .value, limit: 1, viewFrom: .last)
        Self.batch(bench, before, .observe("q", query: query, style: .patches(tag: 1), hash: ""))
        #expect(bench.lines() == [#"d q {"c":3}"#, "ok 0 no_index"])
        Self.batch(bench, during, .put("q/a", 9), .observe("q", query: query, style: .patches(tag: 1), hash: ""))
        Self.refuse(bench)
        #expect(bench.lines(to: before).isEmpty, "it was told nothing of what was taken back")
        #expect(bench.lines(to: during) == ["error 0 unavailable", #"d q {"c":3}"#, "ok 1 no_index"])
        _ = bench.lines()
        // The window was rolled back with the content: another commit continues from there.
        bench.time.advance(ms: Int64(bench.context.limits.retryMs))
        bench.run {}
        bench.log.completeAll()
        bench.run {}
        Self.batch(bench, during, .put("q/c", .null))
        bench.log.completeAll()
        bench.run {}
        let moved = bench.lines(to: before)
        #expect(moved == [#"m q {"c":null,"b":2}"#] || moved == [#"m q {"b":2,"c":null}"#])
    }

    @Test func rulesOfNow_decideBeforeAnythingIsTold() {
        let bench = Self.bench(root: ["a": 1])
        let client = Client.make()
        Self.batch(bench, client, .listen("a"))
        _ = bench.lines()
        Self.batch(bench, client, .put("a", 2), .get("a"))
        // Deployed while the batch waits, independently of it.
        bench.run { bench.content.deploy(.denyAll) }
        Self.refuse(bench)
        #expect(bench.lines() == ["cancelled /a", "error 0 permission_denied", "error 1 permission_denied"])
    }

    @Test func settledAnswer_isNotGivenTwice() {
        let bench = Self.bench()
        let (writer, other) = (Client.make(), Client.make())
        Self.batch(bench, writer, .put("a", 1))
        Self.batch(bench, other, .identify(Identity(auth: ["uid": "u"])), .listen("b"))
        #expect(bench.lines() == [#"identified 0 {"uid":"u"}"#], "it needs no log")
        Self.refuse(bench)
        #expect(bench.lines() == ["error 0 unavailable", "ok 1"])
        #expect(other.identity.user == "u" && other.observations.count == 1)
    }

    @Test func parkedRequest_isBegunAgain_behindWhatCameBefore() {
        let bench = Self.bench(root: ["a": 0])
        bench.work.close()
        let client = Client.make()
        let many = (0...bench.context.limits.largeWritePlaces).map { TreeWrite("m/\($0)", 1) }
        Self.batch(bench, client, .put("a", 1), .write(many), .get("a"))
        #expect(client.suspendedRequest != nil)
        let old = client.suspendedRequest
        Self.refuse(bench)
        #expect(bench.lines() == ["error 0 unavailable", "error 1 unavailable", "value 2 0"])
        bench.work.open()
        bench.settle()
        #expect(client.suspendedRequest == nil && old != nil && bench.lines().isEmpty && bench.content.root == ["a": 0], "its first work is in vain")
    }

    @Test func settledAnswer_ofManyObservers_isNotGivenTwice() {
        var limits = EngineLimits.patient
        limits.removalsAtOnce = 2
        let bench = Self.bench(limits: limits)
        let (writer, other) = (Client.make(), Client.make())
        Self.batch(bench, other, .listen("b"), .listen("c"), .listen("d"))
        _ = bench.lines()
        Self.batch(bench, writer, .put("a", 1))
        Self.batch(bench, other, .identify(Identity(auth: ["uid": "u"])), .get("a"))
        bench.run {}
        #expect(bench.lines() == [#"identified 0 {"uid":"u"}"#], "it needs no log")
        Self.refuse(bench)
        #expect(bench.lines() == ["error 0 unavailable", "value 1 null"])
        #expect(other.identity.user == "u" && other.suspendedRequest == nil)
    }

    @Test func heldBackClient_isProbedAgain() {
        let bench = Self.bench()
        let client = Client.make()
        Self.batch(bench, client, .put("a", 1))
        bench.run {
            bench.slowReaders.holdUntilReceived(client, suspends: false)
            bench.durability.finishBatch()
        }
        Self.refuse(bench)
        #expect(bench.lines().filter { $0 == "probe" }.count == 1 && client.lag != nil)
    }

    @Test func unknownOutcome_isSaidOnlyOfWhatWasGivenToTheLog() {
        let bench = Self.bench()
        let client = Client(lane: 0, dialect: .rest)
        Self.batch(bench, client, .put("a", 1))
        Self.refuse(bench, .outcomeUnknown)
        func refused(_ reason: CommitRefusal) -> [String] { ["\(Reply.failed(Failure(.unavailable, reason.text)))"] }
        #expect(bench.lines() == refused(.outcomeUnknown))
        Self.batch(bench, client, .put("a", 1))
        #expect(bench.lines() == refused(.diskFailed), "what comes now is not given to it")
    }
}
