import JSONTree
import SecurityRules
import Testing

/// Rules contract §14.4: snapshots of the data stored at /t; /s is 1.
@Suite(.timeLimit(.minutes(30))) struct SnapshotTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let id: String
        let expression: String
        let data: String
        let verdict: Verdict

        init(_ id: String, _ expression: String, data: String, _ verdict: Verdict) {
            (self.id, self.expression, self.data, self.verdict) = (id, expression, data, verdict)
        }
        var testDescription: String { id }
    }

    @Test(arguments: rows) func expression_hasItsVerdict_overStoredData(_ row: Row) throws {
        let rules = try RuleSet(parsing: "{\"rules\":{\"t\":{\".read\":\(quoted(row.expression))}}}")
        let root: Node = ["t": try Node(json: row.data), "s": 1]
        #expect(try rules.verdict(read: "/t", root) == row.verdict)
    }

    static let rows: [Row] = [
        Row("S01", "data.val() == '5'", data: "5", .denied),
        Row("S02", "data.val() != null", data: #"{"a":1}"#, .allowed),
        Row("S03", "data.child('a').val() == 5", data: #"{"a":5}"#, .allowed),
        Row("S04", "data.child('a/b').val() == 1", data: #"{"a":{"b":1}}"#, .allowed),
        Row("S05", "data.child('./a').exists()", data: #"{"a":1}"#, .denied),
        Row("S06", "data.child('b/../a').exists()", data: #"{"a":1,"b":1}"#, .denied),
        Row("S07", "data.hasChild('a/b')", data: #"{"a":{"b":1}}"#, .allowed),
        Row("S08", "data.hasChildren()", data: "5", .denied),
        Row("S09", "data.hasChildren()", data: #"{"a":false}"#, .allowed),
        Row("S10", "data.hasChildren(['a','b'])", data: #"{"a":1,"b":0}"#, .allowed),
        Row("S11", "data.isNumber()", data: "1.5", .allowed),
        Row("S12", "data.exists()", data: "\"\"", .allowed),
        Row("S13", "data.exists()", data: "false", .allowed),
        Row("S14", "data.isBoolean()", data: "false", .allowed),
        Row("S15", "data.isString() || data.isNumber() || data.isBoolean()", data: #"{"a":1}"#, .denied),
        Row("S16", "data.getPriority() == 3", data: #"{".value":"v",".priority":3}"#, .allowed),
        Row("S17", "data.val() == 'v'", data: #"{".value":"v",".priority":3}"#, .allowed),
        Row("S18", "data.getPriority() == null", data: #""v""#, .allowed),
        Row("S19", "data.parent().child('s').val() == 1", data: "7", .allowed),
        Row("S20", "data.child('0').val() == 'x'", data: #"["x","y"]"#, .allowed),
        Row("S21", "data.val().length > 2", data: "12345", .failed),
        Row("S22", "data.isString() && data.val().length > 2", data: "12345", .denied),
        Row("S23", "data.val().toUpperCase() == 'OK' || data.isNumber()", data: "5", .failed),
        Row("S24", "data.isNumber() || data.val().toUpperCase() == 'OK'", data: "5", .allowed),
        Row("S25", "data.hasChild(data.child('k').val())", data: #"{"k":5,"5":1}"#, .failed),
        Row("S26", "data.hasChild(data.child('k').val())", data: #"{"k":"z","z":1}"#, .allowed),
    ]
}
