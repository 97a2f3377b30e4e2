import JSONTree
import SecurityRules
import Testing

/// The decisions of `docs/compatibility.md` for points that the contract leaves open.
@Suite(.timeLimit(.minutes(30))) struct OpenPointTests {
    @Test(arguments: [
        "true /* or not */ && true", ".5 == 0.5", "'a\\-b' == 'a-b'", "'\\u00e9' == 'é'", "1e21 + '' == '1e+21'",
        "1e20 + '' == '100000000000000000000'",
        "0.1 + 0.2 + '' == '0.30000000000000004'", "-0 + '' == '0'", "1e-7 + '' == '1e-7'", "0.000001 + '' == '0.000001'",
        "123456.75 + '' == '123456.75'",
        "0/0 + '' == 'NaN'", "5 % 0 + '' == 'NaN'", "-7 % 3 == -1", "7 % -3 == 1", "!(1 % 0 == 1 % 0)", "-(1/0) + '' == 'NaN'",
        "data.child('o').val() != data.child('o').val()", "data.child('o').val() != null", "(true ? data : 1) != null",
        "'\u{1F600}'.length == 2", "'\u{1F600}' < '\u{E000}'", "auth.token.list[1] == 'y'", "auth.none[auth.none] == null",
        "!query.orderByKey", "data.child('//o///p/').val() == 1", "!data.child('').exists()", "!data.child('/').exists()",
        "data.child('').parent().child('o/p').val() == 1",
        "data.child(data.child('k').val()).parent().parent().parent().child('s').val() == 1",
        "!data.hasChild('')", "root.child('none').hasChildren([])", "'abc'.endsWith('')", "'ab'.replace('', '-') == '-a-b-'",
        "'aaa'.replace('aa', 'b') == 'ba'", "'ß'.toUpperCase() == 'SS'", "'e\u{301}' != 'é'", "data.child('o').hasChildren(['p', 'q/r'])",
        "(query.limitToFirst == null ? data : root).child('k').val() == 'o/p'", "root.child('t/' + 'k').val() == 'o/p'",
        "root.child('t/o/' + 'p' + '').val() == 1", "root.child(1 + '/x').parent().parent().child('s').val() == 1",
        "2 * 3 + 4 == 10 && 2 + 3 * 4 == 14 && 10 - 3 - 2 == 5 && 2 - -1 == 3", "'' + auth.token.list[0] == 'x'",
    ]) func decision_holds(_ expression: String) throws {
        #expect(try verdict(expression) == .allowed)
    }

    @Test(arguments: [
        "auth.token.list[auth.none] == null", "data.hasChildren(['none', auth.none])", "data.parent().parent().exists()",
        "data.child('').parent().parent().parent().exists()",
        "data.child(data.child('k').val()).parent().parent().parent().parent().exists()",
    ]) func operation_failsTheRule(_ expression: String) throws {
        #expect(try verdict(expression + " || true") == .failed)
    }

    @Test(arguments: [
        "0x10 == 16", "1.foo == 1", "'a\\d' == 'd'", "'a\nb' == ''", "1. == 1", "true &&", "(true", "true)", "a.b.", "'x", "true true",
        "[true", "auth.", "auth[", "data.child('a', 'b').exists()",
    ])
    func expression_isRefused(_ expression: String) {
        #expect(faults("{\"rules\":{\".read\":\(quoted(expression))}}").count == 1)
    }

    private func verdict(_ expression: String) throws -> Verdict {
        let rules = try RuleSet(parsing: "{\"rules\":{\"t\":{\".read\":\(quoted(expression))}}}")
        let root: Node = ["t": ["o": ["p": 1, "q": ["r": 2]], "k": "o/p"], "s": 1]
        let auth: Node = ["uid": "u1", "token": ["list": ["0": "x", "1": "y"]]]
        let trace = rules.explainRead("/t", root: root, auth: auth, now: fixedNow)
        #expect(rules.allowsRead("/t", root: root, auth: auth, now: fixedNow) == trace.isAllowed)
        return Verdict(trace)
    }

    /// A computed string is bounded, whichever client wrote the value.
    @Test func computedString_isBounded() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".read":"(data.val() + data.val() + data.val()).length > 0"}}"#)
        let text = String(repeating: "x", count: 4_000_000)
        #expect(!rules.allowsRead("/", root: .string(text), auth: .null, now: 0))
        #expect(rules.allowsRead("/", root: .string(String(text.prefix(3_000_000))), auth: .null, now: 0))
        let replacing = try RuleSet(parsing: #"{"rules":{".read":"data.val().replace('x', data.val()).length > 0"}}"#)
        #expect(!replacing.allowsRead("/", root: .string(text), auth: .null, now: 0))
    }

    /// Searching for a long text in another is linear: the naive algorithm takes 10^12 steps here.
    @Test func search_isLinear_inLongTexts() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".read":"data.child('t').val().contains(data.child('p').val())"}}"#)
        let root: Node = [
            "t": .string(String(repeating: "a", count: 2_000_000)), "p": .string(String(repeating: "a", count: 1_000_000) + "b"),
        ]
        #expect(!rules.allowsRead("/", root: root, auth: .null, now: 0))
    }
}
