import JSONTree
import SecurityRules
import Testing

/// Which properties of `where`, `near` and limits a rule can read.
@Suite(.timeLimit(.minutes(30))) struct QueryConditionTests {
    typealias Row = QueryTests.Row

    @Test(arguments: rows) func rule_hasItsVerdict_forTheQuery(_ row: Row) throws {
        let rules = try RuleSet(parsing: "{\"rules\":{\"i\":{\".read\":\(quoted(row.expression)),\".geoIndex\":{\"lat\":\"a\",\"lng\":\"b\"}}}}")
        #expect(try rules.verdict(read: "/i", ["i": ["a": 1]], row.caller, query: row.query) == row.verdict)
        // A rule that allows a query need not allow anything else, so it is evaluated at its own place.
        #expect(rules.decideRead("/i", root: ["i": ["a": 1]], auth: row.caller.auth, now: fixedNow, query: row.query).isAllowed
            == (row.verdict == .allowed))
    }

    private static func asked(_ conditions: [Path: Node]) -> QueryVariables { QueryVariables(conditions: conditions) }
    private static let circle = QueryVariables(near: true, radius: 1000)
    private static let own = "query.where.author.uid == auth.uid"
    private static let bounded = "query.near && query.radius <= 1000 && query.limit <= 50"

    static let rows: [Row] = [
        Row("W01", "query.where.status == 'open'", asked(["status": "open"]), .allowed),
        Row("W02", "query.where.status == 'open'", asked(["status": "shut"]), .denied),
        Row("W03", "query.where.status == 'open'", .none, .denied),
        Row("W04", "query.where.status == 'open'", asked(["status/x": "open", "x": "open"]), .denied),
        Row("W05", own, asked(["author/uid": "u1"]), .allowed),
        Row("W06", own, asked(["author/uid": "u2"]), .denied),
        Row("W07", own, asked(["author": "u1"]), .denied),
        Row("W08", own, asked(["author/uid": "u1"]), .denied, .nobody),
        Row("W09", "query.where['author/uid'] == auth.uid", asked(["author/uid": "u1"]), .allowed),
        Row("W10", "query.where['author'].uid == auth.uid", asked(["author/uid": "u1"]), .allowed),
        Row("W11", "query.where.rating >= 3", asked(["rating": 4.5]), .allowed),
        Row("W12", "query.where.rating >= 3", asked(["rating": 2]), .denied),
        Row("W13", "query.where.rating >= 3", .none, .failed),
        Row("W15", "query.where.open == true", asked(["open": true]), .allowed),
        Row("W16", "query.where.a == null", asked(["a": .null]), .allowed),
        Row("W17", "query.where.a == null", asked(["b": 1]), .allowed),
        Row("W18", "query.where.length == 3", asked(["length": 3]), .allowed),
        Row("W19", "query.where.a != null && query.where.b != null", asked(["a": 1, "b": 2]), .allowed),
        Row("W20", "query.where.a != null && query.where.b != null", asked(["a": 1]), .denied),
        Row("W21", "query.orderByChild == null && query.where.a == 1", asked(["a": 1]), .allowed),
        Row("N01", "query.near", circle, .allowed),
        Row("W01", "query.within == 'box' && query.radius <= 1000", QueryVariables(radius: 1000, within: "box"), .allowed),
        Row("W02", "query.within == 'box' && query.radius <= 1000", QueryVariables(radius: 1000.5, within: "box"), .denied),
        Row("W03", "query.within == 'box' && query.radius <= 1000", QueryVariables(radius: 1000, within: "polygon"), .denied),
        Row("W04", "query.within != null", circle, .denied),
        Row("W05", "query.near", QueryVariables(radius: 5, within: "box"), .denied),
        Row("W06", "(query.near || query.within != null) && query.radius <= 1000", QueryVariables(radius: 999, within: "polygon"), .allowed),
        Row("N02", "query.near", .none, .denied),
        Row("N03", "query.near == false", .none, .allowed),
        Row("N04", "query.near && query.radius <= 1000", circle, .allowed),
        Row("N05", "query.near && query.radius <= 1000", QueryVariables(near: true, radius: 1000.5), .denied),
        Row("N06", "query.near && query.radius <= 1000", .none, .denied),
        Row("N07", "query.radius <= 1000", .none, .failed),
        Row("N08", "query.near && query.radius <= 1000", QueryVariables(near: true, nearest: 5), .failed),
        Row("N09", "query.near && query.radius != null", QueryVariables(near: true, nearest: 5), .denied),
        Row("L01", "query.limit <= 50", QueryVariables(limitToFirst: 50), .allowed),
        Row("L02", "query.limit <= 50", QueryVariables(limitToLast: 50), .allowed),
        Row("L03", "query.limit <= 50", QueryVariables(near: true, nearest: 50), .allowed),
        Row("L04", "query.limit <= 50", QueryVariables(near: true, nearest: 51), .denied),
        Row("L05", "query.limit <= 50", QueryVariables(limitToFirst: 51), .denied),
        Row("L06", "query.limit <= 50", .none, .failed),
        Row("L07", "query.limit == null", .none, .allowed),
        Row("L08", bounded, QueryVariables(near: true, radius: 500, nearest: 20), .allowed),
        Row("L09", bounded, QueryVariables(near: true, radius: 500), .failed),
        Row("L10", bounded, QueryVariables(limitToFirst: 20), .denied),
    ]

    /// A rule above the place that is read sees a plain read; otherwise granting a circle would grant everything below it.
    @Test func rulesAbove_seeNeitherConditionsNorCircles() throws {
        let rules = try RuleSet(
            parsing: #"{"rules":{"w":{".read":"query.where.a == 1 || query.near || query.limit == 5",".geoIndex":{"lat":"a","lng":"b"}}}}"#)
        for query in [QueryVariables(conditions: ["a": 1]), QueryVariables(near: true), QueryVariables(limitToFirst: 5)] {
            #expect(try rules.verdict(read: "/w", ["w": ["x": 1]], query: query) == .allowed)
            #expect(try rules.verdict(read: "/w/x", ["w": ["x": 1]], query: query) == .denied)
        }
        let plain = try RuleSet(parsing: #"{"rules":{".write":"query.where.a == null && !query.near && query.limit == null"}}"#)
        #expect(plain.allowsWrite(["/a"], old: .null, new: ["a": 1], auth: .null, now: fixedNow))
    }

    @Test func functions_takeConditions_asValues() throws {
        let rules = try RuleSet(
            parsing: #"{"functions":{"isMine(u)":"auth != null && u == auth.uid"},"rules":{"i":{".read":"isMine(query.where.author.uid)"}}}"#)
        #expect(try rules.verdict(read: "/i", .null, .u1, query: Self.asked(["author/uid": "u1"])) == .allowed)
        #expect(try rules.verdict(read: "/i", .null, .u2, query: Self.asked(["author/uid": "u1"])) == .denied)
        #expect(try rules.verdict(read: "/i", .null, .u1) == .denied)
        let member = faults(#"{"functions":{"f(u)":"u.b == 1"},"rules":{"i":{".read":"f(query.where.a)"}}}"#)
        #expect(member.map(\.message) == ["Invalid property access: target is not an object."])
    }

    /// An explanation shows the whole condition and its value as one part.
    @Test func explanation_tellsTheConditions() throws {
        let rules = try RuleSet(parsing: #"{"rules":{"i":{".read":"query.where.author.uid == auth.uid && query.near"}}}"#)
        let trace = rules.explainRead("/i", root: .null, auth: Caller.u1.auth, now: fixedNow, query: Self.asked(["author/uid": "u1"]))
        let parts = trace.steps.flatMap { $0.parts.map { "\($0.text) = \($0.value)" } }
        #expect(parts == [
            "query.where.author.uid == auth.uid && query.near = false", "query.where.author.uid == auth.uid = true",
            "query.where.author.uid = \"u1\"", "auth.uid = \"u1\"", "query.near = false",
        ])
    }

    @Test(arguments: [
        ("query.where == 1", "Invalid == expression: left operand is not a number, boolean, string, null."),
        ("query.where", "Expression must evaluate to a boolean."), ("query.where.a", "Expression must evaluate to a boolean."),
        ("query.where['a.b'] == 1", "'a.b' is no path of a condition."), ("query.where[''] == 1", "'' is no path of a condition."),
        ("query.where['a$'] == 1", "'a$' is no path of a condition."), ("query.where[auth.uid] == 1", "Invalid property access."),
        ("query.where.a.contains('x')", "Type error: Function call on target that is not a function."),
        ("query.radius", "Expression must evaluate to a boolean."), ("query.near > 1", "Invalid > expression: left operand must be a number or string."),
    ]) func slip_isRefused_withItsPlace(_ expression: String, _ message: String) {
        #expect(faults("{\"rules\":{\".read\":\(quoted(expression))}}").map(\.message) == [message])
    }

    @Test func conditions_areAsDeepAsData() {
        func path(_ levels: Int) -> String { Array(repeating: "a", count: levels).joined(separator: "/") }
        #expect(faults("{\"rules\":{\".read\":\"query.where['\(path(32))'] == 1\"}}") == [])
        #expect(faults("{\"rules\":{\".read\":\"query.where['\(path(33))'] == 1\"}}").count == 1)
        #expect(faults("{\"rules\":{\".read\":\"query.where['\(path(32))'].a == 1\"}}").count == 1)
    }
}
