import JSONTree
import SecurityRules
import Testing

/// `.count`: which callers may learn the number of children of a place.
@Suite(.timeLimit(.minutes(30))) struct CountTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let id: String
        /// The value of `.count`; empty for none.
        let count: String
        let query: QueryVariables
        let isAllowed: Bool
        let auth: Node
        var read = "auth != null"

        init(
            _ id: String, _ count: String, _ query: QueryVariables, _ isAllowed: Bool, _ auth: Node = .null,
            read: String = "auth != null"
        ) {
            (self.id, self.count, self.query, self.isAllowed, self.auth, self.read) = (id, count, query, isAllowed, auth, read)
        }
        var testDescription: String { id }
    }

    private static let user: Node = ["uid": "u", "provider": "password", "token": [:]]
    private static let nameless: Node = ["uid": "n", "provider": "anonymous", "token": [:]]
    private static let circle = QueryVariables(near: true, radius: 1000)
    private static func circle(_ radius: Double, _ conditions: [Path: Node] = [:], others: Set<Path> = []) -> QueryVariables {
        var query = QueryVariables(near: true, radius: radius, conditions: conditions)
        query.otherConditions = others
        return query
    }

    private static func rules(_ count: String, read: String) throws -> RuleSet {
        let member = count.isEmpty ? "" : "\".count\":\(count),"
        return try RuleSet(
            parsing: "{\"rules\":{\"i\":{\(member)\".read\":\(quoted(read)),\".indexOn\":[\"owner\"],"
                + "\".geoIndex\":{\"lat\":\"at/lat\",\"lng\":\"at/lng\",\"filter\":[\"open\",\"kind\",\"at/lat\",\"types/*\"],\"order\":[\"rating\"]}}}}")
    }

    private static let least = #"{"if":"query.near","radius":1000}"#

    static let rows: [Row] = [
        Row("C01 no rule: who may not read", "", circle, false),
        Row("C02 no rule: who may read", "", circle, true, user),
        Row("C03 the rule stands for the read rule", #""query.radius == 1000""#, circle, true),
        Row("C04 and refuses who may read", #""query.radius == 1000""#, circle(999), false, user),
        Row("C05 constant", "true", .none, true),
        Row("C06 constant", "false", circle, false, user, read: "true"),
        Row("C07 expression of an object", #"{"if":"query.radius == 1000","snap":100}"#, circle, true),
        Row("C08 expression of an object", #"{"if":"query.radius == 1000","snap":100}"#, circle(1001), false),
        Row("C09 terms without an expression: the read rule", #"{"perMinute":5}"#, circle, false),
        Row("C10 terms without an expression: the read rule", #"{"perMinute":5}"#, circle, true, user),
        Row("C11 a radius as large as the least", least, circle, true),
        Row("C12 a smaller one", least, circle(999.9), false),
        Row("C13 a smaller one with an account", least, circle(999.9), true, user),
        Row("C14 a smaller one of a user without a name", least, circle(999.9), false, nameless),
        Row("C15 the nearest anywhere", least, QueryVariables(near: true, nearest: 5), true),
        Row("C16 a declared condition", least, circle(1000, ["kind": "x", "open": true]), true),
        Row("C17 one that is not declared", least, circle(1000, ["note": "x"]), false),
        Row("C18 one that is not declared, with an account", least, circle(1000, ["note": "x"]), true, user),
        Row("C19 a bound on a declared path", least, circle(1000, others: ["kind"]), true),
        Row("C20 a bound on the position, though it is declared", least, circle(1000, others: ["at/lat"]), false),
        Row("C21 a bound above the position", least, circle(1000, others: ["at"]), false),
        Row("C22 bounds of an order", least, QueryVariables(orderByChild: "kind", startAt: "a", near: true, radius: 1000), false),
        Row("C23 an order alone", least, QueryVariables(orderByChild: "kind", limitToFirst: 5, near: true, radius: 1000), true),
        Row("C24 other terms bound no circle", #"{"if":"query.near","perMinute":5}"#, circle(1, ["owner": "x"]), true),
        Row("C24a a region where circles are bounded", #"{"radius":1000}"#, QueryVariables(radius: 5000, within: "box"), false),
        Row("C24b a region, with an account", #"{"if":"true","radius":1000}"#, QueryVariables(radius: 5000, within: "box"), true, user),
        Row("C24c a region where only numbers are bounded", #"{"if":"query.within == 'box'","least":5}"#, QueryVariables(radius: 9, within: "box"), true),
        Row("C25 a member of a declared set", least, circle(1000, ["types/cafe": true]), true),
        Row("C26 which members a declared set has", least, circle(1000, others: ["types"]), true),
        Row("C27 something below a member", least, circle(1000, ["types/cafe/since": 1]), false),
        Row("C28 the children themselves", least, circle(1000, ["": 1]), false),
        Row("C29 an index that is no filter of circles", least, circle(1000, ["owner": "x"]), false, nameless),
        Row("C30 an order of circles that is no filter", least, circle(1000, ["rating": 1]), false),
        Row("C32 a least number bounds no circle", #"{"if":"query.near","least":5}"#, circle(1, ["owner": "x"]), true),
        Row("C33 but bounds of an order", #"{"if":"true","least":5}"#, QueryVariables(orderByChild: "kind", equalTo: "a"), false),
        Row("C34 the same with an account", #"{"if":"true","least":5}"#, QueryVariables(orderByChild: "kind", equalTo: "a"), true, user),
        Row("C31 an index that is no filter, with an account", least, circle(1000, ["owner": "x"]), true, user),
    ]

    @Test(arguments: rows) func count_hasItsVerdict(_ row: Row) throws {
        let rules = try Self.rules(row.count, read: row.read)
        let root: Node = ["i": ["a": 1]]
        #expect(rules.allowsCount("i", root: root, auth: row.auth, now: fixedNow, query: row.query) == row.isAllowed)
        #expect(rules.decideCount("i", root: root, auth: row.auth, now: fixedNow, query: row.query).isAllowed == row.isAllowed)
        let trace = rules.explainCount("i", root: root, auth: row.auth, now: fixedNow, query: row.query)
        #expect(trace.isAllowed == row.isAllowed && trace.operation == .count("i"))
        // It has no effect on reads.
        #expect(rules.allowsRead("i", root: root, auth: row.auth, now: fixedNow, query: row.query)
            == (row.read == "true" || row.auth.exists))
    }

    @Test func rule_holdsForItsPlaceAlone_andIsFoundThroughWildcards() throws {
        let rules = try RuleSet(
            parsing: #"""
                {"rules":{"open":{".read":true,".count":"false"},
                  "r":{".count":true,"$r":{".count":"$r == 'a' && root.child('on').exists()"}}}}
                """#)
        func counts(_ path: Path, _ root: Node = ["on": true]) -> Bool { rules.allowsCount(path, root: root, auth: .null, now: 0) }
        #expect(!counts("open") && counts("open/x"), "below it the read rules are asked")
        #expect(counts("r") && counts("r/a") && !counts("r/b") && !counts("r/a/x") && !counts(.root))
        #expect(!counts("r/a", .null))
        let decision = rules.decideCount("r/a", root: ["on": true], auth: .null, now: 0)
        #expect(decision.isAllowed && decision.dependencies == ["on"])
        #expect(rules.countTerms(at: "r/a") == nil)
    }

    @Test func terms_areThoseOfTheFile() throws {
        let rules = try RuleSet(
            parsing: #"{"rules":{"a":{"$b":{".count":{"if":"true","radius":1.5,"snap":100,"least":5,"perMinute":30}}}}}"#)
        let terms = try #require(rules.countTerms(at: "a/x"))
        #expect(terms.radius == 1.5 && terms.snap == 100 && terms.perMinute == 30 && terms.least == 5 && terms.pattern == "a/$b")
    }

    @Test func explanation_saysWhatIsNotMet_andWhichRuleDecided() throws {
        let rules = try Self.rules(Self.least, read: "false")
        func trace(_ query: QueryVariables) -> String {
            rules.explainCount("i", root: .null, auth: .null, now: 0, query: query).description
        }
        #expect(trace(Self.circle(10)) == "Attempt to count /i\n\nWithout an account the radius is at least 1000 m.\nCount was denied.")
        #expect(trace(.none).contains("/i:.count: \"query.near\""))
        #expect(trace(.none).hasSuffix("No .count rule allowed the operation.\nCount was denied."))
        let read = try Self.rules("", read: "false").explainCount("i", root: .null, auth: .null, now: 0)
        #expect(read.grantingKind == .read && read.description.contains("No .read rule allowed"))
    }

    private static let form = #"A '.count' is an expression, or {"if": …, "radius": …, "snap": …, "least": …, "perMinute": …}."#
    private static let metres = "is a number of metres from 1 to 1000000."

    @Test(arguments: [
        ("5", ["1:20: Invalid rule expression.  Expected 'true', 'false', or an expression string."]), ("{}", ["1:20: \(form)"]),
        (#"{"if":5}"#, ["1:26: Invalid rule expression.  Expected 'true', 'false', or an expression string."]),
        (#"{"if":"newData.exists()"}"#, ["1:27: newData is invalid in .count expressions."]),
        (#""newRoot.exists()""#, ["1:21: newRoot is invalid in .count expressions."]),
        (#"{"radius":0.9}"#, ["1:30: 'radius' \(metres)"]), (#"{"snap":1000001}"#, ["1:28: 'snap' \(metres)"]),
        (#"{"radius":"1"}"#, ["1:30: 'radius' \(metres)"]), (#"{"radius":1,"snap":1000000}"#, []),
        (#"{"perMinute":0}"#, ["1:33: 'perMinute' is a whole number from 1 to 10000."]),
        (#"{"perMinute":10001}"#, ["1:33: 'perMinute' is a whole number from 1 to 10000."]),
        (#"{"perMinute":1.5}"#, ["1:33: 'perMinute' is a whole number from 1 to 10000."]), (#"{"perMinute":10000}"#, []),
        (#"{"least":1}"#, ["1:29: 'least' is a whole number from 2 to 1000."]), (#"{"least":1000}"#, []),
        (#"{"least":1001}"#, ["1:29: 'least' is a whole number from 2 to 1000."]),
        (#"{"perMinute":1,"perMinute":1}"#, ["1:35: Duplicate key 'perMinute'."]),
        (#"{"perminute":1}"#, ["1:21: A '.count' has no 'perminute'."]),
    ]) func faults_areToldAtTheirPlace(_ value: String, _ expected: [String]) {
        #expect(faults("{\"rules\":{\".count\":\(value)}}").map(\.description) == expected)
    }

    @Test func check_warnsOfTermsThatBoundNothing() throws {
        func warnings(_ count: String, _ more: String = #","\#(".geoIndex")":{"lat":"x","lng":"y"}"#) throws -> [String] {
            try RuleSet(parsing: "{\"rules\":{\"a\":{\".count\":\(count)\(more)}}}").warnings.map(\.message)
        }
        for (terms, square) in [(#"{"snap":100}"#, "100"), (#"{"radius":1000,"snap":100}"#, "250"), (#"{"radius":1000}"#, "250")] {
            #expect(try warnings(terms).first?.contains("a lone child is found, to its square of \(square) m") == true)
        }
        #expect(try warnings(#"{"radius":100,"snap":100,"least":5}"#) == [] && warnings(#"{"least":5}"#, "") == [])
        #expect(try warnings(#"{"radius":100}"#, "").first?.contains("no circles here") == true)
        #expect(try warnings("true") == [] && warnings("false") == [] && warnings(#"{"perMinute":5}"#, "") == [])
        #expect(try warnings(#""query.radius == 5""#, "").first?.hasPrefix("query.radius is always null here") == true)
    }

    @Test func cases_count() throws {
        let rules = try Self.rules(Self.least, read: "auth != null")
        let cases = try RuleCases(
            parsing: #"""
                {"users":{"u":{"uid":"u","provider":"password"}},"cases":[
                  {"count":"/i","near":true,"radius":1000,"where":{"kind":"x"},"expect":"allow"},
                  {"count":"/i","near":true,"radius":999,"expect":"deny","refusedBy":".count"},
                  {"as":"u","count":"/i","near":true,"radius":999,"expect":"allow"},
                  {"count":"/i","expect":"deny","refusedBy":".count"},
                  {"count":"/i/x","expect":"deny","refusedBy":".read"},
                  {"count":"/i","near":true,"radius":999,"expect":"allow"}]}
                """#)
        let result = rules.run(cases)
        #expect(result.count == 6 && result.failures.map(\.message) == ["expected to be allowed, was denied"])
        #expect(result.coverage.rules.first { $0.name == "/i.count" }?.isCovered == true)
    }
}
