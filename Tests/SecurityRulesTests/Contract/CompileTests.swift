import SecurityRules
import Testing

/// Rules contract §14.1: rules that the checker accepts, and its messages for others.
@Suite(.timeLimit(.minutes(30))) struct CompileTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let id: String
        let expression: String
        /// nil: accepted; empty: refused with any message.
        let message: String?
        let kind: RuleKind

        init(_ id: String, _ expression: String, _ message: String?, in kind: RuleKind = .write) {
            (self.id, self.expression, self.message, self.kind) = (id, expression, message, kind)
        }
        var testDescription: String { id }
    }

    @Test(arguments: rows) func expression_isAcceptedOrRefused_asTheContractSays(_ row: Row) {
        let faults = faults("{\"rules\":{\"$k\":{\"\(row.kind.rawValue)\":\(quoted(row.expression))}}}")
        switch row.message {
        case nil: #expect(faults == [])
        case "": #expect(faults.count == 1)
        case let message?: #expect(faults.map(\.message) == [message])
        }
    }

    static let rows: [Row] = [
        Row("C001", "true", nil),
        Row("C002", "$k == 'a'", nil),
        Row("C003", "$j == 'a'", "Unknown variable '$j'."),
        Row("C004", "skies == 'blue'", "Unknown variable 'skies'."),
        Row("C005", "7", "Expression must evaluate to a boolean."),
        Row("C006", "null", "Expression must evaluate to a boolean."),
        Row("C007", "auth", "Expression must evaluate to a boolean."),
        Row("C008", "auth.token.admin", "Expression must evaluate to a boolean."),
        Row("C009", "newData.val()", "Expression must evaluate to a boolean."),
        Row("C010", "query.orderByKey", nil, in: .read),
        Row("C011", "!newData.val()", "! only operates on booleans."),
        Row("C012", "auth && true", "Left operand of && must be boolean."),
        Row("C013", "true && newData.val()", "Right operand of && must be boolean."),
        Row("C014", "newData.val() || false", "Left operand of || must be boolean."),
        Row("C015", "false || auth", "Right operand of || must be boolean."),
        Row("C016", "auth ? true : false", "condition of ? must be boolean."),
        Row("C017", "true ? 7 : true", "Expression must evaluate to a boolean."),
        Row("C018", "data == null", "Invalid == expression: left operand is not a number, boolean, string, null."),
        Row("C019", "null == data", "Invalid == expression: right operand is not a number, boolean, string, or null."),
        Row("C020", "data != null", "Invalid != expression: left operand is not a number, boolean, string, or null."),
        Row("C021", "data === null", "Invalid == expression: left operand is not a number, boolean, string, null."),
        Row("C022", "data.val() == true", nil),
        Row("C023", "1 == 'a'", nil),
        Row("C024", "data.val() > true", "Invalid > expression: right operand must be a number or string."),
        Row("C025", "null < 1", "Invalid < expression: left operand must be a number or string."),
        Row("C026", "now > 'a'", nil),
        Row("C027", "true + 1 == 2", "Invalid + expression: left operand is not a number or string."),
        Row("C028", "'a' - 1 == 0", "Invalid - expression: left operand is not a number."),
        Row("C029", "2 * $k == 4", "Invalid * expression: right operand is not a number."),
        Row("C030", "-'a' == 1", "- only operates on numbers."),
        Row("C031", "newData.foo()", "No such method/property 'foo'."),
        Row("C032", "newData.val().kind == 'a'", "No such method/property 'kind'."),
        Row("C033", "'abc'['length'] == 3", nil),
        Row("C034", "'abc'[0] == 'a'", "Invalid property access."),
        Row("C035", "data[$k].exists()", "Invalid property access."),
        Row("C036", "root['ex'+'ists']()", "Invalid property access."),
        Row("C037", "auth.token[$k] == true", nil),
        Row("C038", "auth.uid.anything.at.all == null", nil),
        Row("C039", "now.length == 1", "Invalid property access: target is not an object."),
        Row("C040", "query.orderByChild.length == 3", "Invalid property access: target is not an object."),
        Row("C041", "query.foo == 1", "No such method/property 'foo'."),
        Row("C042", "now() == 1", "Type error: Function call on target that is not a function."),
        Row("C043", "auth.exists()", "Type error: Function call on target that is not a function."),
        Row("C044", "data.exists(1)", "exists() expects no arguments."),
        Row("C045", "data.child().exists()", "child() expects 1 argument."),
        Row("C046", "data.child(1).exists()", "child() expects a string argument."),
        Row("C047", "data.child(auth.uid).exists()", nil),
        Row("C048", "'a'.contains(7)", "contains() expects a string argument."),
        Row("C049", "'a'.replace('a') == ''", "replace() expects two arguments."),
        Row("C050", "'a'.replace(/a/, '') == ''", "Argument 1 of replace() must be a string."),
        Row("C051", "'a'.matches('a')", "matches() expects a regular expression literal argument."),
        Row("C052", "'a'.matches()", "matches() expects 1 regular expression literal argument."),
        Row("C053", "data.hasChildren('a','b')", "hasChildren() expects only a single argument (containing an array of child names)."),
        Row("C054", "data.hasChildren('a')", "hasChildren() expects an array of child names."),
        Row("C055", "data.hasChildren(['a', 7])", "hasChildren() expects an array of strings."),
        Row("C056", "data.hasChildren([])", nil),
        Row("C057", "['a'] == null", "Unexpected array literal."),
        Row("C058", "newData.exists()", "newData is invalid in .read expressions.", in: .read),
        Row("C059", "data = 5", "Rule expressions may not contain assignments."),
        Row("C060", "var x = 1", ""),
        Row("C061", "2**2 == 4", ""),
        Row("C062", "+1 == 1", ""),
        Row("C063", "'a'.matches(/a/g)", "regular expressions do not support flags other than i"),
        Row("C064", "'a'.matches(/[a/)", "unterminated regular expression literal"),
        Row("C065", "'a'.matches(/(^a$|b)/)", ""),
        Row("C066", "'a'.matches(/^(a|)$/)", "Illegal regular expression, expected ')' at position 4"),
        Row("C067", #"'a'.matches(/\{a}/)"#, nil),
    ]
}
