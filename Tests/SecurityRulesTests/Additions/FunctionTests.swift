import JSONTree
import Testing

@testable import SecurityRules

/// Functions defined next to the rules.
@Suite(.timeLimit(.minutes(30))) struct FunctionTests {
    private static func file(_ functions: String, read: String = "true", write: String = "true") -> String {
        "{\"functions\":{\(functions)},\"rules\":{\"t\":{\"$k\":{\".read\":\(quoted(read)),\".write\":\(quoted(write))}}}}"
    }

    private static let functions = #""isUser(u)":"u != null && active(u)","active(u)":"newStatus(u) == 'active' || u == 'root'","#
        + #""newStatus(u)":"root.child('users').child(u).child('status').val()","member(x)":"x.child(auth.uid)","#
        + #""admin()":"auth.token.admin == true","same(a, b)":"a.equals(b)","or(a, b)":"a == null ? b : a","#
        + #""text(s)":"s.fold().contains('ada')","here()":"data.child('here')","both(a, b)":"a && b""#

    struct Row: Sendable, CustomTestStringConvertible {
        let expression: String
        let verdict: Verdict
        let caller: Caller
        init(_ expression: String, _ verdict: Verdict, _ caller: Caller = .u1) {
            (self.expression, self.verdict, self.caller) = (expression, verdict, caller)
        }
        var testDescription: String { expression }
    }

    @Test(arguments: [
        Row("isUser(auth.uid)", .allowed), Row("isUser(auth.uid)", .denied, .u2), Row("isUser(auth.uid)", .denied, .nobody),
        Row("active(auth.uid)", .failed, .nobody), Row("!isUser(auth.uid)", .denied), Row("isUser('root')", .allowed, .nobody),
        Row("isUser($k)", .allowed, .nobody), Row("member(data.child('of')).exists()", .allowed),
        Row("member(data.child('of')).exists()", .denied, .u2),
        Row("member(data.child('of')).child('since').val() == 7", .allowed), Row("member(data).exists() || true", .failed, .nobody),
        Row("admin()", .allowed), Row("admin()", .denied, .u2), Row("same(data.child('a'), data.child('b'))", .allowed),
        Row("same(data, data.child('b'))", .denied), Row("or(data.child('none').val(), 5) == 5", .allowed),
        Row("or(data.child('n').val(), 5) == 6", .allowed), Row("or(or(null, or(null, null)), 'x') == 'x'", .allowed),
        Row("text('Lady Áda')", .allowed), Row("text(data.child('n').val()) || true", .failed), Row("here().val() == 1", .allowed),
        Row("both(admin(), isUser(auth.uid)) && both(true, !false)", .allowed), Row("both(admin(), admin()) ? false : true", .allowed, .u2),
        Row("data.child(or(null, 'here')).exists()", .allowed), Row("newStatus('u1') + '!' == 'active!'", .allowed),
    ]) func call_isTheBodyWithItsArguments(_ row: Row) throws {
        let rules = try RuleSet(parsing: Self.file(Self.functions, read: row.expression, write: row.expression))
        let root: Node = [
            "users": ["u1": ["status": "active"], "u2": ["status": "gone"]],
            "t": ["u1": ["of": ["u1": ["since": 7]], "a": ["x": 1], "b": ["x": 1], "n": 6, "here": 1]],
        ]
        #expect(try rules.verdict(read: "/t/u1", root, row.caller) == row.verdict)
        let auth = row.caller.auth
        let writes = rules.allowsWrite(["/t/u1"], old: root, new: root, auth: auth, now: fixedNow)
        #expect(writes == (row.verdict == .allowed))
        if writes { #expect(rules.mayAllowWrite(["/t/u1"], auth: auth, now: fixedNow)) }
    }

    @Test(arguments: [
        (#""f":"true""#, "true", "1:15: Expected a function such as 'isFriend(a, b)'."),
        (#""f(a":"true""#, "true", "1:15: Expected a function such as 'isFriend(a, b)'."),
        (#""f(a b)":"true""#, "true", "1:15: Expected a function such as 'isFriend(a, b)'."),
        (#""f(a,)":"true""#, "true", "1:15: Expected a function such as 'isFriend(a, b)'."),
        (#""f($a)":"true""#, "true", "1:15: Expected a function such as 'isFriend(a, b)'."),
        (#""f(a)b":"true""#, "true", "1:15: Expected a function such as 'isFriend(a, b)'."),
        (#""data(a)":"true""#, "true", "1:15: 'data' has a meaning already."),
        (#""f(now)":"true""#, "true", "1:15: 'now' has a meaning already."),
        (#""dayOf(a)":"true""#, "true", "1:15: 'dayOf' has a meaning already."),
        (#""f(a, a)":"true""#, "true", "1:15: A function and its parameters have different names."),
        (#""f(a)":"true","f(b)":"true""#, "true", "1:29: Duplicate function 'f'."),
        (#""f(a)":true"#, "true", "1:22: Expected the expression of the function, a string."),
        (#""f(a)":"a +""#, "true", "1:26: Unexpected end of expression."), (#""f(a)":"b == 1""#, "true", "1:23: Unknown variable 'b'."),
        (#""f(a)":"$k == 1""#, "true", "1:23: Unknown variable '$k'."), (#""f(a)":"g(a)""#, "true", "1:23: Unknown function 'g'."),
        (#""f(a)":"f(a)""#, "true", "1:15: Function 'f' calls itself."),
        (#""f(a)":"a == 1""#, "f(1, 2)", "1:50: f() expects 1 argument."), (#""f()":"true""#, "f(1)", "1:47: f() expects no arguments."),
        (#""f(a)":"a.exists()""#, "f(1)", "1:23: Invalid property access: target is not an object."),
        (#""f(a)":"true""#, "f(b)", "1:50: Unknown variable 'b'."), (#""f(a)":"a == 1""#, "g(1)", "1:50: Unknown variable 'g'."),
        (#""f(a)":"newData.exists()""#, "f(1)", "1:23: newData is invalid in .read expressions."),
        (#""f(a)":"'x'.matches""#, "f(1)", "1:55: f() yields neither a value nor a snapshot."),
        (#""f(a)":"1""#, "f(1)", "1:45: Expression must evaluate to a boolean."),
    ]) func slip_isRefused_whereItIs(_ functions: String, _ read: String, _ message: String) {
        let text = "{\"functions\":{\(functions)},\"rules\":{\".read\":\(quoted(read))}}"
        let found = faults(text)
        #expect(found.count == 1 && found[0].message == message.split(separator: " ", maxSplits: 1).last.map(String.init), "\(found)")
        // The position is that of the mistake, in the function or in the rule.
        let place = message.prefix { $0 != " " }.dropLast()
        #expect(found.first.map { "\($0.line):\($0.column)" } == String(place), "\(text)")
    }

    /// Two functions that call each other are both reported; a fault in a body that many rules call is reported once.
    @Test func faults_areToldOnce() {
        #expect(
            faults(Self.file(#""f()":"g()","g()":"h()","h()":"f()","i()":"h()""#)).map(\.message) == [
                "Function 'f' calls itself.", "Function 'g' calls itself.", "Function 'h' calls itself.",
            ])
        let found = faults(Self.file(#""f(a)":"a.exists()""#, read: "f(1)", write: "f(2) || f(3)"))
        #expect(found.map(\.message) == ["Invalid property access: target is not an object."])
        #expect(found[0].hint?.hasPrefix("called by the rule at 1:") == true)
    }

    @Test func functions_standBeforeOrBehindTheRules_andMustBeAnObject() {
        #expect(faults(#"{"rules":{".read":"f()"},"functions":{"f()":"true"}}"#) == [])
        #expect(faults(#"{"functions":{},"rules":{}}"#) == [])
        #expect(faults(#"{"functions":[],"rules":{}}"#).map(\.description) == ["1:14: Expected '{'."])
        #expect(faults(#"{"functions":{},"functions":{},"rules":{}}"#).map(\.description) == ["1:17: Expected 'rules' property."])
    }

    /// Each function doubles the size of its predecessor's expansion: the total is bounded, and computed in bounded time.
    @Test func growth_isBounded_inSize() throws {
        func doubling(_ levels: Int) -> String {
            (1...levels).map { "\"f\($0)(x)\":\"f\($0 - 1)(x) && f\($0 - 1)(x)\"" }.joined(separator: ",") + #","f0(x)":"x == 1""#
        }
        #expect(faults(Self.file(doubling(10), read: "f10(2)")) == [])
        let found = faults(Self.file(doubling(60), read: "f60(2)"))
        #expect(found.count == 1 && found[0].message == "The calls of functions put more than 262144 parts into the rules.", "\(found)")
        // Both sides of the limit: the body has three parts, the argument is one more.
        let text = Self.file(#""f(x)":"x == 1""#, read: "f(2)")
        _ = try RuleSet(parsing: text, functionParts: 4)
        #expect(throws: RulesErrors.self) { try RuleSet(parsing: text, functionParts: 3) }
        // An argument counts at each use.
        let twice = Self.file(#""f(x)":"x == x""#, read: "f(1 + 1)")
        #expect(throws: RulesErrors.self) { try RuleSet(parsing: twice, functionParts: 8) }
        _ = try RuleSet(parsing: twice, functionParts: 9)
    }

    @Test func number_isBounded() {
        func file(_ count: Int) -> String { Self.file((0..<count).map { "\"f\($0)()\":\"true\"" }.joined(separator: ",")) }
        #expect(faults(file(1_000)) == [])
        #expect(faults(file(1_001)).map(\.message) == ["At most 1000 functions."])
    }

    /// Calls repeat their body's parts: its regular expression is compiled once, and long texts are not concatenated in advance.
    @Test func calls_shareRegularExpressions_andLongTexts() throws {
        let functions = #""m(x)":"x.matches(/^[a-z]{3}$/)","s(x)":"x + x","l(x)":"s(s(s(s(s(s(s(s(s(s(s(s(x))))))))))))""#
        let read = Array(repeating: "m('abc')", count: 3).joined(separator: " && ") + " && l('a').length == 4096"
        let rules = try RuleSet(parsing: Self.file(functions, read: read))
        #expect(Set(rules.program.tables.regexes.map { ObjectIdentifier($0) }).count == 1)
        #expect(rules.allowsRead("/t/a", root: .null, auth: .null, now: 0))
    }

    @Test func growth_isBounded_inHeight() {
        // 100 nested calls, each with a body of some depth.
        let nested = String(repeating: "f(", count: 100) + "true" + String(repeating: ")", count: 100)
        let found = faults(Self.file(#""f(x)":"!(!(!(!(!x))))""#, read: nested))
        #expect(found.count == 1 && found[0].message == "Expression is nested deeper than 256 levels.", "\(found)")
        let chain = (1...200).map { "\"f\($0)()\":\"!(!f\($0 - 1)())\"" }.joined(separator: ",") + #","f0()":"true""#
        #expect(faults(Self.file(chain, read: "f200()")).map(\.message) == ["Expression is nested deeper than 256 levels."])
        #expect(faults(Self.file(chain, read: "f50()")) == [])
    }

    /// An explanation shows the call with its result, and below it the parts of the body at their position in the file.
    @Test func explanation_showsTheCall_andTheBody() throws {
        let text = "{\"functions\":{\n\"owner(x)\":\"x.child('by').val() == auth.uid\"},\n"
            + "\"rules\":{\".read\":\"auth != null && owner(data)\"}}"
        let rules = try RuleSet(parsing: text)
        let trace = rules.explainRead("/", root: ["by": "u2"], auth: Caller.u1.auth, now: fixedNow)
        #expect(
            trace.steps[0].parts.map(\.description) == [
                "auth != null && owner(data) = false (3:19)", "auth != null = true (3:19)", "auth = (object) (3:19)",
                "owner(data) = false (3:35)", "x.child('by').val() == auth.uid = false (2:13)", "x.child('by').val() = \"u2\" (2:13)",
                "auth.uid = \"u1\" (2:36)",
            ])
        // A failure inside the body is a failure of the call in the rule.
        let failing = try RuleSet(parsing: Self.file(#""f(x)":"x + 1 == 2""#, read: "true && f(data.val())"))
        let step = failing.explainRead("/t/k", root: .null, auth: .null, now: 0).steps[0]
        #expect(step.outcome == .failed(.notAddable, offset: 8))
        #expect(step.parts.map(\.text) == ["true && f(data.val())", "f(data.val())", "x + 1 == 2", "x + 1", "data.val()"])
    }

    @Test func functionThatNobodyCalls_isWarnedOf() throws {
        let rules = try RuleSet(
            parsing: #"{"functions":{"f()":"g()","g()":"true","h()":"true"},"rules":{"a":{".read":"auth != null && f()"}}}"#)
        #expect(rules.warnings.map(\.description) == ["1:40: Function 'h' is never called."])
        #expect(rules.functions.map(\.name) == ["f()", "g()", "h()"] && rules.functions[0].text == "g()")
        #expect(try RuleSet(parsing: rules.plainJSON).functions.map(\.text) == rules.functions.map(\.text))
    }
}
