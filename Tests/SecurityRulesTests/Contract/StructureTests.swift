import JSONTree
import SecurityRules
import Testing

/// Rules contract §14.2, §1 and §2: the file around the expressions, and the positions of faults.
@Suite(.timeLimit(.minutes(30))) struct StructureTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let id: String
        let text: String
        /// Each fault: its message, preceded by the position where the contract gives one; empty for "refused with any message".
        let faults: [String]

        init(_ id: String, _ text: String, _ faults: String...) {
            (self.id, self.text, self.faults) = (id, text, faults)
        }
        var testDescription: String { id }
    }

    private static let forbidden = ##"String can't contain ".", "#", "$", "/", "[", or "]""##
    private static let rule = "Invalid rule expression.  Expected 'true', 'false', or an expression string."
    private static let index = "Invalid indexOn expression. Must be either a string or an array of strings"

    @Test(arguments: rows) func file_isAcceptedOrRefused_asTheContractSays(_ row: Row) {
        let found = faults(row.text)
        #expect(found.count == row.faults.count)
        for (fault, expected) in zip(found, row.faults) where !expected.isEmpty {
            #expect(fault.message == expected || fault.description == expected)
        }
    }

    static let rows: [Row] = [
        Row("F01", #"{"rules":{}}"#),
        Row("F02", #"{}"#, "1:2: Expected 'rules' property."),
        Row("F03", #"{"foo":{}}"#, "1:2: Expected 'rules' property."),
        Row("F04", #"{"rules":{".read":true,".write":false}}"#),
        Row("F05", #"{"rules":{".read":1}}"#, "1:19: " + rule),
        Row("F05 null", #"{"rules":{".write":null}}"#, rule),
        Row("F05 object", #"{"rules":{".validate":{}}}"#, rule),
        Row("F05 array", #"{"rules":{".validate":[true]}}"#, rule),
        Row("F06", #"{"rules":{"read":"true"}}"#, "1:18: Expected '{'."),
        Row("F07", #"{"rules":{".foo":true}}"#, "1:18: Expected '{'."),
        Row("F08", #"{"rules":{".foo":{}}}"#, forbidden),
        Row("F09", #"{"rules":{"a/b":{}}}"#, forbidden),
        Row("F09 comment key", #"{"rules":{"//":"a comment"}}"#, forbidden),
        Row("F10", #"{"rules":{"$a":{},"$b":{}}}"#, "Cannot have multiple default rules ('$a' and '$b')."),
        Row("F11", #"{"rules":{"$a":{"$b":{".read":"$a == $b"}}}}"#),
        Row("F12", #"{"rules":{"$a":{"$a":{}}}}"#, ""),
        Row("F12 deeper", #"{"rules":{"$a":{"x":{"$a":{}}}}}"#, ""),
        Row("F13", #"{"rules":{"x":{"$a":{}},"y":{"$a":{}}}}"#),
        Row("F14", #"{"rules":{"x":{"$a":{}},"y":{".read":"$a == '1'"}}}"#, "1:39: Unknown variable '$a'."),
        Row("F15", #"{"rules":{".indexOn":"k"}}"#),
        Row("F15 array", #"{"rules":{".indexOn":["k",".value","a/b",]}}"#),
        Row("F16", #"{"rules":{".indexOn":5}}"#, "1:22: " + index),
        Row("F16 mixed", #"{"rules":{".indexOn":["k",5]}}"#, index),
        Row("F17", #"{"rules":{".read":true,},}"#),
        Row("F17 comment", "{\"rules\":{\".read\":true, // all\n},}"),
        Row("F18", #"{"rules":{"a":{},,"b":{}}}"#, #"1:18: Expected '"'."#),
        Row("F18 leading", #"{"rules":{,"b":{}}}"#, "1:11: Unexpected ','."),
        Row("F19", "// c\n{\"rules\":/* c */{\".read\":true}}"),
        Row("F20", "{\"rules\":{\".read\":\"true\n  && false\"}}"),
        Row("F20 tab and CRLF", "{\"rules\":{\".read\":\"true\r\n\t&& false\"}}"),
        Row("F20 comment", "{\"rules\":{\".read\":\"true // always\n  && false\"}}"),
        Row("F21", "{\"rules\":{\".read\":\"true \\\n&& false\"}}", "1:25: Invalid escape: '\\\n'"),
        Row("F22", #"{"rules":{".read":"tr",".write":"fa"}}"#, "1:20: Unknown variable 'tr'.", "1:34: Unknown variable 'fa'."),
        Row("not JSON", "rules", "1:1: Parse error."),
        Row("empty", "", "1:1: Parse error."),
        Row("cut", #"{"rules":{"#, ""),
        Row("trailing", #"{"rules":{}} x"#, "1:14: Parse error."),
        Row("second key", #"{"rules":{},"more":{}}"#, "1:13: Expected 'rules' property."),
        Row("rules is a list", #"{"rules":[]}"#, "1:10: Expected '{'."),
        Row("same key twice", #"{"rules":{"a":{},"a":{}}}"#, "1:18: Duplicate key 'a'."),
        Row("empty rule", #"{"rules":{".read":""}}"#, "1:20: Expected an expression."),
        Row(
            "expire", #"{"rules":{"a":{".expire":"data.child('at').val() + now"}}}"#,
            "1:52: 'now' is not seen here, as this is asked again at each start and deploy: say 'written', the time of the last commit at or "
                + "below the node."),
        Row(
            "search", #"{"rules":{".search":{"on":"events"}}}"#,
            "1:11: '.search' is not supported by this version."),
        Row("files", #"{"files":{},"rules":{}}"#, "1:2: 'files' is not supported by this version."),
        Row("only files", #"{"files":{}}"#, "1:2: Expected 'rules' property.", "1:2: 'files' is not supported by this version."),
        Row("rules twice", #"{"rules":{},"rules":{}}"#, "1:13: Expected 'rules' property."),
    ]

    @Test func position_pointsAtTheSubExpression_inTheJSONText() {
        let text = """
            {
              "rules": {
                ".read": "tr",
                "a": { ".write": "true &&
                   newData.isArray()" },
                "b": { ".write": "\\"é😀\\" == data.val() && \\u0066oo" }
              }
            }
            """
        #expect(
            faults(text).map(\.description) == [
                "3:15: Unknown variable 'tr'.",
                "5:8: No such method/property 'isArray'.",
                "6:48: Unknown variable 'foo'.",
            ])
    }

    @Test func description_hasOneLinePerFault() {
        do throws(RulesErrors) {
            _ = try RuleSet(parsing: #"{"rules":{".read":"a",".write":"b"}}"#)
            Issue.record("accepted")
        } catch { #expect(error.description == "1:20: Unknown variable 'a'.\n1:33: Unknown variable 'b'.\n") }
    }

    @Test func nesting_isRefused_beyondItsLimit() {
        func parens(_ n: Int) -> String {
            #"{"rules":{".read":""# + String(repeating: "(", count: n) + "true" + String(repeating: ")", count: n) + "\"}}"
        }
        #expect(faults(parens(200)) == [])
        #expect(faults(parens(300)).count == 1)
        #expect(faults(parens(100_000)).count == 1)
        #expect(faults(#"{"rules":{".read":""# + String(repeating: "!", count: 100_000) + "true\"}}").count == 1)
        #expect(faults(#"{"rules":{".read":"data"# + String(repeating: ".parent()", count: 10_000) + ".exists()\"}}").count == 1)
        #expect(faults(#"{"rules":{".read":"true"# + String(repeating: " && true", count: 10_000) + "\"}}") == [])
        func levels(_ n: Int) -> String {
            #"{"rules":"# + String(repeating: #"{"a":"#, count: n) + "{}" + String(repeating: "}", count: n) + "}"
        }
        #expect(faults(levels(32)) == [])
        #expect(faults(levels(33)).count == 1)
        #expect(faults(levels(10_000)).count == 1)
    }

    @Test func size_isRefused_beyondItsLimit() {
        let room = RuleSet.maxBytes - #"{"rules":{}}"#.utf8.count
        #expect(faults(#"{"rules":{}}"# + String(repeating: " ", count: room)) == [])
        #expect(faults(#"{"rules":{}}"# + String(repeating: " ", count: room + 1)).count == 1)
    }

    @Test func indexes_areFound_throughLiteralsAndWildcards() throws {
        let rules = try RuleSet(
            parsing: #"{"rules":{"a":{".indexOn":"k","$x":{".indexOn":["m",".value"]},"y":{}}}}"#)
        #expect(rules.indexes(at: "/a") == ["k"])
        #expect(rules.indexes(at: "/a/z") == ["m", ".value"])
        #expect(rules.indexes(at: "/a/y") == [])
        #expect(rules.indexes(at: "/q/r") == [])
    }
}
