import HubEngine
import JSONTree
import SecurityRules
import Testing
import TestSupport

/// A hub whose disk refuses answers writes with an error; everything else continues with the durable content.
@Suite(.timeLimit(.minutes(30))) struct RefusalTests {
    private func member(_ rules: String) throws -> RuleSet { try RuleSet(parsing: "{\"rules\":\(rules)}") }

    @Test func refusedWrites_areAnswered_andNobodyElseSeesAnything() {
        let log = FlakyLog()
        let hub = EngineHarness(log: log, limits: .patient)
        let (writer, watcher, reader) = (Client.make(), Client.make(lane: 1), Client.make())
        _ = hub.ask(watcher, .listen("a"))
        _ = hub.ask(writer, .put("a", 1))
        log.complete()
        #expect(hub.take(writer) == ["ok 0"] && hub.take(watcher) == ["d a 1"])
        #expect(hub.ask(writer, .put("a", 2)) == [])
        #expect(hub.ask(reader, .get("a"), .listen("a")) == [], "they have seen the 2")
        #expect(hub.ask(writer, .put("b", 3), .get("b")) == [])
        log.refuse()
        #expect(hub.take(writer) == ["error 0 unavailable", "error 0 unavailable", "value 1 null"])
        #expect(hub.take(reader) == ["value 0 1", "d a 1", "ok 1"], "the truth, in the order of asking")
        #expect(hub.take(watcher) == [])
        #expect(hub.ask(writer, .put("a", 4)) == ["error 0 unavailable"], "at once, and nothing is appended")
        #expect(hub.ask(writer, .get("a")) == ["value 0 1"])
        #expect(log.isIdle && log.root == ["a": 1])
        let counters = hub.database.counters
        #expect(counters.refusal == .diskFull && counters.refusals == 1 && counters.refusedWrites == 3 && counters.waitingBytes == 0)
    }

    @Test func writes_ofWhichTheOutcomeIsUnknown_areToldSo_andThoseAfterThemAreNot() {
        let log = FlakyLog()
        let hub = EngineHarness(log: log, limits: .patient)
        // Replies to this client are not encoded as lines: their texts show.
        let client = Client(lane: 0, dialect: .rest)
        #expect(hub.ask(client, .put("a", 1)) == [])
        log.refuse(.outcomeUnknown)
        let told = hub.take(client)
        #expect(told.count == 1 && told[0].contains("it is not known whether"), "\(told)")
        let later = hub.ask(client, .put("a", 2))
        #expect(later.count == 1 && later[0].contains("Nothing of this write was stored"), "\(later)")
        #expect(hub.database.counters.refusal == .diskFailed)
    }

    @Test func everyKindOfWrite_isRefused_unlessSomethingElseSpeaksAgainstIt() throws {
        let log = FlakyLog(root: ["a": 1])
        let hub = EngineHarness(rules: try member(#"{"a":{".read":true,".write":true}}"#), root: ["a": 1], log: log, limits: .patient)
        let client = Client.make()
        _ = hub.ask(client, .put("a", 2))
        log.refuse()
        #expect(hub.take(client) == ["error 0 unavailable"])
        let stale = Request.write([TreeWrite("a", WriteValue(3))], condition: Condition("a", hash: "other"))
        let fresh = Request.write([TreeWrite("a", WriteValue(3))], condition: Condition("a", hash: (1 as Node).hash))
        #expect(
            hub.ask(
                client, .merge(["a/x": 1, "a/y": 2]), .push("a", WriteValue(1)), .onDisconnect([TreeWrite("a", WriteValue(1))]), stale,
                fresh, .put("z", 1), .write([])) == [
                    "error 0 unavailable", "error 1 unavailable", "error 2 unavailable", "error 3 datastale", "error 4 unavailable",
                    "error 5 permission_denied", "ok 6",
                ])
        #expect(hub.ask(client, .cancelOnDisconnect("a"), .end) == ["ok 0"], "nothing was pending")
        #expect(log.isIdle)
    }

    @Test(arguments: [0, 1]) func log_isTriedAgain_whenItIsTime(late: Int64) {
        let log = FlakyLog()
        let hub = EngineHarness(log: log, limits: .patient)
        let client = Client.make()
        _ = hub.ask(client, .put("a", 1))
        log.refuse()
        hub.settle()
        hub.time.advance(ms: Int64(EngineLimits.patient.retryMs) - 1 + late)
        #expect(hub.ask(client, .put("a", 2)) == ["error 0 unavailable", "error 0 unavailable"])
        #expect(log.isIdle == (late == 0))
        guard late == 1 else { return }
        hub.passRetryTime()
        #expect(hub.ask(client, .put("a", 3)) == ["error 0 unavailable"])
        #expect(log.appended == 2, "one try at a time")
        log.complete(.failure(.diskFailed))
        hub.settle()
        #expect(hub.database.counters.refusal == .diskFailed)
        hub.passRetryTime()
        #expect(hub.ask(client, .get("a")) == ["value 0 null"])
        log.complete()
        hub.settle()
        #expect(hub.database.counters.refusal == nil && log.isIdle)
        #expect(hub.ask(client, .put("a", 4)) == [])
        log.complete()
        #expect(hub.take(client) == ["ok 0"] && log.root == ["a": 4])
        #expect(hub.database.counters.refusals == 1)
    }

    @Test func log_isTriedAgain_whenNobodyAsks() {
        let log = FlakyLog()
        var limits = EngineLimits()
        limits.retryMs = 1_000
        let hub = EngineHarness(log: log, limits: limits)
        let client = Client.make()
        _ = hub.ask(client, .put("a", 1))
        log.refuse()
        hub.settle()
        for tries in 1...3 {
            hub.time.advance(ms: 999)
            #expect(log.isIdle && log.appended == tries)
            hub.time.advance(ms: 1)
            #expect(log.appended == tries + 1)
            log.complete(.failure(.diskFull))
            hub.settle()
            #expect(hub.database.counters.refusal != nil)
        }
        hub.time.advance(ms: 1_000)
        log.complete()
        hub.settle()
        #expect(hub.database.counters.refusal == nil)
        hub.time.advance(seconds: 3600)
        #expect(log.isIdle && log.appended == 5 && hub.time.waiting == 0)
    }

    /// A clock that is set while the disk is full neither hastens nor delays the next retry.
    @Test(arguments: [365 * 86_400, -365 * 86_400] as [Int64]) func log_isTriedAgain_byTimeGoneBy(step: Int64) {
        let log = FlakyLog()
        let hub = EngineHarness(log: log, limits: .patient)
        let client = Client.make()
        _ = hub.ask(client, .put("a", 1))
        log.refuse()
        hub.settle()
        hub.time.step(seconds: step)
        #expect(hub.ask(client, .put("a", 2)) == ["error 0 unavailable", "error 0 unavailable"])
        #expect(log.isIdle)
        hub.passRetryTime()
        #expect(!log.isIdle)
    }

    @Test func sessions_goBackToWhatIsDurable() throws {
        let log = FlakyLog(root: ["open": 1])
        let rules = try member(
            #"{".write":true,"open":{".read":true},"s":{".read":"root.child('open').val() == 1"},"u":{".read":"auth.uid == 'ana'"}}"#)
        let hub = EngineHarness(rules: rules, root: ["open": 1, "s": 5, "u": 6], log: log, limits: .patient)
        let (watcher, writer, late) = (Client.make(), Client.make(), Client.make())
        #expect(hub.ask(watcher, .listen("s"), .begin(sessionID: "old", replacing: nil)) == ["d s 5", "ok 0"])
        _ = hub.ask(writer, .put("open", 2))
        #expect(
            hub.ask(late, .identify(Identity(auth: ["uid": "ana"])), .listen("u"), .listen("s"), .begin(sessionID: "new", replacing: "old"))
                == [#"identified 0 {"uid":"ana"}"#], "who somebody is needs no disk")
        log.refuse()
        #expect(hub.take(watcher) == ["close"], "not the cancellation, but the takeover")
        #expect(hub.take(late) == ["d u 6", "ok 1", "d s 5", "ok 2"])
        #expect(hub.ask(late, .signOut) == ["ok 0", "cancelled /u"])
        hub.passRetryTime()
        #expect(hub.ask(writer, .put("s", 7)) == ["error 0 unavailable", "error 0 unavailable"])
        log.complete()
        #expect(hub.ask(writer, .put("s", 8)) == [])
        log.complete()
        #expect(hub.take(late) == ["d s 8"])
    }

    @Test func slowReader_isCaughtUpWithTheTruth_whenWhatItWasToldIsGivenUp() {
        let log = FlakyLog()
        let hub = EngineHarness(log: log, limits: .patient)
        let (slow, writer) = (Client.make(), Client.make())
        _ = hub.ask(slow, .listen("a"), .congested)
        _ = hub.ask(writer, .put("a", 1))
        log.complete()
        #expect(hub.take(slow) == [])
        _ = hub.ask(writer, .put("a", 2))
        #expect(hub.ask(slow, .drained) == [])
        log.refuse()
        #expect(hub.take(slow) == ["d a 1"])
    }

    @Test func rulesReplacedMeanwhile_stay_andCancel() throws {
        let log = FlakyLog()
        let hub = EngineHarness(log: log, limits: .patient)
        let (watcher, writer) = (Client.make(), Client.make())
        _ = hub.ask(watcher, .listen("a"))
        _ = hub.ask(writer, .put("a", 1))
        hub.database.replace(try member(#"{".write":true}"#))
        #expect(hub.take(watcher) == [])
        log.refuse()
        #expect(hub.take(watcher) == ["cancelled /a"])
        #expect(hub.ask(writer, .get("a")) == ["error 0 unavailable", "error 0 permission_denied"])
    }
}
