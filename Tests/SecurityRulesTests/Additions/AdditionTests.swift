import JSONTree
import Testing

@testable import SecurityRules

/// Vigla's additions to the rules language: each row has data stored at /t, a value written there, and a verdict.
@Suite(.timeLimit(.minutes(30))) struct AdditionTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let expression: String
        let old: String
        /// The value written at /t; nil for a read rule.
        let new: String?
        let verdict: Verdict

        /// A read.
        init(_ expression: String, _ data: String, _ verdict: Verdict) {
            (self.expression, old, new, self.verdict) = (expression, data, nil, verdict)
        }
        /// A write.
        init(_ expression: String, _ old: String, _ new: String, _ verdict: Verdict) {
            (self.expression, self.old, self.new, self.verdict) = (expression, old, new, verdict)
        }
        var testDescription: String { "\(expression) over \(old) \(new ?? "")" }
    }

    @Test(arguments: rows) func expression_hasItsVerdict(_ row: Row) throws {
        let kind = row.new == nil ? ".read" : ".write"
        let rules = try RuleSet(parsing: "{\"rules\":{\"t\":{\"\(kind)\":\(quoted(row.expression))}}}")
        let root: Node = ["t": try Node(json: row.old), "s": 1, "list": ["a": 1, "b": true]]
        guard let text = row.new else {
            #expect(try rules.verdict(read: "/t", root, .u1) == row.verdict)
            return
        }
        var new = root
        new.set(try Node(json: text), at: "/t")
        let auth = Caller.u1.auth
        let trace = rules.explainWrite(["/t"], old: root, new: new, auth: auth, now: fixedNow)
        #expect(Verdict(trace) == row.verdict)
        #expect(rules.allowsWrite(["/t"], old: root, new: new, auth: auth, now: fixedNow) == trace.isAllowed)
        #expect(rules.decideWrite(["/t"], old: root, new: new, auth: auth, now: fixedNow, keeping: 100).isAllowed == trace.isAllowed)
        if trace.isAllowed { #expect(rules.mayAllowWrite(["/t"], auth: auth, now: fixedNow)) }
    }

    static let rows = newRoot + valueOr + childCount + equals + hasAny + fold + dayOf + dayNumber

    private static let newRoot: [Row] = [
        Row("newRoot.child('t').val() == 2", "1", "2", .allowed), Row("newRoot.child('t').val() == 1", "1", "2", .denied),
        Row("root.child('t').val() == 1 && newRoot.child('s').val() == 1", "1", "2", .allowed),
        Row("newRoot.child('t/a').val() == 'x'", "null", #"{"a":"x"}"#, .allowed),
        Row("newRoot.child('t').exists()", "1", "null", .denied), Row("newRoot.hasChildren(['t', 's'])", "null", "1", .allowed),
        Row("newRoot.hasChild('t')", "1", "null", .denied), Row("newRoot.val() != null", "1", "null", .allowed),
        Row("newRoot.parent().exists() || true", "1", "2", .failed), Row("newRoot.isString()", "1", "2", .denied),
        Row("newRoot.child('t').val() == newData.val()", "1", "{}", .allowed),
        Row("newRoot.child('t').childCount() > root.child('t').childCount()", #"{"a":1}"#, #"{"a":1,"b":1}"#, .allowed),
    ]

    private static let valueOr: [Row] = [
        Row("data.val(5) == 5", "null", .allowed), Row("data.val(5) == 5", "6", .denied), Row("data.val(5) == 6", "6", .allowed),
        Row("data.child('n').val(0) + 1 == 1", "{}", .allowed), Row("data.child('n').val(0) + 1 == 8", #"{"n":7}"#, .allowed),
        Row("data.val('') == ''", "null", .allowed), Row("data.val(false) == false", "null", .allowed),
        Row("data.val(false) == false", "true", .denied), Row("data.val(null) == null", "null", .allowed),
        Row("data.val('x').length == 1", "null", .allowed), Row("data.val('x').length == 1", "5", .failed),
        Row("data.val(0) != 0", #"{"a":1}"#, .allowed), Row("data.val(0) == data.val(0)", #"{"a":1}"#, .denied),
        // Operands that are not needed are not evaluated.
        Row("data.val(data.child('a').val() + 1) == 3", "3", .allowed), Row("data.val(data.val() + 1) == 3 || true", "null", .failed),
        Row("data.val(auth.uid) == 'u1'", "null", .allowed), Row("data.val('v') == 'w'", #"{".value":"w",".priority":1}"#, .allowed),
    ]

    private static let childCount: [Row] = [
        Row("data.childCount() == 0", "null", .allowed), Row("data.childCount() == 0", "5", .allowed),
        Row("data.childCount() == 2", #"{"a":1,"b":{"c":1,"d":2}}"#, .allowed),
        Row("data.child('b').childCount() == 2", #"{"b":[1,2]}"#, .allowed),
        Row("data.childCount() > 0", "\"text\"", .denied), Row("root.childCount() == 3", "1", .allowed),
        Row("root.childCount() == 2", "null", .allowed), Row("data.childCount() + '' == '1'", #"{"a":1}"#, .allowed),
        Row("data.childCount() <= 2", #"{"a":1,"b":1,"c":1}"#, .denied), Row("data.childCount() == 1", #"{"a":1,".priority":2}"#, .allowed),
        Row("newData.childCount() == data.childCount() + 1", #"{"a":1}"#, #"{"a":1,"b":1}"#, .allowed),
        Row("newData.childCount() == data.childCount() + 1", #"{"a":1}"#, #"{"b":1}"#, .denied),
    ]

    private static let equals: [Row] = [
        Row("newData.equals(data)", "1", "1", .allowed), Row("newData.equals(data)", "1", "2", .denied),
        Row("newData.equals(data)", "1", "\"1\"", .denied), Row("newData.equals(data)", "1", "1.0", .allowed),
        Row("newData.equals(data)", "null", "null", .allowed), Row("newData.equals(data)", "1", "null", .denied),
        Row("newData.equals(data)", #"{"a":{"b":[1,"x",true]}}"#, #"{"a":{"b":[1,"x",true]}}"#, .allowed),
        Row("newData.equals(data)", #"{"a":{"b":[1,"x",true]}}"#, #"{"a":{"b":[1,"x",false]}}"#, .denied),
        Row("newData.equals(data)", #"{"a":1,"b":2}"#, #"{"a":1,"c":2}"#, .denied),
        Row("newData.equals(data)", #"{"a":1}"#, #"{"a":1,"b":2}"#, .denied), Row("newData.equals(data)", #"{"a":1}"#, "1", .denied),
        Row("newData.equals(data)", "1", #"{".value":1,".priority":2}"#, .denied),
        Row("newData.equals(data)", #"{".value":1,".priority":2}"#, #"{".value":1,".priority":2}"#, .allowed),
        Row("newData.equals(data)", #"{"a":1,".priority":2}"#, #"{"a":1}"#, .denied),
        Row("newData.child('a').equals(newData.child('b'))", "null", #"{"a":{"x":1},"b":{"x":1}}"#, .allowed),
        Row("!newData.child('a').equals(newRoot.child('list'))", "null", #"{"a":{"a":1,"b":true}}"#, .denied),
        Row("newData.child('a').equals(root.child('list'))", "null", #"{"a":{"a":1,"b":true}}"#, .allowed),
    ]

    private static let hasAny: [Row] = [
        Row("data.hasAny(['a', 'b'])", #"{"b":1}"#, .allowed), Row("data.hasAny(['a', 'b'])", #"{"c":1}"#, .denied),
        Row("data.hasAny([])", #"{"c":1}"#, .denied), Row("data.hasAny(['a'])", "null", .denied), Row("data.hasAny(['a'])", "5", .denied),
        Row("data.hasAny(['a/b', 'x'])", #"{"a":{"b":false}}"#, .allowed), Row("data.hasAny([auth.uid])", #"{"u1":1}"#, .allowed),
        // All names are evaluated.
        Row("data.hasAny(['a', auth.token.lvl]) || true", #"{"a":1}"#, .failed),
        Row("data.hasAny(root.child('list'))", #"{"b":5,"z":1}"#, .allowed),
        Row("data.hasAny(root.child('list'))", #"{"x":1,"y":1}"#, .denied),
        Row("data.hasAny(root.child('list'))", #"{"c":1,"d":1,"e":1,"a":1}"#, .allowed),
        Row("data.hasAny(root.child('none'))", #"{"a":1}"#, .denied),
        Row("data.hasAny(root.child('list'))", "\"a\"", .denied), Row("data.hasAny(data)", "{}", .denied),
        Row("newData.hasAny(data)", #"{"a":1}"#, #"{"a":2}"#, .allowed), Row("newData.hasAny(data)", #"{"a":1}"#, #"{"b":2}"#, .denied),
    ]

    private static let fold: [Row] = [
        Row("data.val().fold() == 'αθηνα'", "\"Αθήνα\"", .allowed), Row("data.val().fold() == 'αθηνα'", "\"ΑΘΗΝΑ\"", .allowed),
        Row("data.val().fold() == 'σοφοσ'", "\"Σοφός\"", .allowed), Row("data.val().fold() == 'σοφος'", "\"Σοφός\"", .denied),
        Row("data.val().fold() == 'creme brulee'", "\"Crème Brûlée\"", .allowed),
        Row("data.val().fold() == 'strasse'", "\"Straße\"", .allowed),
        Row("data.val().fold() == 'strasse'", "\"STRAẞE\"", .allowed), Row("data.val().fold() == ''", "\"\"", .allowed),
        Row("data.val().fold() == 'e'", "\"e\\u0301\"", .allowed), Row("data.val().fold() == 'e'", "\"é\"", .allowed),
        Row("data.val().fold() == '' || true", "5", .failed), Row("data.val().fold() == '' || true", "null", .failed),
        Row("data.val().fold() == 'ιυ'", "\"Ϊΰ\"", .allowed), Row("data.val().fold().contains('ταξι')", "\"Ραδιο-ΤΑΞΊ\"", .allowed),
        Row("data.val().fold() == '日本 7!'", "\"日本 7!\"", .allowed), Row("'ÅNGSTRÖM'.fold() == 'angstrom'", "1", .allowed),
        Row("data.val().fold() == 'istanbul'", "\"İstanbul\"", .allowed),
    ]

    private static let dayOf: [Row] = [
        Row("dayOf(0, 'UTC') == '1970-01-01'", "1", .allowed), Row("dayOf(data.val(), 'UTC') == '2026-11-22'", "1795391999999", .allowed),
        Row("dayOf(data.val(), 'UTC') == '2026-11-23'", "1795392000000", .allowed),
        // Athens is UTC+2 in winter and UTC+3 in summer.
        Row("dayOf(data.val(), 'Europe/Athens') == '2026-11-23'", "1795384800000", .allowed),
        Row("dayOf(data.val(), 'Europe/Athens') == '2026-11-22'", "1795384799999", .allowed),
        Row("dayOf(data.val(), 'Europe/Athens') == '2026-07-02'", "1782939600000", .allowed),
        Row("dayOf(data.val(), 'Europe/Athens') == '2026-07-01'", "1782939599999", .allowed),
        Row("dayOf(data.val(), 'America/New_York') == '2026-11-22'", "1795391999999", .allowed),
        Row("dayOf(-1, 'UTC') == '1969-12-31'", "1", .allowed), Row("dayOf(data.val(), 'UTC') == '' || true", "\"x\"", .failed),
        Row("dayOf(data.val(), 'UTC') == '' || true", "null", .failed), Row("dayOf(1e300, 'UTC') == '' || true", "1", .failed),
        Row("dayOf(0/0, 'UTC') == '' || true", "1", .failed),
        Row("dayOf(data.val() * 1000, 'UTC') == '9999-12-31'", "253402300799", .allowed),
        Row("dayOf(data.val() * 1000, 'UTC') == '' || true", "253402300800", .failed),
        Row("dayOf(now, 'UTC') == '2023-11-14'", "1", .allowed),
        // A zone from data: known, unknown, none, no zone's name, a way out of the folder.
        Row("dayOf(1795384800000, data.val()) == '2026-11-23'", "\"Europe/Athens\"", .allowed),
        Row("dayOf(1795384800000, data.val('UTC')) == '2026-11-22'", "null", .allowed),
        Row("dayOf(now, data.val()) == '' || true", "\"Europe/Atlantis\"", .failed), Row("dayOf(now, data.val()) == '' || true", "null", .failed),
        Row("dayOf(now, data.val()) == '' || true", "5", .failed), Row("dayOf(data.val(), data.val()) == '' || true", "\"UTC\"", .failed),
        Row("dayOf(now, data.val()) == '' || true", "\"../../etc/passwd\"", .failed),
        Row("dayNumber(dayOf(now, data.val())) == 19675", "\"UTC\"", .allowed),
        Row("root.child('x').child(dayOf(now, 'Asia/Tokyo')).exists()", "1", .denied),
    ]

    private static let dayNumber: [Row] = [
        Row("dayNumber('1970-01-01') == 0", "1", .allowed), Row("dayNumber(data.val()) == 20779", "\"2026-11-22\"", .allowed),
        Row("dayNumber(data.val()) == -1", "\"1969-12-31\"", .allowed), Row("dayNumber(data.val()) == null", "\"2026-02-29\"", .allowed),
        Row("dayNumber(data.val()) != null", "\"2024-02-29\"", .allowed), Row("dayNumber(data.val()) == null", "\"2026-13-01\"", .allowed),
        Row("dayNumber(data.val()) == null", "\"2026-1-1\"", .allowed), Row("dayNumber(data.val()) == null", "\"\"", .allowed),
        Row("dayNumber(data.val()) == null", "null", .allowed), Row("dayNumber(data.val()) == null", "20260101", .allowed),
        Row("dayNumber(data.val()) == null", "\"2026-11-2２\"", .allowed),
        Row("dayNumber('2026-03-01') - dayNumber('2026-02-28') == 1", "1", .allowed),
        Row("dayNumber(data.val()) + 1 > 0 || true", "\"never\"", .failed), Row("dayNumber('0000-01-01') == -719528", "1", .allowed),
        Row("dayNumber(dayOf(now, 'UTC')) * 86400000 <= now", "1", .allowed),
    ]

    @Test(arguments: [
        ("newRoot.exists()", "newRoot is invalid in .read expressions."), ("data.val(1, 2) == 1", "val() expects at most one argument."),
        ("data.val(data) == 1", "val() expects a number, boolean, string, or null."),
        ("data.childCount(1) == 1", "childCount() expects no arguments."),
        ("data.equals()", "equals() expects 1 argument."), ("data.equals(1)", "equals() expects a snapshot such as data.child('a')."),
        ("data.equals(data.val())", "equals() expects a snapshot such as data.child('a')."),
        ("data.equals(data, data)", "equals() expects 1 argument."),
        ("data.hasAny('a')", "hasAny() expects an array of strings or a snapshot such as data.child('a')."),
        ("data.hasAny([1])", "hasAny() expects an array of strings."), ("data.hasAny()", "hasAny() expects 1 argument."),
        ("data.fold() == ''", "No such method/property 'fold'."), ("'a'.fold(1) == ''", "fold() expects no arguments."),
        ("data.childCount()", "Expression must evaluate to a boolean."),
        ("dayOf(now) == ''", "dayOf() expects a time in ms and a time zone."),
        ("dayOf('x', 'UTC') == ''", "dayOf() expects a time in ms."),
        ("dayOf(now, 5) == ''", "dayOf() expects a time zone such as 'Europe/Athens'."),
        ("dayOf(now, data) == ''", "dayOf() expects a time zone such as 'Europe/Athens'."),
        ("dayOf(now, 'Europe/Atlantis') == ''", "Time zone 'Europe/Atlantis' is not known on this machine."),
        ("dayOf(now, '../../etc/passwd') == ''", "Time zone '../../etc/passwd' is not known on this machine."),
        ("dayOf(now, '') == ''", "Time zone '' is not known on this machine."),
        ("dayNumber(1) == 1", "dayNumber() expects a string argument."),
        ("dayNumber() == 1", "dayNumber() expects 1 argument."), ("dayNumber == 1", "Unknown variable 'dayNumber'."),
        ("file('x').exists", "'file()' is not supported by this version."), ("query.who == 1", "No such method/property 'who'."),
    ]) func slip_isRefused_withItsPlace(_ expression: String, _ message: String) {
        let found = faults("{\"rules\":{\".read\":\(quoted(expression))}}")
        #expect(found.map(\.message) == [message])
    }

    /// A comparison of deep trees is bounded by the work of one operation.
    @Test func deepComparison_isBounded_byTheWorkOfOneOperation() throws {
        let text = #"{"rules":{".write":"newData.child('a').equals(newData.child('b'))","#
            + #"".read":"data.child('a').hasAny(data.child('b'))"}}"#
        let many = Node.object((0..<1_000).map { (Key("k\($0)"), .int(Int64($0))) })
        let others = Node.object((0..<1_000).map { (Key("l\($0)"), .int(Int64($0))) })
        let copy = Node.object((0..<1_000).map { (Key("k\($0)"), .int(Int64($0))) })
        let (same, apart): (Node, Node) = (["a": many, "b": copy], ["a": many, "b": others])
        let (enough, few) = (try RuleSet(parsing: text, textWork: 20_000), try RuleSet(parsing: text, textWork: 10_000))
        #expect(enough.allowsWrite([.root], old: .null, new: same, auth: .null, now: 0))
        #expect(!few.allowsWrite([.root], old: .null, new: same, auth: .null, now: 0))
        #expect(!enough.allowsRead(.root, root: apart, auth: .null, now: 0) && enough.allowsRead(.root, root: same, auth: .null, now: 0))
        #expect(!few.allowsRead(.root, root: same, auth: .null, now: 0))
        guard case .failed(.tooMuchWork, _)? = few.explainRead(.root, root: same, auth: .null, now: 0).steps.last?.outcome else {
            return #expect(Bool(false), "not bounded")
        }
        // Subtrees that both trees share cost nothing, however large they are.
        let unchanged = try RuleSet(parsing: #"{"rules":{".write":"newData.child('a').equals(data.child('a'))"}}"#, textWork: 16)
        var next = same
        next.set(1, at: "/c")
        #expect(unchanged.allowsWrite(["/c"], old: same, new: next, auth: .null, now: 0))
    }

    @Test func fold_isBounded() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".read":"data.val().fold().length > 0"}}"#, textWork: 1_600)
        #expect(rules.allowsRead(.root, root: .string(String(repeating: "é", count: 50)), auth: .null, now: 0))
        #expect(!rules.allowsRead(.root, root: .string(String(repeating: "é", count: 51)), auth: .null, now: 0))
    }
}
