import JSONTree
import SecurityRules
import Testing

/// A rule sees `query` only at the place that is read.
@Suite(.timeLimit(.minutes(30))) struct QueryPlaceTests {
    private static let window = "query.orderByChild == 'at' && query.limitToFirst <= 10"
    private static let asked = QueryVariables(orderByChild: "at", limitToFirst: 5)

    @Test(arguments: [
        ("/w", true), ("/w/a", false), ("/w/a/b", false), ("/w/none", false), ("/w/open", true), ("/w/open/x", true), ("/", false),
        ("/v", false), ("/w/own", true), ("/w/own/x", false),
    ]) func window_isGrantedAtItsPlaceAlone(_ path: String, _ isAllowed: Bool) throws {
        let rules = try RuleSet(
            parsing: "{\"rules\":{\"w\":{\".read\":\"\(Self.window)\",\"open\":{\".read\":true},\"own\":{\".read\":\"\(Self.window)\"}}}}")
        let root: Node = ["w": ["a": ["b": 1], "open": ["x": 1], "own": ["x": 1]], "v": 1]
        #expect(try (rules.verdict(read: path, root, query: Self.asked) == .allowed) == isAllowed)
    }

    /// The verdict of a rule above on plain reads applies to queries below it as well.
    @Test func rulesAbove_seeAPlainRead() throws {
        let rules = try RuleSet(
            parsing: #"{"rules":{".read":"query.limitToFirst == null && !query.orderByKey && query.startAt == null","a":{}}}"#)
        let asked = QueryVariables(orderByKey: true, startAt: "x", limitToFirst: 1)
        #expect(try rules.verdict(read: "/a", ["a": 1], query: asked) == .allowed)
        #expect(try rules.verdict(read: "/a/b/c", ["a": 1], query: asked) == .allowed)
        #expect(try rules.verdict(read: "/", ["a": 1], query: asked) == .denied)
        let decision = rules.decideRead("/a", root: ["a": 1], auth: .null, now: 0, query: asked)
        #expect(decision.isAllowed)
    }
}
