import Journal
import JSONTree
import SecurityRules
import Synchronization
import Testing
import TestSupport

@testable import HubEngine

/// Writes through a hub that is not the writer.
@Suite(.timeLimit(.minutes(30))) struct ForwardingTests {
    private let net = HubNetwork()

    @Test func writesOfAllKinds_throughAFollower_areStored_andAnsweredAsAtTheWriter() {
        let (writer, follower) = (net.addWriter(), net.addFollower())
        let client = follower.client()
        #expect(follower.ask(client, .put("a", 1), .merge(["a/x": 1, "b": 2]), .increments(["n"]), .get("a")) == [
            "ok 0", "ok 1", "ok 2", "value 3 {\"x\":1}",
        ])
        let pushed = follower.ask(client, .push("list", WriteValue("new")))
        #expect(pushed.count == 1 && pushed[0].hasPrefix("pushed 0 -"))
        #expect(follower.root == writer.root && follower.root.node(at: "list").childCount == 1)
        #expect(follower.root.node(at: "n") == 1 && follower.root.node(at: "b") == 2)
        #expect(follower.ask(client, .write([])) == ["ok 0"])
    }

    @Test func conditions_areDecidedAtTheWriter_andTheirRefusalFollowsWhatRefutedThem() {
        let (writer, follower) = (net.addWriter(), net.addFollower())
        let (client, other) = (follower.client(), writer.client())
        #expect(writer.ask(other, .put("n", 1)) == ["ok 0"])
        let hash = follower.root.node(at: "n").hash
        #expect(follower.ask(client, .write([TreeWrite("n", WriteValue(2))], condition: Condition("n", hash: hash))) == ["ok 0"])
        #expect(follower.ask(client, .listen("n")) == ["d n 2", "ok 0"])
        let late = Request.write([TreeWrite("n", WriteValue(3))], condition: Condition("n", hash: hash))
        #expect(follower.ask(client, late) == ["error 0 datastale"])
        #expect(writer.root.node(at: "n") == 2)
    }

    @Test func exchanges_tellWhatIsStored_atTheirOwnCommit() throws {
        let (writer, follower) = (net.addWriter(), net.addFollower())
        _ = writer.ask(writer.client(), .put("n", 5))
        let rest = follower.client(dialect: .rest)
        let value = WriteValue.adding(2)
        follower.harness.database.submit(.exchange(Exchange("n", .write([TreeWrite("n", value)]), wantsContent: true)), from: rest)
        net.settle()
        let answer = follower.harness.linesSoFar(rest)
        #expect(answer.count == 1 && answer[0].contains("exchanged"), "\(answer)")
        #expect(writer.root.node(at: "n") == 7)
        let stale = follower.client(dialect: .rest)
        let second = follower.ask(stale, .exchange(Exchange("n", .write([TreeWrite("n", WriteValue(1))]), ifHash: "other")))
        #expect(second.count == 1 && second[0].contains("isStale: true"), "\(second)")
        let key = follower.ask(follower.client(dialect: .rest), .exchange(Exchange("list", .push(WriteValue(1)))))
        #expect(key.count == 1 && key[0].contains("key: Optional"), "\(key)")
    }

    @Test func rulesAndBudgets_areAskedAtTheWriter_withTheClientsIdentity() throws {
        var limits = EngineLimits()
        limits.writeRate = WriteRate(perSecond: 0.001, burst: 2)
        let rules = try RuleSet(
            parsing: #"{"rules":{".read":true,"own":{"$u":{".write":"auth.uid === $u",".validate":"newData.isNumber()"}}}}"#)
        let net = HubNetwork(rules: rules, limits: limits)
        let (writer, follower) = (net.addWriter(), net.addFollower())
        let client = follower.client(Identity(auth: .object([("uid", "ana")])))
        client.address = "10.0.0.1"
        #expect(follower.ask(client, .put("own/ben", 1), .put("own/ana", 1), .put("own/ana", 2)) == [
            "error 0 permission_denied", "ok 1", "error 2 over_budget",
        ])
        #expect(writer.root.node(at: "own/ana") == 1)
        // Another address has another budget, and a client with a new identity writes as that.
        let other = follower.client()
        other.address = "10.0.0.2"
        #expect(follower.ask(other, .put("own/ana", 3), .identify(Identity(auth: .object([("uid", "eve")]))), .put("own/eve", 3)) == [
            "error 0 permission_denied", #"identified 1 {"uid":"eve"}"#, "ok 2",
        ])
    }

    @Test func requestsOfAClient_keepTheirOrder_andReadsFollowWrites() {
        let (_, follower) = (net.addWriter(), net.addFollower())
        let client = follower.client()
        for i in 0..<200 {
            follower.harness.database.submit(.put("a", .int(Int64(i))), from: client, token: Int64(2 * i))
            if i % 3 == 0 { follower.harness.database.submit(.get("a"), from: client, token: Int64(2 * i + 1)) }
        }
        net.settle()
        let expected = (0..<200).flatMap { i in ["ok \(2 * i)"] + (i % 3 == 0 ? ["value \(2 * i + 1) \(i)"] : []) }
        #expect(follower.harness.linesSoFar(client) == expected)
    }

    @Test func writersOwnEcho_precedesTheAnswer() {
        let (_, follower) = (net.addWriter(), net.addFollower())
        let client = follower.client()
        #expect(follower.ask(client, .listen("a"), .put("a/x", 1)) == ["ok 0", "d a/x 1", "ok 1"])
    }

    @Test func writesWithoutAWriter_wait_andAreRefusedInTheEnd_asNotStored() {
        let (writer, follower) = (net.addWriter(), net.addFollower())
        let client = follower.client()
        net.choose(nil)
        #expect(follower.ask(client, .put("a", 1), .get("a")) == [])
        net.choose(writer)
        #expect(follower.harness.linesSoFar(client) == ["ok 0", "value 1 1"])
        net.choose(nil)
        #expect(follower.ask(client, .put("a", 2)) == [])
        net.advance(ms: net.limits.forwardMs + 500)
        #expect(follower.harness.linesSoFar(client) == ["error 0 unavailable"])
        net.choose(writer)
        net.advance(ms: 3_000)
        #expect(writer.root.node(at: "a") == 1)
    }

    @Test func writeWhoseAnswerIsLost_isStoredOnce_alsoByTheNextWriter() {
        var writer = net.addWriter()
        let follower = net.addFollower()
        let client = follower.client()
        // The request does not reach the writer.
        net.hold { [hub = follower.hub] in $0.from == hub }
        #expect(follower.ask(client, .increments(["n"])) == [])
        net.drop()
        net.hold(nil)
        net.advance(ms: 3_000)
        #expect(follower.harness.linesSoFar(client) == ["ok 0"] && follower.root.node(at: "n") == 1)
        // The write is stored, and the writer dies before it learns so.
        writer.log.isSilent.store(true, ordering: .relaxed)
        follower.harness.database.submit(.increments(["n"]), from: client, token: 7)
        net.settle()
        #expect(follower.harness.linesSoFar(client) == ["ok 7"])
        // The request reaches the writer, which dies before storing it.
        writer.log.kill()
        follower.harness.database.submit(.increments(["n"]), from: client, token: 8)
        net.settle()
        net.kill(writer)
        writer = net.addWriter()
        net.advance(ms: 3_000)
        #expect(follower.harness.linesSoFar(client) == ["ok 8"])
        #expect(writer.root.node(at: "n") == 3 && follower.root.node(at: "n") == 3)
    }

    @Test func doubledMessages_areCarriedOutOnce() {
        net.faults.doubles = 100
        let (writer, follower) = (net.addWriter(), net.addFollower())
        let client = follower.client()
        for i in 0..<20 { #expect(follower.ask(client, .increments(["n"]), as: Int64(i)) == ["ok \(i)"]) }
        #expect(writer.root.node(at: "n") == 20)
    }

    @Test func largeWrites_areDivided_andThoseOverTheLimitRefused() {
        var limits = EngineLimits()
        limits.forwardedBytes = 300_000
        let net = HubNetwork(limits: limits)
        let (writer, follower) = (net.addWriter(messageBytes: 4_000), net.addFollower(messageBytes: 4_000))
        let client = follower.client()
        let large = Node.object((0..<4_000).map { (Key("k\($0)"), .string(String(repeating: "x", count: 40))) })
        follower.harness.database.submit(.put("large", large), from: client, token: 1, size: 250_000)
        follower.harness.database.submit(.put("small", 1), from: client, token: 2, size: 20)
        net.settle()
        #expect(follower.harness.linesSoFar(client) == ["ok 1", "ok 2"])
        #expect(writer.root.node(at: "large") == large)
        let larger = Node.object((0..<6_000).map { (Key("k\($0)"), .string(String(repeating: "x", count: 40))) })
        follower.harness.database.submit(.put("large", larger), from: client, token: 3, size: 400_000)
        net.settle()
        #expect(follower.harness.linesSoFar(client) == ["error 3 too_big"])
        #expect(writer.root.node(at: "large") == large)
    }

    @Test func requestsOverTheWindow_wait() {
        var limits = EngineLimits()
        (limits.forwardedBytes, limits.forwardedRequests) = (2_000, 8)
        let net = HubNetwork(limits: limits)
        let (writer, follower) = (net.addWriter(), net.addFollower())
        let clients = (0..<40).map { _ in follower.client() }
        for (i, client) in clients.enumerated() { follower.harness.database.submit(.put(["a", Key("k\(i)")].path, 1), from: client) }
        net.settle()
        #expect(clients.allSatisfy { follower.harness.linesSoFar($0) == ["ok 0"] })
        #expect(writer.root.node(at: "a").childCount == 40)
    }

    @Test func fullWindow_isLookedAtWhenAnswersCome_notAllTheTime() {
        var limits = EngineLimits()
        limits.forwardedBytes = 2_000
        let net = HubNetwork(limits: limits)
        let (writer, follower) = (net.addWriter(), net.addFollower())
        let client = follower.client()
        #expect(follower.ask(client, .put("a", 1)) == ["ok 0"])
        net.hold { [id = writer.hub] in $0.to == id }
        let value = Node.string(Text(String(repeating: "x", count: 1_500)))
        for i in 0..<4 { follower.harness.database.submit(.put([Key("k\(i)")].path, value), from: client, token: Int64(i)) }
        func turn() { for _ in 0..<20 { follower.harness.database.queue.sync {} } }
        turn()
        let lookups = follower.writerLookups.load(ordering: .relaxed)
        turn()
        #expect(follower.writerLookups.load(ordering: .relaxed) == lookups)
        net.hold(nil)
        net.advance(ms: 3_000)
        #expect(follower.harness.linesSoFar(client) == (0..<4).map { "ok \($0)" })
    }

    /// A write just below the writer's request size limit, and one above it.
    @Test(arguments: [false, true]) func write_overTheBytesThatTheWriterTakes_isNotStored(ofAllHubs: Bool) {
        var limits = EngineLimits()
        if ofAllHubs { limits.remoteBytesOfAll = 20_000 } else { limits.remoteBytes = 20_000 }
        let net = HubNetwork(limits: limits)
        let (writer, follower) = (net.addWriter(), net.addFollower())
        let client = follower.client()
        let fits = Node.string(Text(String(repeating: "x", count: 18_000)))
        #expect(follower.ask(client, .put("a", fits)) == ["ok 0"])
        let larger = Node.string(Text(String(repeating: "x", count: 21_000)))
        #expect(follower.ask(client, .put("a", larger)) == [])
        net.advance(ms: limits.forwardMs + 500)
        #expect(follower.harness.linesSoFar(client) == ["error 0 unavailable"])
        #expect(writer.root.node(at: "a") == fits)
    }

    @Test func hubsOverTheLimit_doNotJoin_untilOneIsGone() {
        var limits = EngineLimits()
        limits.hubs = 2
        let net = HubNetwork(limits: limits)
        let (writer, one, two, three) = (net.addWriter(), net.addFollower(), net.addFollower(), net.addFollower())
        #expect(one.ask(one.client(), .put("a/1", 1)) == ["ok 0"])
        #expect(two.ask(two.client(), .put("a/2", 1)) == ["ok 0"])
        let client = three.client()
        #expect(three.ask(client, .put("a/3", 1)) == [])
        net.advance(ms: limits.forwardMs + 500)
        #expect(three.harness.linesSoFar(client) == ["error 0 unavailable"])
        #expect(writer.root.node(at: "a").childCount == 2)
        net.kill(one)
        net.advance(ms: limits.presenceMs + 3_000)
        #expect(three.ask(client, .put("a/3", 1), as: 5) == ["ok 5"])
    }

    @Test func lostRequest_isSentAgain_afterTheChecks_notBefore() {
        var limits = EngineLimits()
        (limits.forwardCheckMs, limits.forwardAgainMs) = (400, 2_000)
        let net = HubNetwork(limits: limits)
        let (_, follower) = (net.addWriter(), net.addFollower())
        let client = follower.client()
        #expect(follower.ask(client, .put("a", 0)) == ["ok 0"])
        net.hold { [hub = follower.hub] in $0.from == hub }
        #expect(follower.ask(client, .put("a", 1)) == [])
        net.drop()
        net.hold(nil)
        net.advance(ms: 1_900, step: 100)
        #expect(follower.harness.linesSoFar(client) == [])
        net.advance(ms: 1_000, step: 100)
        #expect(follower.harness.linesSoFar(client) == ["ok 0"])
    }

    @Test func hubsThatMayNotAsk_areNotServed() {
        let (writer, follower) = (net.addWriter(), net.addFollower())
        let client = follower.client()
        #expect(follower.ask(client, .put("a", 1)) == ["ok 0"])
        let facts = PeerRequest.Facts(session: SessionName.prefix(of: follower.hub) + "c9", identity: .admin, address: nil)
        let request = PeerRequest(500, of: 9, facts, .write([TreeWrite("a", WriteValue(2))], nil))
        var place = PeerMessage.StreamPosition(joined: 1, term: 7, stream: 9, index: 0, base: 500)
        writer.deliver(.message(PeerMessage.requests(place, request.encoded).encoded, from: follower.hub))
        place.joined = 77
        writer.deliver(.message(PeerMessage.requests(place, request.encoded).encoded, from: 5))
        net.settle()
        #expect(writer.root.node(at: "a") == 1)
        // A hub cannot act for another: session names begin with the hub's number.
        #expect(SessionName.hub(of: facts.session) == follower.hub && SessionName.hub(of: "short") == nil)
    }
}

extension WriteValue {
    static func adding(_ number: Node) -> WriteValue {
        var value = WriteValue(0)
        value.deferred = [Deferred(path: .root, target: .value, value: .increment(number))]
        return value
    }
}

extension [Key] {
    var path: Path { Path(self) }
}
