import Dispatch
import HubEngine
import JSONTree
import SecurityRules
import Testing
import TestSupport

/// Running listens follow the rules: identity, rules and the data that rules read (contract §8.3).
@Suite(.timeLimit(.minutes(30))) struct PermissionTests {
    private func rules(_ read: String) throws -> RuleSet {
        try RuleSet(parsing: #"{"rules":{".write":true,"members":{".read":true},"room":{"$id":{".read":"\#(read)"}}}}"#)
    }

    private func user(_ uid: Node) -> Request { .identify(Identity(auth: ["uid": uid])) }

    @Test func listen_isCancelledByTheCommitThatTakesItsPermission_andSeesNothingOfIt() throws {
        let hub = EngineHarness(
            rules: try rules("root.child('members/'+$id+'/'+auth.uid).exists()"), root: ["members": ["r": ["ana": true, "bo": true]]])
        let (ana, bo) = (Client.make(), Client.make(lane: 1))
        _ = hub.ask(ana, user("ana"), .listen("room/r"))
        _ = hub.ask(bo, user("bo"), .listen("room/r"))
        _ = hub.ask(.make(), .merge(["members/r/ana": .null, "room/r/secret": 1]))
        #expect(hub.take(ana) == ["cancelled /room/r"])
        #expect(hub.take(bo) == ["d room/r/secret 1"])
        _ = hub.ask(.make(), .put("room/r/secret", 2))
        #expect(hub.take(ana) == [])
    }

    @Test func grantAndRemovalAbove_areSeen_andDeeperChangesAreNot() throws {
        let hub = EngineHarness(
            rules: try rules("root.child('members').child($id).child(auth.uid).exists()"), root: ["members": ["r": ["ana": ["since": 1]]]])
        let ana = Client.make()
        _ = hub.ask(ana, user("ana"), .listen("room/r"))
        _ = hub.ask(.make(), .put("members/r/ana/since", 2), .put("members/r/bo", 1), .put("members/r/ana", 5), .put("room/r", 1))
        #expect(hub.take(ana) == ["d room/r 1"])
        _ = hub.ask(.make(), .put("members", ["r": ["bo": true]]))
        #expect(hub.take(ana) == ["cancelled /room/r"])
    }

    @Test func removalBelow_thatPrunesThePlaceTheRuleReads_isSeen() throws {
        let hub = EngineHarness(rules: try rules("root.child('members/'+$id).exists()"), root: ["members": ["r": ["a": ["b": 1]], "x": 1]])
        let client = Client.make()
        _ = hub.ask(client, .listen("room/r"))
        _ = hub.ask(.make(), .put("members/r/a/b", .null))
        #expect(hub.take(client) == ["cancelled /room/r"])
    }

    @Test(arguments: [
        "data.child('open').val() == true", "data.hasChildren(['open','by'])", "data.child('open').parent().child('open').val() == true",
        "data.child(data.child('which').val()).val() == true", "data.child('none').exists() || data.child('open').isBoolean()",
        "data.child('by').exists() ? data.child('open').val() == true : false",
    ]) func everyFormOfLooking_isADependency(_ rule: String) throws {
        let hub = EngineHarness(rules: try rules(rule), root: ["room": ["r": ["open": true, "by": "ana", "which": "open"]]])
        let client = Client.make()
        #expect(hub.ask(client, .listen("room/r")).last == "ok 0")
        _ = hub.ask(.make(), .put("room/r/open", "no"))
        #expect(hub.take(client) == (rule.contains("hasChildren") ? ["d room/r/open \"no\""] : ["cancelled /room/r"]))
        _ = hub.ask(.make(), .put("room/r/open", .null))
        #expect(hub.take(client) == (rule.contains("hasChildren") ? ["cancelled /room/r"] : []))
    }

    @Test func dependencies_moveAlongWithTheDecision() throws {
        let hub = EngineHarness(
            rules: try rules("data.child('a').val() == 1 || data.child('b').val() == 1"), root: ["room": ["r": ["a": 1, "b": 1]]])
        let client = Client.make()
        _ = hub.ask(client, .listen("room/r"))
        _ = hub.ask(.make(), .put("room/r/a", 2))
        #expect(hub.take(client) == ["d room/r/a 2"], "b permits now")
        _ = hub.ask(.make(), .put("room/r/b", 2))
        #expect(hub.take(client) == ["cancelled /room/r"])
    }

    @Test func onlyTheRefusedQueryOfAPlace_isCancelled() throws {
        let hub = EngineHarness(
            rules: try rules("query.limitToLast == 1 || data.parent().parent().child('open').val() == true"), root: ["open": true])
        let client = Client.make()
        let one = TreeQuery(limit: 1, viewFrom: .last)
        _ = hub.ask(client, .listen("room/r"), .observe("room/r", query: one, style: .patches(tag: 1), hash: ""))
        _ = hub.ask(.make(), .put("open", false))
        #expect(hub.take(client) == ["cancelled /room/r"])
        _ = hub.ask(.make(), .put("room/r/x", 1))
        #expect(hub.take(client) == ["d room/r/x 1"])
    }

    @Test func identityChange_keepsWhatIsStillPermitted_andItsDependencies() throws {
        let hub = EngineHarness(rules: try rules("root.child('members/'+auth.uid).exists()"), root: ["members": ["ana": 1, "bo": 1]])
        let client = Client.make()
        _ = hub.ask(client, user("ana"), .listen("room/r"), user("bo"))
        _ = hub.ask(.make(), .put("members/ana", .null), .put("room/r", 1))
        #expect(hub.take(client) == ["d room/r 1"])
        _ = hub.ask(.make(), .put("members/bo", .null))
        #expect(hub.take(client) == ["cancelled /room/r"])
    }

    @Test func repeatedListen_thatIsRefused_endsTheFirst() throws {
        let hub = EngineHarness(rules: try rules("now < 5 && data.child('open').val() == 1"), root: ["room": ["r": ["open": 1]]], now: 1)
        let client = Client.make()
        #expect(hub.ask(client, .listen("room/r")).last == "ok 0")
        hub.time.ms = 9
        #expect(hub.ask(client, .listen("room/r")) == ["error 0 permission_denied"])
        _ = hub.ask(.make(), .put("room/r/open", 2), .put("room/r/secret", 1))
        #expect(hub.take(client) == [], "the client knows of no listen, and the rules permit none")
    }

    @Test func refusedCommit_cancelsNobody() throws {
        let log = FlakyLog(root: ["members": ["x": 1]])
        let hub = EngineHarness(
            rules: try rules("root.child('members/x').val() == 1"), root: ["members": ["x": 1]], log: log, limits: .patient)
        let (reader, writer) = (Client.make(), Client.make())
        _ = hub.ask(reader, .listen("room/r"))
        _ = hub.ask(writer, .put("members/x", 2))
        log.refuse()
        hub.passRetryTime()
        _ = hub.ask(writer, .get("room"))
        log.complete()
        _ = hub.ask(writer, .put("room/r", 1))
        log.complete()
        #expect(hub.take(reader) == ["d room/r 1"])
        _ = hub.ask(writer, .put("members/x", 2))
        log.complete()
        #expect(hub.take(reader) == ["cancelled /room/r"], "what its permission rests on is known as before")
    }

    @Test func replacedRules_holdBeforeAnyFurtherPush() throws {
        let hub = EngineHarness(root: ["a": 1, "b": 1])
        let client = Client.make()
        _ = hub.ask(client, .listen("a"), .listen("b"))
        hub.database.queue.sync {
            hub.database.replace((try? RuleSet(parsing: #"{"rules":{".write":true,"b":{".read":true}}}"#)) ?? .denyAll)
            hub.database.submit(.merge(["a": 2, "b": 2]), from: Client.make())
        }
        #expect(hub.take(client) == ["cancelled /a", "d b 2"])
    }
}
