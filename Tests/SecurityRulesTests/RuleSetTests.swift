import JSONTree
import SecurityRules
import Testing

@Suite(.timeLimit(.minutes(30))) struct RuleSetTests {
    @Test func denyAll_refuses_readsAndWrites() {
        #expect(!RuleSet.denyAll.allowsRead(.root, root: ["a": 1], auth: Caller.u1.auth, now: fixedNow))
        #expect(!RuleSet.denyAll.allowsWrite(["/a"], old: .null, new: ["a": 1], auth: Caller.u1.auth, now: fixedNow))
    }

    @Test func allowAll_grants_readsAndWritesOfNobody() {
        #expect(RuleSet.allowAll.allowsRead("/x/y", root: ["a": 1], auth: .null, now: fixedNow))
        #expect(RuleSet.allowAll.allowsWrite(["/a"], old: .null, new: ["a": 1], auth: .null, now: fixedNow))
    }

    @Test func text_isKept_asItWasGiven() throws {
        let text = "// mine\n{\"rules\": {\".read\": true, },}"
        #expect(try RuleSet(parsing: text).text == text)
    }
}
