import JSONTree
import SecurityRules
import Testing

/// Rules contract §14.7: `data.val().matches(/…/)` at /t.
@Suite(.timeLimit(.minutes(30))) struct MatchTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let id: String
        let pattern: String
        let flags: String
        let data: String
        let verdict: Verdict

        init(_ id: String, _ pattern: String, flags: String = "", _ data: String, _ verdict: Verdict) {
            (self.id, self.pattern, self.flags, self.data, self.verdict) = (id, pattern, flags, data, verdict)
        }
        var testDescription: String { id }
    }

    @Test(arguments: rows) func pattern_hasItsVerdict_overStoredData(_ row: Row) throws {
        let expression = "data.val().matches(/\(row.pattern)/\(row.flags))"
        let rules = try RuleSet(parsing: "{\"rules\":{\"t\":{\".read\":\(quoted(expression))}}}")
        #expect(try rules.verdict(read: "/t", ["t": try Node(json: row.data)]) == row.verdict)
    }

    static let rows: [Row] = [
        Row("R01", #"^\d{3}-\d{2}$"#, #""123-45""#, .allowed),
        Row("R02", #"^-?\d+$"#, #""-12""#, .allowed),
        Row("R03", #"^-?\d+$"#, #""1.5""#, .denied),
        Row("R04", "foo|bar", #""xbarx""#, .allowed),
        Row("R05", "^(foo|bar)$", #""xbar""#, .denied),
        Row("R06", "^[^a-c]+$", #""xaz""#, .denied),
        Row("R07", #"^\w+@\w+[.]com$"#, #""a@b.com""#, .allowed),
        Row("R08", "^a{2,3}$", #""aaaa""#, .denied),
        Row("R09", "^a?b$", #""b""#, .allowed),
        Row("R10", #"^\S+$"#, #""a b""#, .denied),
        Row("R11", "ABC", flags: "i", #""xabcx""#, .allowed),
        Row("R12", "^[a-z0-9_-]{3,16}$", #""my-slug_1""#, .allowed),
        Row("R13", "^[a-z0-9_-]{3,16}$", #""No""#, .denied),
        Row("R14", #"\{x}"#, #""{x}""#, .allowed),
        Row("R15", "any", "5", .failed),
        Row("R16", "any", "null", .failed),
    ]
}
