import HubEngine
import JSONTree
import Testing

/// What happens to a client while one of its requests is suspended.
@Suite(.timeLimit(.minutes(30))) struct SuspendedClientTests {
    private static let three = Request.merge(["a/x": 1, "a/y": 2, "a/z": 3])
    private static let stored: Node = ["a": ["x": 1, "y": 2, "z": 3]]

    @Test func endOfTheSession_waitsForTheParkedWrite_thenItsOnDisconnectFires() throws {
        let it = try GatedHarness()
        let one = Client.make()
        _ = it.ask(one, .onDisconnect([TreeWrite("gone", WriteValue(true))]), Self.three, .end)
        #expect(it.content == .null)
        it.finish()
        #expect(it.content == ["a": ["x": 1, "y": 2, "z": 3], "gone": true])
    }

    @Test func revokedSession_endsBehindItsParkedWrite() throws {
        let it = try GatedHarness()
        let one = Client.make()
        _ = it.ask(one, Self.three, .revoke(notice: Array("notice".utf8)), .get("a"))
        it.finish()
        #expect(it.hub.take(one) == ["ok 0", "notice", "close"])
        #expect(it.content == Self.stored)
    }

    @Test(arguments: [2, 1_000]) func revokedSession_isToldNothingMore_whileItsWriteIsPrepared(removalsAtOnce: Int) throws {
        var limits = EngineLimits.tight
        limits.removalsAtOnce = removalsAtOnce
        let it = try GatedHarness(limits: limits)
        let (one, other) = (Client.make(), Client.make())
        for place in ["s", "t", "u", "v", "w"] as [Path] { _ = it.ask(one, .listen(place)) }
        _ = it.ask(one, Self.three, .get("a"), .listen("x"), .put("b", 1), .revoke(notice: Array("notice".utf8)), .put("c", 1))
        for _ in 0..<5 { it.hub.settle() }
        #expect(it.ask(other, .put("s", 1), .put("w", 1), .put("x", 1)) == ["ok 0", "ok 1", "ok 2"])
        #expect(it.hub.take(one) == [])
        #expect(it.hub.database.counters.listens == 0)
        it.finish()
        // Its earlier writes still count; the answer to its read goes to no client.
        #expect(it.hub.take(one) == ["ok 0", "ok 3", "notice", "close"])
        #expect(it.content.child("b") == 1 && it.content.child("c") == .null)
    }

    @Test func revokedSession_observesNothing_whateverTheLogRefuses() throws {
        let log = FlakyLog()
        let it = try GatedHarness(log: log)
        let (one, other) = (Client.make(), Client.make())
        _ = it.ask(one, .listen("s"))
        _ = it.ask(other, .put("b", 1))
        _ = it.ask(one, Self.three, .revoke(notice: Array("notice".utf8)))
        #expect(it.hub.database.counters.listens == 0)
        log.refuse()
        it.hub.settle()
        #expect(it.hub.database.counters.listens == 0)
        it.finish()
        #expect(it.hub.take(one).suffix(3) == ["error 0 unavailable", "notice", "close"])
    }

    @Test func endOfAClientThatReadsSlowly_waitsForWhatItAskedBefore() throws {
        for end in [Request.end, .revoke(notice: Array("notice".utf8))] {
            let it = try GatedHarness()
            let one = Client.make()
            _ = it.ask(one, .onDisconnect([TreeWrite("gone", WriteValue(true))]), .congested, Self.three, .put("b", 1), end)
            #expect(it.content == .null)
            it.finish()
            #expect(it.content == ["a": ["x": 1, "y": 2, "z": 3], "b": 1, "gone": true])
        }
    }

    // MARK: Behind others

    @Test func removalBehindAUser_comesAfterAllThatTheUserHasAsked() throws {
        let it = try GatedHarness()
        let (ana, second, later, bo) = (Client.user("ana"), Client.user("ana"), Client.make(), Client.user("bo"))
        let hub = Client(lane: 0, dialect: .realtime, identity: .admin)
        _ = it.ask(ana, .onDisconnect([TreeWrite("gone", WriteValue(true))]), Self.three, .merge(["a/1": 1, "a/2": 2, "a/3": 3]))
        _ = it.ask(second, .merge(["a/4": 1, "a/5": 2, "a/6": 3]), .end)
        // Signed out at first; the user's session starts after its suspended write.
        _ = it.ask(later, .merge(["b/1": 1, "b/2": 2, "b/3": 3]), .identify(Identity(auth: ["uid": "ana"])), .put("a/7", 1))
        _ = it.ask(bo, .merge(["c/1": 1, "c/2": 2, "c/3": 3]))
        _ = it.ask(ana, .revoke(notice: []))
        #expect(it.ask(hub, .behind(user: "ana"), .merge(["a": .null, "gone": .null]), .get("a")) == [])
        // The other user's write.
        it.gate.runOne(3)
        #expect(it.hub.take(bo) == ["ok 0"] && it.hub.take(hub) == [])
        it.finish()
        #expect(it.hub.take(hub) == ["ok 1", "value 2 null"])
        #expect(it.content.child("a") == .null && it.content.child("gone") == .null)
        #expect(it.content.child("b").childCount == 3 && it.content.child("c").childCount == 3)
    }

    @Test func removalBehindAUser_doesNotWaitForOthers() throws {
        let it = try GatedHarness()
        let bo = Client.user("bo")
        let hub = Client(lane: 0, dialect: .realtime, identity: .admin)
        _ = it.ask(bo, Self.three)
        #expect(it.ask(hub, .behind(user: "ana"), .put("b", .null)) == ["ok 1"])
        it.finish()
        #expect(it.hub.take(bo) == ["ok 0"])
    }

    @Test func removalBehindAUser_isRefusedWithWhatItWaitsFor_andGoesOn() throws {
        let log = FlakyLog()
        let it = try GatedHarness(log: log)
        let (ana, other) = (Client.user("ana"), Client.make())
        let hub = Client(lane: 0, dialect: .realtime, identity: .admin)
        _ = it.ask(other, .put("b", 1))
        _ = it.ask(ana, Self.three)
        _ = it.ask(hub, .behind(user: "ana"), .put("a", .null))
        log.refuse()
        it.finish()
        #expect(it.hub.take(hub) == ["error 1 unavailable"])
        #expect(it.hub.take(ana) == ["error 0 unavailable"])
    }

    @Test func sessionThatIsTakenOver_getsNothingMoreDone() throws {
        let it = try GatedHarness()
        let (old, new) = (Client.make(), Client.make())
        _ = it.ask(
            old, .begin(sessionID: "s1", replacing: nil), .onDisconnect([TreeWrite("gone", WriteValue(true))]), Self.three, .put("b", 1))
        _ = it.ask(new, .begin(sessionID: "s2", replacing: "s1"), .put("c", 1))
        it.finish()
        #expect(it.hub.take(old) == ["close"])
        #expect(it.content == ["gone": true, "c": 1])
    }

    @Test func clientThatReadsSlowly_getsItsAnswersInOrder() throws {
        let it = try GatedHarness()
        let one = Client.make()
        _ = it.ask(one, Self.three, .get("a/x"), .congested, .get("a/y"))
        it.finish()
        // Its next request is held until it has read its output.
        #expect(it.hub.take(one) == ["ok 0"])
        #expect(it.ask(one, .get("a/z"), .drained) == ["value 1 1", "value 3 2", "value 0 3"])
    }

    @Test func requestsBehindAParkedOne_mayBeParkedThemselves() throws {
        let it = try GatedHarness()
        let one = Client.make()
        _ = it.ask(one, Self.three, .get("a"), .merge(["b/x": 1, "b/y": 2, "b/z": 3]), .get("b"), .put("c", 1))
        it.finish()
        #expect(it.hub.take(one) == ["ok 0", #"value 1 {"x":1,"y":2,"z":3}"#, "ok 2", #"value 3 {"x":1,"y":2,"z":3}"#, "ok 4"])
    }

    // MARK: A log that refuses

    @Test func writePreparedOnATreeThatIsGivenUp_isUnavailable_behindWhatCameBefore() throws {
        let log = FlakyLog()
        let it = try GatedHarness(log: log)
        let one = Client.make()
        #expect(it.ask(one, .put("b", 1), Self.three, .get("b")) == [])
        it.gate.runOne()
        log.refuse()
        it.finish()
        #expect(it.hub.take(one) == ["error 0 unavailable", "error 1 unavailable", "value 2 null"])
        #expect(it.content == .null && log.root == .null)
    }

    @Test func installedWriteThatIsNotDurable_isTakenBack() throws {
        let log = FlakyLog()
        let it = try GatedHarness(log: log)
        let (one, watcher) = (Client.make(), Client.make())
        _ = it.ask(watcher, .listen("a"))
        _ = it.ask(one, Self.three, .get("a"))
        it.finish()
        #expect(it.content == Self.stored && it.hub.take(one) == [])
        log.refuse()
        it.finish()
        #expect(it.hub.take(one) == ["error 0 unavailable", "value 1 null"])
        #expect(it.hub.take(watcher) == [])
        #expect(it.content == .null)
    }

    @Test func writeThatIsParkedWhileTheLogRefuses_isMadeWhenItTakesCommitsAgain() throws {
        let log = FlakyLog()
        let it = try GatedHarness(log: log)
        let (one, other) = (Client.make(), Client.make())
        _ = it.ask(other, .put("b", 1))
        log.refuse()
        #expect(it.ask(one, Self.three) == ["error 0 unavailable"])
        #expect(it.gate.count == 0)
        it.hub.passRetryTime()
        _ = it.ask(one, .get("b"))
        log.completeAll()
        _ = it.ask(one, Self.three)
        it.finish()
        log.completeAll()
        it.finish()
        #expect(it.hub.take(one).last == "ok 0")
        #expect(log.root == Self.stored)
    }

    @Test func sessionThatWasTakenOverInABatchThatIsGivenUp_goesOn() throws {
        let log = FlakyLog()
        let it = try GatedHarness(log: log)
        let (old, new, other) = (Client.make(), Client.make(), Client.make())
        _ = it.ask(old, .begin(sessionID: "s1", replacing: nil), .put("b", 1))
        log.completeAll()
        _ = it.ask(old, Self.three)
        _ = it.ask(other, .put("c", 1))
        _ = it.ask(new, .begin(sessionID: "s2", replacing: "s1"))
        it.finish()
        log.refuse()
        it.finish()
        // The takeover runs again, and ends the old session again.
        #expect(it.hub.take(old).last == "close")
        #expect(it.hub.take(other) == ["error 0 unavailable"])
        #expect(log.root == ["b": 1] && it.content == ["b": 1])
    }
}
