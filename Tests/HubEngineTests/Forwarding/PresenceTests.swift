import Journal
import JSONTree
import SecurityRules
import Testing
import TestSupport

@testable import HubEngine

/// Disconnect writes of sessions at a hub that is not the writer.
@Suite(.timeLimit(.minutes(30))) struct PresenceTests {
    private let net = HubNetwork()

    private func leave(_ path: Path, _ value: Node) -> Request { .onDisconnect([TreeWrite(path, WriteValue(value))]) }
    private func name(_ hub: HubNetwork.Hub, _ text: String) -> String { SessionName.prefix(of: hub.hub) + text }

    @Test func sessionThatEnds_atAFollower_leavesWhatItSaid_once() {
        let (writer, follower) = (net.addWriter(), net.addFollower())
        let client = follower.client()
        let id = name(follower, "s1")
        #expect(follower.ask(client, .begin(sessionID: id, replacing: nil), leave("on", false), .put("on", true)) == ["ok 1", "ok 2"])
        #expect(writer.pending.map(\.id) == [id] && follower.pending.map(\.id) == [id])
        #expect(follower.ask(client, leave("n", .null), .cancelOnDisconnect("n")) == ["ok 0", "ok 1"])
        _ = follower.ask(client, .end)
        net.advance(ms: 2_000)
        #expect(writer.root.node(at: "on") == false && writer.pending.isEmpty && follower.pending.isEmpty)
        _ = writer.ask(writer.client(), .put("on", 5))
        net.advance(ms: 30_000)
        #expect(writer.root.node(at: "on") == 5)
    }

    @Test func cancelledWrites_areNotMade() {
        let (writer, follower) = (net.addWriter(), net.addFollower())
        let client = follower.client()
        #expect(follower.ask(client, leave("a", 1), leave("b", 1), .cancelOnDisconnect("a"), .end) == ["ok 0", "ok 1", "ok 2"])
        net.advance(ms: 2_000)
        #expect(!writer.root.node(at: "a").exists && writer.root.node(at: "b") == 1)
    }

    @Test func identityAtTheEnd_isThatOfTheClient() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".read":true,"$u":{".write":"auth.uid === $u"}}}"#)
        let net = HubNetwork(rules: rules)
        let (writer, follower) = (net.addWriter(), net.addFollower())
        let client = follower.client(Identity(auth: .object([("uid", "ana")])))
        #expect(follower.ask(client, leave("ana", 1), leave("ben", 1)) == ["ok 0", "error 1 permission_denied"])
        #expect(follower.ask(client, .signOut) == ["ok 0"])
        #expect(writer.pending.first?.auth == .null)
        _ = follower.ask(client, .end)
        net.advance(ms: 2_000)
        #expect(!writer.root.node(at: "ana").exists && writer.pending.isEmpty)
    }

    @Test func hubThatIsLost_hasItsSessionsEnded_afterTheDeadline_once() {
        let (writer, follower) = (net.addWriter(), net.addFollower())
        let client = follower.client()
        _ = follower.ask(client, leave("on", false), .put("on", true))
        net.kill(follower)
        net.advance(ms: net.limits.presenceMs - 2_000)
        #expect(writer.root.node(at: "on") == true)
        net.advance(ms: 4_000)
        #expect(writer.root.node(at: "on") == false && writer.pending.isEmpty)
        _ = writer.ask(writer.client(), .put("on", 7))
        net.advance(ms: 60_000)
        #expect(writer.root.node(at: "on") == 7)
    }

    @Test func hubThatIsLost_hasItsSessionsEnded_once_alsoWhenWritersChangeMoreOftenThanThat() {
        let (one, two, lost) = (net.addCandidate(), net.addCandidate(), net.addCandidate())
        net.elect(one)
        let client = lost.client()
        #expect(lost.ask(client, leave("on", false), .put("on", true)) == ["ok 0", "ok 1"])
        net.kill(lost)
        for i in 0..<6 {
            net.elect(i % 2 == 0 ? two : one)
            net.advance(ms: 3_000)
            // Not before its time.
            if i < 2 { #expect(one.root.node(at: "on") == true) }
        }
        #expect(one.root.node(at: "on") == false && two.root.node(at: "on") == false)
        #expect(one.pending.isEmpty && two.pending.isEmpty)
        #expect(one.ask(one.client(), .put("on", 7)) == ["ok 0"])
        for i in 0..<6 {
            net.elect(i % 2 == 0 ? two : one)
            net.advance(ms: 3_000)
        }
        #expect(one.root.node(at: "on") == 7)
    }

    @Test func sessionThatEnds_atAWriterThatAnotherHasReplaced_leavesWhatItSaid_once() {
        let (old, new) = (net.addCandidate(), net.addCandidate())
        net.elect(old)
        let client = old.client()
        #expect(old.ask(client, leave("on", false), .put("on", true)) == ["ok 0", "ok 1"])
        net.supersede(by: new)
        _ = old.ask(client, .end)
        net.choose(new)
        net.advance(ms: 3_000)
        #expect(new.root.node(at: "on") == false && new.pending.isEmpty && old.pending.isEmpty)
        #expect(new.ask(new.client(), .put("on", 7)) == ["ok 0"])
        net.advance(ms: 30_000)
        #expect(new.root.node(at: "on") == 7)
    }

    /// Another hub has replaced the writer. The new one does not know the session, and is asked again.
    private func replacedWriter(_ net: HubNetwork) -> (old: HubNetwork.Hub, new: HubNetwork.Hub, third: HubNetwork.Hub) {
        let (old, new, third) = (net.addCandidate(), net.addCandidate(), net.addCandidate())
        net.elect(old)
        #expect(third.ask(third.client(), .put("first", 1)) == ["ok 0"])
        net.supersede(by: new)
        net.choose(new)
        return (old, new, third)
    }

    @Test func end_thatAReplacedWriterIsAskedFor_isMadeByTheNextOne() {
        let (old, new, third) = replacedWriter(net)
        let client = third.client()
        #expect(third.ask(client, leave("on", false), .put("on", true)) == ["ok 0", "ok 1"])
        net.choose(old)
        _ = third.ask(client, .end)
        net.advance(ms: 2_000)
        net.elect(new)
        net.advance(ms: 3_000)
        #expect(new.root.node(at: "on") == false && third.root.node(at: "on") == false && new.pending.isEmpty)
    }

    @Test func end_thatAReplacedWriterIsAskedFor_whileItsLogRefuses_isMadeByTheNextOne() {
        let (old, new, third) = replacedWriter(net)
        let client = third.client()
        #expect(third.ask(client, leave("on", false), .put("on", true)) == ["ok 0", "ok 1"])
        old.log.hold()
        _ = old.ask(old.client(), .put("lost", 1))
        net.choose(old)
        old.log.refuse(.unavailable(reason: "no leader"))
        _ = third.ask(client, .end)
        net.advance(ms: 2_000)
        net.elect(new)
        net.advance(ms: 3_000)
        #expect(new.root.node(at: "on") == false && third.root.node(at: "on") == false && new.pending.isEmpty)
    }

    /// The old writer's last retry before its replacement was stored, but is answered only now: that is not a new commit.
    @Test func end_thatAReplacedWriterIsAskedFor_whileItTriesItsLog_isMadeByTheNextOne() {
        let (old, new, third) = (net.addCandidate(), net.addCandidate(), net.addCandidate())
        net.elect(old)
        #expect(third.ask(third.client(), .put("first", 1)) == ["ok 0"])
        old.log.hold()
        _ = old.ask(old.client(), .put("lost", 1))
        old.log.refuse(.unavailable(reason: "no leader"))
        old.log.delay()
        old.harness.time.advance(ms: Int64(net.limits.retryMs))
        net.settle()
        net.supersede(by: new)
        net.choose(new)
        let client = third.client()
        #expect(third.ask(client, leave("on", false), .put("on", true)) == ["ok 0", "ok 1"])
        net.choose(old)
        _ = third.ask(client, .end)
        old.log.answer()
        net.advance(ms: 2_000)
        net.elect(new)
        net.advance(ms: 3_000)
        #expect(new.root.node(at: "on") == false && third.root.node(at: "on") == false && new.pending.isEmpty)
    }

    @Test func sessionThatComesBackAtAReplacedWriter_isEndedByTheNextOne() {
        let (old, new, third) = replacedWriter(net)
        let id = name(third, "s1")
        #expect(third.ask(third.client(), .begin(sessionID: id, replacing: nil), leave("on", false), .put("on", true)) == ["ok 1", "ok 2"])
        net.choose(old)
        let back = old.client()
        _ = old.ask(back, .begin(sessionID: name(old, "s2"), replacing: id))
        net.elect(new)
        net.advance(ms: 3_000)
        #expect(new.root.node(at: "on") == false && new.pending.isEmpty)
        #expect(old.ask(back, .put("on", 7)) == ["ok 0"])
        net.kill(third)
        net.advance(ms: net.limits.presenceMs * 3)
        #expect(new.root.node(at: "on") == 7)
    }

    @Test func cancel_thatAReplacedWriterIsAskedFor_isNotAnsweredByIt() {
        let (old, new, third) = replacedWriter(net)
        let client = third.client()
        #expect(third.ask(client, leave("on", false), .put("on", true)) == ["ok 0", "ok 1"])
        net.choose(old)
        #expect(third.ask(client, .cancelOnDisconnect("on"), as: 2) == [])
        net.elect(new)
        net.advance(ms: 3_000)
        #expect(third.harness.linesSoFar(client) == ["ok 2"])
        _ = third.ask(client, .end)
        net.advance(ms: 3_000)
        #expect(new.root.node(at: "on") == true && new.pending.isEmpty)
    }

    @Test func identity_thatAReplacedWriterWasTold_isThatOfTheEnd() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".read":true,"first":{".write":true},"$u":{".write":"auth.uid === $u"}}}"#)
        let net = HubNetwork(rules: rules)
        let (old, new, third) = replacedWriter(net)
        let client = third.client(Identity(auth: .object([("uid", "ada")])))
        #expect(third.ask(client, leave("ada", "gone"), .put("ada", "here")) == ["ok 0", "ok 1"])
        net.choose(old)
        #expect(third.ask(client, .identify(Identity(auth: .object([("uid", "bob")])))) == [])
        net.elect(new)
        net.advance(ms: 3_000)
        #expect(third.harness.linesSoFar(client).count == 1)
        #expect(new.pending.map { $0.auth.child("uid") } == ["bob"])
        net.kill(third)
        net.advance(ms: net.limits.presenceMs * 2)
        #expect(new.root.node(at: "ada") == "here" && new.pending.isEmpty)
    }

    @Test func identityThatIsUnderWay_isThatOfTheEnd_thatSomeoneElseAsksFor() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".read":true,"$u":{".write":"auth.uid === $u"}}}"#)
        let net = HubNetwork(rules: rules)
        let (writer, follower) = (net.addWriter(), net.addFollower())
        let client = follower.client(Identity(auth: .object([("uid", "ada")])))
        let id = name(follower, "s1")
        #expect(
            follower.ask(client, .begin(sessionID: id, replacing: nil), leave("ada", "gone"), .put("ada", "here")) == ["ok 1", "ok 2"])
        net.hold { [hub = follower.hub] in $0.to == hub }
        #expect(follower.ask(client, .signOut) == [])
        _ = follower.ask(follower.client(), .begin(sessionID: name(follower, "s2"), replacing: id))
        net.hold(nil)
        net.advance(ms: 3_000)
        #expect(writer.root.node(at: "ada") == "here" && writer.pending.isEmpty)
    }

    @Test func sessionThatHasComeBackElsewhere_isEndedThen_andNotAgain() {
        let (writer, first, second) = (net.addWriter(), net.addFollower(), net.addFollower())
        let id = name(first, "s1")
        _ = first.ask(first.client(), .begin(sessionID: id, replacing: nil), leave("on", false), .put("on", true))
        net.kill(first)
        let back = second.client()
        // Its next request is handled after the end of its previous session.
        #expect(second.ask(back, .begin(sessionID: name(second, "s2"), replacing: id), .get("on"), .put("on", true), as: 1)
            == ["value 2 false", "ok 3"])
        net.advance(ms: net.limits.presenceMs * 3)
        #expect(writer.root.node(at: "on") == true && writer.pending.isEmpty)
    }

    @Test func sessionThatComesBackElsewhere_whileTheLogRefuses_waitsAWhile_andIsEndedAllTheSame() {
        let (writer, first, second) = (net.addWriter(), net.addFollower(), net.addFollower())
        let id = name(first, "s1")
        _ = first.ask(first.client(), .begin(sessionID: id, replacing: nil), leave("on", false), .put("on", true))
        writer.log.hold()
        _ = writer.ask(writer.client(), .put("lost", 1))
        writer.log.refuse(.unavailable(reason: "no leader"))
        writer.log.hold()
        let back = second.client()
        #expect(second.ask(back, .begin(sessionID: name(second, "s2"), replacing: id), .get("on"), as: 1) == [])
        // Another client, whose previous session left no disconnect writes.
        _ = second.ask(second.client(), .begin(sessionID: name(second, "s3"), replacing: name(first, "s0")))
        net.advance(ms: net.limits.endMs - 500)
        #expect(second.harness.linesSoFar(back) == [])
        net.advance(ms: 1_000)
        #expect(second.harness.linesSoFar(back) == ["value 2 true"])
        net.advance(ms: net.limits.forwardMs * 2)
        // Besides the retry, nothing is appended to a log that refuses.
        #expect(writer.log.waiting == 1)
        writer.log.refuse(.unavailable(reason: "no leader"))
        net.advance(ms: 5_000)
        #expect(writer.root.node(at: "on") == false && second.root.node(at: "on") == false && writer.pending.isEmpty)
    }

    /// The session's end is rolled back with the request that caused it, some time after it ran.
    @Test func sessionThatComesBackAtTheWriter_whileTheLogRefuses_isEndedWhenItIsTaken_andNotAgain() {
        let (writer, follower) = (net.addWriter(), net.addFollower())
        let one = name(follower, "s1")
        _ = follower.ask(follower.client(), .begin(sessionID: one, replacing: nil), leave("on", false), .put("on", true))
        writer.log.hold()
        let back = writer.client()
        #expect(writer.ask(back, .begin(sessionID: name(writer, "s2"), replacing: one)) == [])
        net.advance(ms: 5_000)
        #expect(writer.root.node(at: "on") == false && follower.root.node(at: "on") == true)
        writer.log.refuse(.unavailable(reason: "test"))
        net.advance(ms: 5_000)
        #expect(writer.root.node(at: "on") == false && writer.pending.isEmpty && follower.pending.isEmpty)
        #expect(writer.ask(back, .put("on", 7)) == ["ok 0"])
        net.kill(follower)
        net.advance(ms: net.limits.presenceMs * 3)
        #expect(writer.root.node(at: "on") == 7)
    }

    @Test func sessionThatComesBackAtTheWriter_orComesFromIt_isEndedAsWell() {
        let (writer, follower) = (net.addWriter(), net.addFollower())
        let (one, two) = (name(follower, "s1"), name(writer, "s2"))
        _ = follower.ask(follower.client(), .begin(sessionID: one, replacing: nil), leave("a", false), .put("a", true))
        let atWriter = writer.client()
        #expect(writer.ask(atWriter, .begin(sessionID: two, replacing: one), .get("a"), leave("b", false), as: 1)
            == ["value 2 false", "ok 3"])
        let back = follower.client()
        #expect(follower.ask(back, .begin(sessionID: name(follower, "s3"), replacing: two), .get("b"), as: 1) == ["value 2 false"])
        #expect(writer.harness.linesSoFar(atWriter) == ["close"] && writer.pending.isEmpty)
    }

    @Test func whatSessionsLeft_survivesTheWriter_andIsMadeByTheNextOne_whenTheyEnd() {
        let (old, follower) = (net.addWriter(), net.addFollower())
        let (client, lost) = (follower.client(), old.client())
        _ = follower.ask(client, leave("f", 1))
        _ = old.ask(lost, leave("w", 1))
        net.kill(old)
        let writer = net.addWriter()
        net.advance(ms: 2_000)
        #expect(!writer.root.node(at: "f").exists && !writer.root.node(at: "w").exists)
        net.advance(ms: net.limits.presenceMs + 2_000)
        // The old writer's sessions ended with it.
        #expect(!writer.root.node(at: "f").exists && writer.root.node(at: "w") == 1)
        _ = follower.ask(client, .end)
        net.advance(ms: 2_000)
        #expect(writer.root.node(at: "f") == 1 && writer.pending.isEmpty)
    }

    @Test func hubThatWasTakenForLost_joinsAnew_andClosesTheClientsWhoseWritesWereMade() {
        let (writer, follower) = (net.addWriter(), net.addFollower())
        let (leaver, other) = (follower.client(), follower.client())
        _ = follower.ask(leaver, leave("on", false), .put("on", true))
        #expect(follower.ask(other, .put("n", 1)) == ["ok 0"])
        net.lose(follower, true)
        net.advance(ms: net.limits.presenceMs + 3_000)
        net.lose(follower, false)
        net.advance(ms: 3_000)
        #expect(writer.root.node(at: "on") == false)
        #expect(follower.harness.linesSoFar(leaver) == ["close"])
        #expect(follower.ask(other, .increments(["n"])) == ["ok 0"] && writer.root.node(at: "n") == 2)
    }

    @Test func whatASessionLeaves_whileItsHubIsTakenForLost_isMadeAtItsEnd_once() {
        let (writer, follower) = (net.addWriter(), net.addFollower())
        let (leaver, before) = (follower.client(), follower.client())
        _ = follower.ask(before, leave("before", false))
        net.lose(follower, true)
        net.advance(ms: net.limits.presenceMs - 2_000)
        net.faults.loses = 100
        #expect(follower.ask(leaver, leave("on", false), .put("on", true)) == [])
        net.advance(ms: 5_000)
        #expect(writer.root.node(at: "before") == false && !writer.root.node(at: "on").exists)
        net.faults.loses = 0
        net.lose(follower, false)
        net.advance(ms: 3_000)
        #expect(follower.harness.linesSoFar(leaver).contains("close") && follower.harness.linesSoFar(before) == ["close"])
        #expect(writer.root.node(at: "on") == true)
        for client in [leaver, before] { _ = follower.ask(client, .end) }
        net.advance(ms: 3_000)
        #expect(writer.root.node(at: "on") == false && writer.pending.isEmpty && follower.pending.isEmpty)
        #expect(writer.ask(writer.client(), .put("on", 7)) == ["ok 0"])
        net.kill(follower)
        net.advance(ms: net.limits.presenceMs * 3)
        #expect(writer.root.node(at: "on") == 7)
    }

    @Test func endOfASession_thatIsLostOnTheWay_isAskedForAgain() {
        let (writer, follower) = (net.addWriter(), net.addFollower())
        let client = follower.client()
        _ = follower.ask(client, leave("on", false))
        net.faults.loses = 100
        _ = follower.ask(client, .end)
        net.advance(ms: net.limits.forwardMs * 2)
        #expect(!writer.root.node(at: "on").exists)
        net.faults.loses = 0
        net.advance(ms: 3_000)
        #expect(writer.root.node(at: "on") == false)
    }
}
