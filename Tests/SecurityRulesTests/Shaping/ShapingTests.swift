import JSONTree
import SecurityRules
import Testing
import TestSupport

/// `.default` and `.drop`: how rules change writes before they are checked.
@Suite(.timeLimit(.minutes(30))) struct ShapingTests {
    private static let rules = #"""
        {"rules":{".write":true,
          "e":{"$e":{
            "status":{".default":"'open'"},
            "at":{".default":"now"},
            "by":{".default":"auth.uid"},
            "opts":{".default":{"mail":true,"list":[1,2]},"days":{".default":7}},
            "from":{".default":"newRoot.child('e').child($e).child('status').val() + '!'"},
            "kept":{".default":"data.val(now)"},
            "none":{".default":"data.parent().child('absent').val()"},
            "fails":{".default":"1 + auth.missing"}}},
          "u":{"$u":{
            "email":{".drop":true},
            "stamp":{".drop":true,".default":"data.val(now)"},
            "rank":{".drop":"auth.token.admin != true"},
            "note":{".drop":"newData.val().length > 3"},
            "log":{"$l":{".drop":"newData.child('old').val() == true"}}}}}}
        """#

    struct Row: Sendable, CustomTestStringConvertible {
        let old: String
        let writes: KeyValuePairs<String, String>
        let new: String
        var uid = "ada"
        init(_ old: String, _ writes: KeyValuePairs<String, String>, _ new: String, as uid: String = "ada") {
            (self.old, self.writes, self.new, self.uid) = (old, writes, new, uid)
        }
        var testDescription: String { "\(old) \(writes)" }
    }

    /// An event `x` with all defaults of the rules.
    private static func event(_ members: String, kept: Int = 99) -> String {
        #"{"e":{"x":{\#(members),"at":99,"by":"ada","kept":\#(kept),"opts":{"mail":true,"list":[1,2],"days":7}}}}"#
    }

    @Test(arguments: [
        // written whole, from above, as a child of a new one, deep in a new one
        Row("null", ["e/x": #"{"t":1}"#], event(#""t":1,"status":"open","from":"open!""#)),
        Row("null", ["e": #"{"x":{"t":1}}"#], event(#""t":1,"status":"open","from":"open!""#)),
        Row("null", ["/": #"{"e":{"x":{"t":1}}}"#], event(#""t":1,"status":"open","from":"open!""#)),
        Row("null", ["e/x/t": "1"], event(#""t":1,"status":"open","from":"open!""#)),
        Row("null", ["e/x/deep/er": "1"], event(#""deep":{"er":1},"status":"open","from":"open!""#)),
        // several writes below one parent
        Row("null", ["e/x/t": "1", "e/x/status": #""shut""#], event(#""t":1,"status":"shut","from":"shut!""#)),
        // existing values stay, also falsy ones
        Row("null", ["e/x": #"{"status":false,"from":0}"#], event(#""status":false,"from":0"#)),
        Row(#"{"e":{"x":{"status":"shut","kept":5}}}"#, ["e/x/t": "1"], event(#""t":1,"status":"shut","from":"shut!""#, kept: 5)),
        // a replaced value counts as former data
        Row(#"{"e":{"x":{"kept":5}}}"#, ["e/x": #"{"t":1}"#], event(#""t":1,"status":"open","from":"open!""#, kept: 5)),
        // a write deep below an existing node adds no default
        Row(#"{"e":{"x":{"t":1,"v":{"a":1}}}}"#, ["e/x/v/b": "2"], #"{"e":{"x":{"t":1,"v":{"a":1,"b":2}}}}"#),
        // a default that is removed alone is restored; with its parent it is gone
        Row(#"{"e":{"x":{"t":1,"status":"shut"}}}"#, ["e/x/status": "null"], event(#""t":1,"status":"open","from":"open!""#)),
        Row(#"{"e":{"x":{"t":1}}}"#, ["e/x": "null"], "null"),
        Row(#"{"e":{"x":{"t":1},"y":{"t":1}}}"#, ["e/x/t": "null"], #"{"e":{"y":{"t":1}}}"#),
        // not an object, so no children; an update of other places; nested in existing data
        Row("null", ["e/x": "5"], #"{"e":{"x":5}}"#),
        Row("null", ["z/x": #"{"t":1}"#], #"{"z":{"x":{"t":1}}}"#),
        Row(#"{"e":{"x":{"opts":{"mail":false}}}}"#, ["e/x/opts/list": "3"], #"{"e":{"x":{"opts":{"mail":false,"list":3,"days":7}}}}"#),
        Row(
            "null", ["e/x": #"{"by":"b","opts":{"days":1}}"#],
            #"{"e":{"x":{"by":"b","opts":{"days":1},"status":"open","from":"open!","at":99,"kept":99}}}"#),
    ]) func default_isPut_whereItsParentIsWrittenAndItIsAbsent(_ row: Row) throws { try check(row) }

    @Test(arguments: [
        Row("null", ["u/a": #"{"name":"A","email":"a@b.c"}"#], #"{"u":{"a":{"name":"A","stamp":99}}}"#),
        Row("null", ["u": #"{"a":{"name":"A","email":"a@b.c"}}"#], #"{"u":{"a":{"name":"A","stamp":99}}}"#),
        Row("null", ["u/a": #"{"email":"a@b.c"}"#], "null"),
        Row(#"{"u":{"a":{"name":"A","stamp":1}}}"#, ["u/a/email": #""a@b.c""#], #"{"u":{"a":{"name":"A","stamp":1}}}"#),
        Row(#"{"u":{"a":{"name":"A","stamp":1}}}"#, ["u/a/email/x/y": "1"], #"{"u":{"a":{"name":"A","stamp":1}}}"#),
        Row("5", ["u/a/email": "1"], "5"),
        // values stored before the rule may be removed, alone or with their parent
        Row(#"{"u":{"a":{"name":"A","stamp":1,"email":"x"}}}"#, ["u/a/email": "null"], #"{"u":{"a":{"name":"A","stamp":1}}}"#),
        Row(#"{"u":{"a":{"name":"A","stamp":1,"email":"x"}}}"#, ["u/a/email": #""y""#], #"{"u":{"a":{"name":"A","stamp":1,"email":"x"}}}"#),
        Row(#"{"u":{"a":{"name":"A","stamp":1,"email":"x"}}}"#, ["u/a": "null"], "null"),
        // a timestamp that the hub keeps
        Row(#"{"u":{"a":{"name":"A","stamp":1}}}"#, ["u/a": #"{"name":"B","stamp":5}"#], #"{"u":{"a":{"name":"B","stamp":1}}}"#),
        Row(#"{"u":{"a":{"name":"A","stamp":1}}}"#, ["u/a/stamp": "5"], #"{"u":{"a":{"name":"A","stamp":1}}}"#),
        // expressions
        Row("null", ["u/a": #"{"name":"A","rank":9}"#], #"{"u":{"a":{"name":"A","stamp":99}}}"#),
        Row("null", ["u/a": #"{"name":"A","rank":9}"#], #"{"u":{"a":{"name":"A","rank":9,"stamp":99}}}"#, as: "root"),
        Row("null", ["u/a/note": #""abc""#], #"{"u":{"a":{"note":"abc","stamp":99}}}"#),
        Row("null", ["u/a/note": #""abcd""#], "null"),
        Row("null", ["u/a/note": "12345"], #"{"u":{"a":{"note":12345,"stamp":99}}}"#),
        Row(#"{"u":{"a":{"stamp":1}}}"#, ["u/a/log/x/old": "true"], #"{"u":{"a":{"stamp":1}}}"#),
        Row(
            #"{"u":{"a":{"stamp":1}}}"#, ["u/a/log": #"{"x":{"old":true},"y":{"old":false},"z":{"old":true,"t":1}}"#],
            #"{"u":{"a":{"stamp":1,"log":{"y":{"old":false}}}}}"#),
        // other places of the same update are stored
        Row("null", ["u/a/email": "1", "u/a/name": #""A""#, "x": "2"], #"{"u":{"a":{"name":"A","stamp":99}},"x":2}"#),
    ]) func drop_storesNothingOfWhatIsSentThere(_ row: Row) throws { try check(row) }

    private func check(_ row: Row) throws {
        let rules = try RuleSet(parsing: Self.rules)
        let old = try Node(json: row.old)
        let writes = try row.writes.map { (path: try Path(parsing: $0.key), value: try Node(json: $0.value)) }
        let auth: Node = ["uid": .string(row.uid), "token": ["admin": .bool(row.uid == "root")]]
        let shaped = rules.shape(writes, on: old, auth: auth, now: 99)
        let expected = try Node(json: row.new)
        #expect(shaped.tree == expected, "\(shaped.tree.json)")
        // Applying the shaped writes one after the other gives the same tree.
        var tree = old
        for (i, write) in writes.enumerated() where !shaped.ignored.contains(i) {
            tree.set(shaped.changed.contains(i) ? shaped.tree.node(at: write.path) : write.value, at: write.path)
        }
        for path in shaped.added { tree.set(shaped.tree.node(at: path), at: path) }
        #expect(tree == expected)
        #expect(shaped.differsFromSent || tree == writes.after(old))
    }

    @Test(arguments: [
        (#"{".default":1}"#, "1:11: A '.default' stands at a child with a name of its own."),
        (#"{"$x":{".default":1}}"#, "1:17: A '.default' stands at a child with a name of its own."),
        (#"{".drop":true}"#, "1:11: A '.drop' stands below the root."),
        (#"{"a":{".default":null}}"#, "1:27: A '.default' is an expression, or a value other than null."),
        (#"{"a":{".default":{}}}"#, "1:27: A '.default' is an expression, or a value other than null."),
        (#"{"a":{".default":{"a.b":1}}}"#, "1:28: 'a.b' cannot be a key of data."),
        (#"{"a":{".default":{"x":{"$y":1}}}}"#, "1:33: '$y' cannot be a key of data."),
        (#"{"a":{".default":"noow"}}"#, "1:28: Unknown variable 'noow'."),
        (#"{"a":{".default":"data"}}"#, "1:28: Expression must evaluate to a number, boolean, string, or null."),
        (#"{"a":{".default":"'a"}}"#, "1:28: Unterminated string literal."),
        (#"{"a":{".drop":"now"}}"#, "1:25: Expression must evaluate to a boolean."),
        (#"{"a":{".drop":5}}"#, "1:24: Invalid rule expression.  Expected 'true', 'false', or an expression string."),
    ]) func slip_isRefused(_ rules: String, _ message: String) {
        #expect(faults("{\"rules\":\(rules)}").map(\.description) == [message])
    }

    /// Their work on texts counts, and exceeding the bound refuses the write.
    @Test func textWork_isCounted_andBounded() throws {
        let rules = try RuleSet(parsing: #"{"rules":{"a":{"$x":{".drop":"newData.val().contains('needle')"}}}}"#)
        let writes = (0..<10).map { (path: Path([Key("a"), Key("\($0)")]), value: Node.string(String(repeating: "h", count: 1000))) }
        let shaped = rules.shape(writes, on: .null, auth: .null, now: 0)
        #expect(!shaped.needsTooMuchWork && shaped.textWork >= 10_000 && shaped.textWork < 20_000)
        #expect(rules.shape(writes, on: .null, auth: .null, now: 0, textWork: shaped.textWork).needsTooMuchWork == false)
        #expect(rules.shape(writes, on: .null, auth: .null, now: 0, textWork: shaped.textWork - 1).needsTooMuchWork)
    }

    @Test func rulesWithoutThem_shapeNothing() throws {
        #expect(!(try RuleSet(parsing: #"{"rules":{"a":{".write":true}}}"#)).shapesWrites)
        #expect(try RuleSet(parsing: #"{"rules":{"a":{"b":{".default":1}}}}"#).shapesWrites)
        #expect(try RuleSet(parsing: #"{"rules":{"a":{"$b":{".drop":true}}}}"#).shapesWrites)
    }

    /// A function that only they call counts as used; children with their names are not reported as mistakes.
    @Test func linter_looksAtThem() throws {
        let text = #"""
            {"functions":{"f()":"'x'","g()":"true"},
             "rules":{"a":{".write":"auth != null","b":{".default":"f()"},"c":{".drop":"g()"},"default":{},"drop":{}}}}
            """#
        #expect(try RuleSet(parsing: text).warnings.map(\.message) == [])
    }
}

extension [(path: Path, value: Node)] {
    func after(_ old: Node, without ignored: [Int] = []) -> Node {
        var tree = old
        for (i, write) in enumerated() where !ignored.contains(i) { tree.set(write.value, at: write.path) }
        return tree
    }
}

extension RuleSet {
    func shape(
        _ writes: [(path: Path, value: Node)], on old: Node, auth: Node, now: Int64, textWork: Int = RulesLimits.textWork
    ) -> ShapedWrites {
        shape(writes.map(\.path), old: old, new: writes.after(old), auth: auth, now: now, textWork: textWork) {
            writes.after(old, without: $0)
        }
    }
}
