import HubEngine
import JSONTree
import Synchronization
import Testing
@testable import SecurityRules

/// Pending onDisconnect writes are durable, and run once whatever fails (contract §6.2).
@Suite(.timeLimit(.minutes(30))) struct PendingDurabilityTests {
    private func write(_ path: Path, _ value: Node = 1) -> TreeWrite { TreeWrite(path, WriteValue(value)) }

    @Test func registration_isAnsweredWhenDurable_andKnownToTheNextProcess() {
        let log = FlakyLog()
        let hub = EngineHarness(log: log)
        let client = Client.make()
        let ana = Identity(auth: ["uid": "ana"])
        #expect(hub.ask(client, .begin(sessionID: "s1", replacing: nil), .identify(ana)) == ["identified 1 {\"uid\":\"ana\"}"])
        #expect(hub.ask(client, .onDisconnect([write("a/x"), write("a/y")])) == [])
        log.completeAll()
        #expect(hub.take(client) == ["ok 0"])
        #expect(log.sessions.map(\.id) == ["s1"] && log.sessions[0].auth == ["uid": "ana"] && log.sessions[0].writes.writes.count == 2)
        _ = hub.ask(client, .cancelOnDisconnect("a/x"), .identify(.admin))
        log.completeAll()
        #expect(log.sessions[0].writes.writes == [write("a/y")] && log.sessions[0].isAdmin)
        _ = hub.ask(client, .cancelOnDisconnect("a"))
        log.completeAll()
        #expect(log.sessions.isEmpty)
        _ = hub.ask(client, .end)
        #expect(log.isIdle, "nothing was left")
    }

    @Test func end_writesAndForgetsInOneCommit() {
        let log = FlakyLog()
        let hub = EngineHarness(log: log)
        let client = Client.make()
        _ = hub.ask(client, .onDisconnect([write("gone")]))
        log.completeAll()
        #expect(log.sessions.count == 1)
        _ = hub.ask(client, .end)
        log.completeAll()
        #expect(log.sessions.isEmpty && log.root == ["gone": 1])
        #expect(log.isIdle)
    }

    @Test func refusedAtTheEnd_isForgottenAllTheSame() throws {
        let log = FlakyLog()
        let hub = EngineHarness(log: log)
        let client = Client.make()
        _ = hub.ask(client, .onDisconnect([write("a"), write("b")]))
        log.completeAll()
        hub.database.replace(try RuleSet(parsing: #"{"rules":{"b":{".write":true}}}"#))
        _ = hub.ask(client, .end)
        log.completeAll()
        #expect(log.sessions.isEmpty && log.root == ["b": 1])
        let other = Client.make()
        _ = hub.ask(other, .onDisconnect([write("b")]))
        log.completeAll()
        hub.database.replace(.denyAll)
        _ = hub.ask(other, .end)
        log.completeAll()
        #expect(log.sessions.isEmpty)
    }

    /// Rules may spend as much work on texts for each write as for one operation, and no more than that for all together.
    @Test(arguments: [3, 40]) func writesThatAreTooMuchTogether_areMadeOneByOne_asFarAsTheirWorkGoes(count: Int) throws {
        let log = FlakyLog()
        let rules = try RuleSet(parsing: #"{"rules":{".write":true,"$k":{".validate":"newData.val().contains('z')"}}}"#, textWork: 10_000)
        let hub = EngineHarness(rules: rules, log: log)
        let client = Client.make()
        let text = Node.string(Text(String(repeating: "y", count: 6_000) + "z"))
        for i in 0..<count { _ = hub.ask(client, .onDisconnect([write(Path([Key("k\(100 + i)")]), text)])) }
        log.completeAll()
        let before = log.appended
        _ = hub.ask(client, .end)
        #expect(log.appended == before + 1, "in one piece")
        log.completeAll()
        #expect(log.sessions.isEmpty)
        // Twice the work of one operation: one half decides about three writes, the other half makes them.
        #expect(log.root.childCount == 3)
    }

    @Test func nextProcess_writesEachSessionAsOneCommit_withItsIdentity_onceOnly() throws {
        var left = PendingSession(id: "s1", auth: ["uid": "ana"])
        left.writes.add(write("users/ana/on", false))
        left.writes.add(write("users/bo/on", false))
        var admin = PendingSession(id: "s2", isAdmin: true)
        admin.writes.add(write("log/x"))
        let log = FlakyLog()
        let rules = try RuleSet(parsing: #"{"rules":{"users":{"$u":{".write":"auth.uid == $u"}}}}"#)
        let hub = EngineHarness(rules: rules, root: ["users": ["ana": ["on": true], "bo": ["on": true]]], pending: [left, admin], log: log)
        hub.settle()
        log.completeAll()
        #expect(log.root == ["users": ["ana": ["on": false]], "log": ["x": 1]])
        #expect(hub.ask(.make(), .identify(.admin), .get("users"))
            == ["identified 0 null", #"value 1 {"ana":{"on":false},"bo":{"on":true}}"#])
        #expect(log.isIdle)
    }

    @Test func manyOfTheProcessBefore_areWrittenATurnAtATime_beforeTheFirstRequest() {
        let left = (0..<20).map { i in
            var session = PendingSession(id: "s\(i)", isAdmin: true)
            session.writes.add(write(Path(["x", Key("k\(i)")])))
            return session
        }
        var limits = EngineLimits.patient
        limits.turnWork = 8
        let log = FlakyLog()
        let hub = EngineHarness(pending: left, log: log, limits: limits)
        let (reader, writer) = (Client.make(), Client.make())
        hub.database.submit(.get("x/k19"), from: reader)
        hub.database.submit(.put("y", 1), from: writer)
        // At least one turn passes each time.
        for _ in 0..<20 { hub.settle() }
        #expect(log.appended == 5 + 1 && hub.take(writer).isEmpty, "a batch for each turn, then the request's")
        log.completeAll()
        #expect(hub.take(reader) == ["value 0 1"] && hub.take(writer) == ["ok 0"])
        #expect(log.root.child("x").childCount == 20 && log.sessions.isEmpty)
    }

    @Test func cancelledAndKeptAgain_isLeftOnce() {
        let log = FlakyLog()
        let hub = EngineHarness(log: log)
        let client = Client.make()
        _ = hub.ask(
            client, .begin(sessionID: "s1", replacing: nil), .onDisconnect([write("a")]), .cancelOnDisconnect("a"),
            .onDisconnect([write("b")]))
        log.completeAll()
        #expect(log.sessions.map(\.writes.writes) == [[write("b")]], "one session, so that the next process writes once")
    }

    @Test func refusedSteps_areNotTaken_andWhatWasPendingStays() {
        let log = FlakyLog()
        let hub = EngineHarness(log: log, limits: .patient)
        let (client, other) = (Client.make(), Client.make())
        _ = hub.ask(client, .onDisconnect([write("gone")]))
        _ = hub.ask(other, .onDisconnect([write("kept"), write("cancelled")]))
        log.completeAll()
        _ = (hub.take(client), hub.take(other))
        _ = hub.ask(client, .cancelOnDisconnect("gone"), .onDisconnect([write("new")]))
        _ = hub.ask(other, .cancelOnDisconnect("cancelled"), .identify(Identity(auth: ["uid": "ana"])))
        log.refuse()
        #expect(hub.take(client) == ["error 0 unavailable", "error 1 unavailable"])
        #expect(hub.take(other) == ["error 0 unavailable", #"identified 1 {"uid":"ana"}"#])
        #expect(log.sessions.map(\.writes.writes) == [[write("gone")], [write("kept"), write("cancelled")]])
        _ = hub.ask(client, .end)
        #expect(log.isIdle && log.root.isNull, "it is owed")
        hub.passRetryTime()
        _ = hub.ask(other, .get("gone"))
        log.complete()
        hub.settle()
        log.completeAll()
        hub.settle()
        #expect(log.root == ["gone": 1])
        #expect(log.sessions.map(\.auth) == [["uid": "ana"]], "the log knows by now who is to write")
        _ = hub.ask(other, .end)
        log.completeAll()
        #expect(log.sessions.isEmpty && log.root == ["gone": 1, "kept": 1, "cancelled": 1])
        #expect(log.isIdle)
    }

    @Test func refusedEnd_isOwed_andWrittenOnce() {
        let log = FlakyLog()
        let hub = EngineHarness(log: log, limits: .patient)
        let client = Client.make()
        _ = hub.ask(client, .onDisconnect([write("gone")]))
        log.completeAll()
        _ = hub.ask(client, .onDisconnect([write("refused")]), .end)
        log.refuse()
        hub.settle()
        let left = Mutex<[PendingSession]>([])
        hub.database.snapshot { _, _, pending in left.withLock { $0 = pending } }
        hub.settle()
        #expect(left.withLock { $0.map(\.writes.writes) } == [[write("gone")]], "a snapshot now would have it")
        #expect(log.root.isNull)
        hub.passRetryTime()
        let other = Client.make()
        #expect(hub.ask(other, .get("gone")) == ["value 0 null"])
        log.complete()
        hub.settle()
        log.refuse()
        hub.passRetryTime()
        #expect(hub.ask(other, .get("gone")) == ["value 0 null"], "refused again, and owed again")
        log.complete()
        #expect(hub.ask(other, .get("gone")) == [])
        log.completeAll()
        #expect(hub.take(other) == ["value 0 1"])
        #expect(log.root == ["gone": 1] && log.sessions.isEmpty)
        #expect(log.isIdle)
    }

    @Test func abandonedByTheProcessBefore_refused_isOwed() {
        var left = PendingSession(id: "s1", isAdmin: true)
        left.writes.add(write("x"))
        let log = FlakyLog()
        let hub = EngineHarness(pending: [left], log: log, limits: .patient)
        hub.settle()
        log.refuse()
        hub.passRetryTime()
        #expect(hub.ask(.make(), .get("x")) == ["value 0 null"])
        log.complete()
        hub.settle()
        log.completeAll()
        hub.settle()
        #expect(log.root == ["x": 1] && log.sessions.isEmpty && log.isIdle)
    }
}
