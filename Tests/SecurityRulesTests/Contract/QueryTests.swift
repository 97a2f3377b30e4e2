import JSONTree
import SecurityRules
import Testing

/// Rules contract §14.6: `query` in the `.read` of /i.
@Suite(.timeLimit(.minutes(30))) struct QueryTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let id: String
        let expression: String
        let query: QueryVariables
        let verdict: Verdict
        let caller: Caller

        init(_ id: String, _ expression: String, _ query: QueryVariables, _ verdict: Verdict, _ caller: Caller = .u1) {
            (self.id, self.expression, self.query, self.verdict, self.caller) = (id, expression, query, verdict, caller)
        }
        var testDescription: String { id }
    }

    @Test(arguments: rows) func rule_hasItsVerdict_forTheQuery(_ row: Row) throws {
        let rules = try RuleSet(parsing: "{\"rules\":{\"i\":{\".read\":\(quoted(row.expression))}}}")
        #expect(try rules.verdict(read: "/i", ["i": ["a": 1]], row.caller, query: row.query) == row.verdict)
    }

    private static let own = "query.orderByChild == 'own' && query.equalTo == auth.uid"

    private static func own(_ uid: Node) -> QueryVariables {
        QueryVariables(orderByChild: "own", startAt: uid, endAt: uid, equalTo: uid)
    }

    static let rows: [Row] = [
        Row("Q01", own, own("u1"), .allowed),
        Row("Q02", own, own("u2"), .denied),
        Row("Q03", own, .none, .denied),
        Row("Q04", own, own("u1"), .denied, .nobody),
        Row("Q05", "query.limitToFirst <= 5", QueryVariables(limitToFirst: 5), .allowed),
        Row("Q05 above", "query.limitToFirst <= 5", QueryVariables(limitToFirst: 6), .denied),
        Row("Q06", "query.limitToFirst <= 5", .none, .failed),
        Row("Q07", "query.limitToFirst <= 5", QueryVariables(limitToLast: 2), .failed),
        Row("Q08", "query.orderByKey == true", QueryVariables(orderByKey: true), .allowed),
        Row("Q09", "query.orderByKey == true", .none, .denied),
        Row("Q10", "query.orderByValue == true", QueryVariables(orderByValue: true), .allowed),
        Row("Q11", "query.startAt == 'b' && query.endAt == 'm'", QueryVariables(orderByKey: true, startAt: "b", endAt: "m"), .allowed),
        Row("Q12", "query.orderByChild == null", .none, .allowed),
        Row("Q13", "query.orderByChild == 'a/b'", QueryVariables(orderByChild: "a/b"), .allowed),
        Row("Q14", "query.orderByKey != null", .none, .allowed),
        Row("Q15", "query.limitToFirst == null && query.limitToLast == null", .none, .allowed),
        Row("lowered", "query.equalTo.toLowerCase() == 'ab'", QueryVariables(orderByChild: "x", equalTo: "AB"), .allowed),
        Row("lowered, other", "query.equalTo.toLowerCase() == 'ab'", QueryVariables(orderByChild: "x", equalTo: "AC"), .denied),
        Row("lowered number", "query.equalTo.toLowerCase() == 'ab'", QueryVariables(orderByChild: "x", equalTo: 5), .failed),
        Row("lowered null", "query.equalTo.toLowerCase() == 'ab'", .none, .failed),
        Row("begins", "query.orderByChild.beginsWith('a/')", QueryVariables(orderByChild: "a/b"), .allowed),
        Row("matches", "query.startAt.matches(/^b/)", QueryVariables(orderByKey: true, startAt: "ba"), .allowed),
        Row("a place", "root.child(query.equalTo).val() == null", QueryVariables(orderByChild: "x", equalTo: "q"), .allowed),
        Row("priority", "query.orderByPriority", QueryVariables(orderByPriority: true), .allowed),
        Row("same query twice", "(true ? query : query).orderByKey", QueryVariables(orderByKey: true), .allowed),
    ]

    @Test func query_isPlain_inWrites() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".write":"!query.orderByKey && query.limitToFirst == null"}}"#)
        #expect(rules.allowsWrite(["/a"], old: .null, new: ["a": 1], auth: .null, now: fixedNow))
    }
}
