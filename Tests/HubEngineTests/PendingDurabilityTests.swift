import HubEngine
import JSONTree
import SecurityRules
import Synchronization
import Testing

/// Pending onDisconnect writes are durable, and carried out once whatever fails (contract §6.2).
@Suite struct PendingDurabilityTests {
    /// A log that records what became durable; it completes when the test says so.
    private final class RecordingLog: CommitLog {
        struct Failed: Error {}
        private struct State {
            var waiting: [(commits: [Commit], done: @Sendable (Result<Void, any Error>) -> Void)] = []
            var pending = PendingSessions()
            var root = Node.null
        }
        private let state = Mutex(State())
        var isImmediate: Bool { false }

        func append(_ commits: [Commit], completion: @escaping @Sendable (Result<Void, any Error>) -> Void) {
            state.withLock { $0.waiting.append((commits, completion)) }
        }

        func complete(_ succeeds: Bool = true) {
            let done = state.withLock { state in
                let (commits, done) = state.waiting.removeFirst()
                guard succeeds else { return done }
                for commit in commits {
                    for operation in commit.operations { state.root.set(operation.value, at: operation.path) }
                    for change in commit.pending { state.pending.apply(change) }
                }
                return done
            }
            done(succeeds ? .success(()) : .failure(Failed()))
        }

        /// Requests handed over one by one may have been handled as one batch or as several.
        func completeAll() { while !isIdle { complete() } }

        var sessions: [PendingSession] { state.withLock { $0.pending.sessions } }
        var root: Node { state.withLock { $0.root } }
        var isIdle: Bool { state.withLock { $0.waiting.isEmpty } }
    }

    private func write(_ path: Path, _ value: Node = 1) -> TreeWrite { TreeWrite(path, WriteValue(value)) }

    @Test func registration_isAnsweredWhenDurable_andKnownToTheNextProcess() {
        let log = RecordingLog()
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
        let log = RecordingLog()
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
        let log = RecordingLog()
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

    @Test func nextProcess_writesEachSessionAsOneCommit_withItsIdentity_onceOnly() throws {
        var left = PendingSession(id: "s1", auth: ["uid": "ana"])
        left.writes.add(write("users/ana/on", false))
        left.writes.add(write("users/bo/on", false))
        var admin = PendingSession(id: "s2", isAdmin: true)
        admin.writes.add(write("log/x"))
        let log = RecordingLog()
        let rules = try RuleSet(parsing: #"{"rules":{"users":{"$u":{".write":"auth.uid == $u"}}}}"#)
        let hub = EngineHarness(rules: rules, root: ["users": ["ana": ["on": true], "bo": ["on": true]]], pending: [left, admin], log: log)
        hub.settle()
        log.completeAll()
        #expect(log.root == ["users": ["ana": ["on": false]], "log": ["x": 1]])
        #expect(hub.ask(.make(), .identify(.admin), .get("users")) == ["identified 0 null", #"value 1 {"ana":{"on":false},"bo":{"on":true}}"#])
        #expect(log.isIdle)
    }

    @Test func cancelledAndKeptAgain_isLeftOnce() {
        let log = RecordingLog()
        let hub = EngineHarness(log: log)
        let client = Client.make()
        _ = hub.ask(client, .begin(sessionID: "s1", replacing: nil), .onDisconnect([write("a")]), .cancelOnDisconnect("a"), .onDisconnect([write("b")]))
        log.completeAll()
        #expect(log.sessions.map(\.writes.writes) == [[write("b")]], "one session, so that the next process writes once")
    }

    @Test func givenUpCancel_isToldAgain_soThatNoLaterProcessMakesTheWrite() {
        let log = RecordingLog()
        let hub = EngineHarness(log: log)
        let (client, other) = (Client.make(), Client.make())
        _ = hub.ask(client, .onDisconnect([write("gone")]))
        _ = hub.ask(other, .onDisconnect([write("kept"), write("cancelled")]))
        log.completeAll()
        _ = hub.ask(client, .cancelOnDisconnect("gone"))
        _ = hub.ask(other, .cancelOnDisconnect("cancelled"), .onDisconnect([write("more")]))
        while !log.isIdle { log.complete(false) }
        #expect(hub.take(client).last == "close" && hub.take(other).last == "close")
        #expect(log.sessions.map(\.writes.writes.count) == [1, 2])
        _ = hub.ask(client, .end)
        log.completeAll()
        #expect(log.sessions.map(\.writes.writes) == [[write("kept"), write("more")]] && log.root.isNull)
        _ = hub.ask(other, .end)
        log.completeAll()
        #expect(log.sessions.isEmpty && log.root == ["kept": 1, "more": 1])
        #expect(log.isIdle)
    }

    @Test func givenUpEnd_isOwed_andWrittenOnce() {
        let log = RecordingLog()
        let hub = EngineHarness(log: log)
        let client = Client.make()
        _ = hub.ask(client, .onDisconnect([write("gone")]))
        log.completeAll()
        _ = hub.ask(client, .end)
        log.complete(false)
        hub.settle()
        let left = Mutex<[PendingSession]>([])
        hub.database.snapshot { _, _, pending in left.withLock { $0 = pending } }
        hub.settle()
        #expect(left.withLock { $0.map(\.writes.writes) } == [[write("gone")]], "a snapshot now would have it")
        #expect(log.root.isNull)
        let other = Client.make()
        _ = hub.ask(other, .get("gone"))
        log.completeAll()
        #expect(hub.take(other) == ["value 0 1"])
        #expect(log.root == ["gone": 1] && log.sessions.isEmpty)
        #expect(log.isIdle)
    }
}
