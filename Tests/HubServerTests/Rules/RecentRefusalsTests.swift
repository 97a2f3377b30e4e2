@testable import HubEngine
@testable import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing

/// `GET /.settings/refusals.json`: recent refusals by the rules, without any value.
@Suite(.timeLimit(.minutes(30))) struct RecentRefusalsTests {
    private func question(_ operation: RuleQuestion.Operation, auth: Node = .null, now: Int64 = 5) -> RuleQuestion {
        RuleQuestion(operation: operation, rules: .denyAll, old: .null, new: "secret", auth: auth, now: now)
    }

    private func answer(_ refusals: RecentRefusals, _ namespace: String = "city", after: Int = 0) throws -> Node {
        try Node(json: String(decoding: refusals.json(of: namespace, after: after), as: UTF8.self))
    }

    private func numbers(_ answer: Node) -> [Node] { answer.child("refusals").children.map { $0.1.child("number") } }

    @Test func refusal_isKept_withPlacesAndIdentity_andWithoutValues() throws {
        let refusals = RecentRefusals(most: 5, perSecond: 5)
        let listener = refusals.listener("city", beside: nil)
        #expect(listener.wantsRefusal(now: 5))
        listener.refused(
            .write,
            question(.write(["/a", "/b", "/c", "/d"]), auth: ["uid": "ada", "provider": "password", "token": ["email": "a@ex.org"]]))
        #expect(listener.wantsRefusal(now: 6))
        let query = QueryVariables(orderByChild: "name", startAt: "secret", equalTo: "secret", limitToFirst: 5)
        listener.refused(.listen, question(.read("/users", query), now: 6))
        let text = String(decoding: refusals.json(of: "city", after: 0), as: UTF8.self)
        #expect(text == """
            {"latest":2,"refusals":[{"number":1,"at":5,"operation":"write","paths":["/a","/b","/c"],"morePaths":1,"uid":"ada",\
            "provider":"password"},{"number":2,"at":6,"operation":"listen","paths":["/users"],"morePaths":0,"uid":null,"provider":null,\
            "orderByChild":"name","limitToFirst":5}]}

            """)
        #expect(numbers(try answer(refusals, after: 1)) == [2])
        let near = QueryVariables(near: true, radius: 500, nearest: 20, conditions: ["status": "secret", "author/uid": "secret"])
        #expect(listener.wantsRefusal(now: 7))
        listener.refused(.get, question(.read("/reports", near), now: 7))
        let entry = String(decoding: refusals.json(of: "city", after: 2), as: UTF8.self)
        #expect(entry.hasSuffix(#""provider":null,"limit":20,"near":true,"radius":500,"where":["author/uid","status"]}]}"# + "\n"))
        #expect(numbers(try answer(refusals, "village")).isEmpty)
    }

    @Test func oldestRefusals_goFirst_andOneSecondHasItsShare() throws {
        let refusals = RecentRefusals(most: 3, perSecond: 2)
        let listener = refusals.listener("city", beside: nil)
        for now in [1_000, 1_001, 1_002, 2_000, 3_000] as [Int64] {
            let isWanted = listener.wantsRefusal(now: now)
            #expect(isWanted == (now != 1_002))
            if isWanted { listener.refused(.get, question(.read("/a", .none), now: now)) }
        }
        let kept = try answer(refusals)
        #expect(kept.child("latest") == 5)
        #expect(numbers(kept) == [2, 4, 5])
    }

    /// Refusals of one namespace neither displace those of another nor count there.
    @Test func namespaces_haveTheirOwn() throws {
        let refusals = RecentRefusals(most: 2, perSecond: 2)
        refusals.refusedUnread("/a", .null, "village", now: 1)
        for now in 1...4 as ClosedRange<Int64> { refusals.refusedUnread("/a", .null, "city", now: now * 1000) }
        let (city, village) = (try answer(refusals), try answer(refusals, "village"))
        #expect(numbers(city) == [3, 4] && city.child("latest") == 4)
        #expect(numbers(village) == [1] && village.child("latest") == 1)
        #expect(try answer(refusals, "nobodys").child("latest") == 0)
    }

    /// A poll with `latest` as its start must miss none: `latest` stays behind refusals that are counted and not stored yet.
    @Test func latest_doesNotSkipWhatIsStillToCome() throws {
        let refusals = RecentRefusals(most: 5, perSecond: 5)
        let listener = refusals.listener("city", beside: nil)
        #expect(listener.wantsRefusal(now: 1))
        // Simulates another thread between the two calls.
        refusals.refusedUnread("/b", .null, "city", now: 2)
        let between = try answer(refusals)
        #expect(between.child("latest") == 0 && numbers(between).isEmpty, "\(between.json)")
        listener.refused(.get, question(.read("/a", .none), now: 1))
        let after = try answer(refusals)
        #expect(after.child("latest") == 2 && numbers(after) == [1, 2], "\(after.json)")
    }

    @Test func longPathsAndNames_areCut() throws {
        let refusals = RecentRefusals(most: 3, perSecond: 2)
        let long = String(repeating: "é", count: 380)
        refusals.refusedUnread(try Path(parsing: "/\(long)/\(long)"), ["uid": .string(long)], "city", now: 1)
        let kept = try answer(refusals).child("refusals").child("0")
        guard case .string(let path) = kept.child("paths").child("0"), case .string(let uid) = kept.child("uid") else {
            return #expect(Bool(false), "\(kept.json)")
        }
        #expect(path.string.utf8.count <= RecentRefusals.pathBytes + 6 && path.string.hasSuffix("…"))
        #expect(uid.string.count == RecentRefusals.nameCharacters)
    }

    /// Another listener gets the refusals that it wants, and no others.
    @Test func listenerBeside_isToldWhatItWants() {
        final class SecondListener: RefusalListener, @unchecked Sendable {
            // Sendable: used by one thread.
            var told = 0
            func wantsRefusal(now: Int64) -> Bool { now >= 100 }
            func refused(_ request: RuledRequest, _ question: RuleQuestion) { told += 1 }
        }
        let second = SecondListener()
        let listener = RecentRefusals(most: 3, perSecond: 1).listener("city", beside: second)
        for now in [1, 2, 100, 101] as [Int64] where listener.wantsRefusal(now: now) { listener.refused(.get, question(.read("/", .none))) }
        #expect(second.told == 2)
        let off = RecentRefusals(most: 0, perSecond: 1).listener("city", beside: nil)
        #expect(!off.wantsRefusal(now: 1))
    }

    /// Through the whole server: every kind of refusal, shown to administrators only.
    @Test func refusals_areShownToAdministratorsOnly() throws {
        let rules = try RuleSet(parsing: #"{"rules":{"a":{".read":"auth.uid == 'ada'",".write":"newData.val() == 1"}}}"#)
        let server = try TestServer { $0.rules = rules }
        let (stranger, owner) = (try RESTPeer(server), try RESTPeer.owner(server))
        #expect(try stranger.get("/a.json").hasPrefix("401"))
        #expect(try stranger.put("/a.json", "2").hasPrefix("401"))
        #expect(try stranger.put("/b.json", "2").hasPrefix("401"))
        #expect(try stranger.get("/.settings/refusals.json").hasPrefix("401"))
        let answer = try Node(json: try owner.ask("GET", "/.settings/refusals.json").body)
        let all = answer.child("refusals").children.map(\.1)
        #expect(all.map { $0.child("operation") } == ["get", "write", "write"])
        #expect(all.map { $0.child("paths").child("0") } == ["/a", "/a", "/b"])
        #expect(try owner.line("POST", "/.settings/refusals.json").hasPrefix("405"))
    }
}
