import JSONTree
import TestSupport
import Testing

@testable import SecurityRules

/// `.expire`: when and how nodes expire.
@Suite(.timeLimit(.minutes(30))) struct ExpiryTests {
    private func rules(_ expire: String, _ more: String = "") throws -> RuleSet {
        try RuleSet(parsing: #"{"rules":{"a":{"$x":{".expire":\#(expire)\#(more)}}}}"#)
    }

    private func faults(_ expire: String) -> [String] {
        do throws(RulesErrors) {
            _ = try RuleSet(parsing: #"{"rules":{"a":{"$x":{".expire":\#(expire)}}}}"#)
            return []
        } catch { return error.errors.map { $0.message } }
    }

    /// Truth table of `at`: the stored value, the time of the write, and the time of the expiry.
    @Test(arguments: [
        ("data.child('at').val()", ["at": 5], nil, 5), ("data.child('at').val()", ["n": 5], nil, nil), ("data.val()", 7, nil, 7),
        ("data.child('at').val()", ["at": "5"], nil, nil), ("data.child('at').val()", ["at": true], nil, nil),
        ("data.child('at').val()", ["at": 5.5], nil, 6), ("data.child('at').val()", ["at": -5.5], nil, -5),
        ("data.child('at').val()", ["at": 1e18], nil, nil), ("data.child('at').val()", ["at": ["b": 1]], nil, nil),
        ("written + 10", ["n": 1], 100, 110), ("written + 10", ["n": 1], nil, nil), ("data.child('at').val() + 1", ["n": 1], 100, nil),
        ("data.hasChild('at') ? data.child('at').val() : written", ["n": 1], 9, 9), ("$x == 'k' ? 3 : null", ["n": 1], nil, 3),
        ("data.childCount() * 2", ["a": 1, "b": 2], nil, 4), ("null", ["a": 1], nil, nil), ("data.val() / 0", 5, nil, nil),
    ] as [(String, Node, Int64?, Int64?)])
    func due_isWhatTheExpressionSays(_ at: String, _ node: Node, _ written: Int64?, _ due: Int64?) throws {
        let rules = try rules("\"\(at)\"")
        #expect(rules.due(at: "a/k", in: ["a": ["k": node]], written: written) == due)
        #expect(rules.due(at: "a/none", in: ["a": ["k": node]], written: written) == nil, "nothing is there")
        #expect(rules.due(at: "b/k", in: ["b": ["k": node]], written: written) == nil, "no such rule")
        #expect(rules.readsWritten(at: "a/k") == at.contains("written"))
    }

    @Test func expiry_isARemoval_fromItsTimeOn() throws {
        let (rules, root) = (try rules("\"data.val()\""), ["a": ["k": 50]] as Node)
        #expect(try rules.expiry(of: "a/k", in: root, written: nil, now: 49) == [])
        let writes = try rules.expiry(of: "a/k", in: root, written: nil, now: 50)
        #expect(writes.map(\.path) == ["a/k"] && writes[0].value.isNull && writes[0].rule == "/a/$x.expire" && writes[0].kind == .expire)
    }

    /// The earliest entry of a list applies; with `if`, `patch` and a log row.
    @Test func list_patchesAndRemoves_inTheOrderOfTimes() throws {
        let rules = try rules(#"""
            [{"at": "data.child('at').val() + 10"},
             {"at": "data.child('at').val()", "if": "data.child('s').val() == 'on'", "patch": {"s": "'off'", "in/n": 5, "gone": null},
              "log": "log/{user}/$x", "value": {"x": "$x", "s": "data.child('s').val()", "end": "now", "list": [1, "'b'"], "no": null}}]
            """#)
        var root: Node = ["a": ["k": ["at": 100, "s": "on", "user": "u", "gone": 1]]]
        #expect(rules.due(at: "a/k", in: root, written: nil) == 100)
        let writes = try rules.expiry(of: "a/k", in: root, written: nil, now: 150)
        for write in writes { root.set(write.value, at: write.path) }
        #expect(root.node(at: "a/k") == ["at": 100, "s": "off", "user": "u", "in": ["n": 5]])
        let rows = root.node(at: "log/u/k").children.map { ($0.0, $0.1) }
        #expect(rows.map(\.1) == [["x": "k", "s": "on", "end": 150, "list": ["0": 1, "1": "b"]]] && rows[0].0.string.utf8.count == 20)
        #expect(try rules.expiry(of: "a/k", in: root, written: nil, now: 150).map(\.path) == ["a/k"], "then the removal")
    }

    /// A patch that changes nothing runs once; one that would be due again and again is not started.
    @Test func patch_isMadeOnce() throws {
        let plain = try rules(#"{"at": "data.child('at').val()", "patch": {"s": "'late'"}}"#)
        #expect(plain.due(at: "a/k", in: ["a": ["k": ["at": 1]]], written: nil) == 1)
        #expect(plain.due(at: "a/k", in: ["a": ["k": ["at": 1, "s": "late"]]], written: nil) == nil)
        let endless = try rules(#"{"at": "data.child('at').val()", "patch": {"n": "data.child('n').val(0) + 1"}}"#)
        #expect { try endless.expiry(of: "a/k", in: ["a": ["k": ["at": 1]]], written: nil, now: 5) } throws: {
            "\($0)" == "/a/$x.expire at /a/k: it would be due again at once: let the patch make its 'if' false"
        }
        let later = try rules(#"{"at": "data.child('at').val()", "patch": {"at": "data.child('at').val() + 100"}}"#)
        #expect(try later.expiry(of: "a/k", in: ["a": ["k": ["at": 1]]], written: nil, now: 5).map(\.value) == [101])
    }

    /// After any pause, a repeating patch continues in the future. It is applied once for each missed time, with one log row.
    @Test(arguments: [
        (#"{"at":"data.child('at').val()","patch":{"at":"data.child('at').val() + 100","n":"data.child('n').val(0) + 1"}}"#,
            ["at": 1_000] as Node, ["at": 5_100, "n": 41] as Node),
        (#"{"at":"data.child('at').val()","patch":{"at":"firing + 100","n":"data.child('n').val(0) + 1","last":"firing"}}"#,
            ["at": 1_000], ["at": 5_150, "n": 1, "last": 5_050]),
        (#"{"at":"data.child('at').val()","patch":{"at":"firing + data.child('every').val()"}}"#,
            ["at": 1_000, "every": 60_000], ["at": 65_050, "every": 60_000]),
        // On and off in turns.
        (#"""
            [{"at":"data.child('at').val()","if":"data.child('s').val() == 1","patch":{"s":0,"at":"data.child('at').val() + 100"}},
             {"at":"data.child('at').val()","if":"data.child('s').val() == 0","patch":{"s":1,"at":"data.child('at').val() + 200"}}]
            """#, ["at": 1_000, "s": 1], ["at": 5_200, "s": 1]),
    ] as [(String, Node, Node)]) func repeatingPatch_skipsToTheFuture(_ expire: String, _ node: Node, _ then: Node) throws {
        let rules = try rules(expire)
        var root: Node = ["a": ["k": node]]
        let writes = try rules.expiry(of: "a/k", in: root, written: nil, now: 5_050)
        for write in writes { root.set(write.value, at: write.path) }
        #expect(root.node(at: "a/k") == then)
        #expect(try rules.expiry(of: "a/k", in: root, written: nil, now: 5_050) == [])
    }

    @Test func manyPatches_areMadeAPartAtATime() throws {
        let rules = try rules(#"{"at":"data.child('at').val()","patch":{"at":"data.child('at').val() + 1"},"log":"log","value":"'row'"}"#)
        var root: Node = ["a": ["k": ["at": 0]]]
        for times in 1...3 {
            let writes = try rules.expiry(of: "a/k", in: root, written: nil, now: 2_500)
            for write in writes { root.set(write.value, at: write.path) }
            #expect(root.node(at: "a/k/at") == .int(min(Int64(times * RulesLimits.patchesAtOnce), 2_501)) && root.child("log").childCount == times)
        }
    }

    /// `firing`, the time at which an expiry runs, is available in the patch and the row, but not in `at` and `if`.
    @Test func firing_isSeenInWhatIsWritten() throws {
        #expect(faults(#""firing""#).first?.contains("'firing' is not seen here") == true)
        #expect(faults(#"{"at":"1","if":"firing > 1","patch":{"s":1}}"#).first?.contains("'firing' is not seen here") == true)
        #expect(faults(#"{"at":"1","patch":{"s":"now"}}"#).first?.contains("say 'firing'") == true)
        #expect(throws: RulesErrors.self) { try RuleSet(parsing: #"{"rules":{".read":"firing > 5"}}"#) }
        let rules = try rules(#"{"at":"data.val()","log":"log","value":{"at":"firing","now":"now"}}"#)
        let writes = try rules.expiry(of: "a/k", in: ["a": ["k": 5]], written: nil, now: 9)
        #expect(writes.last?.value == ["at": 9, "now": 9])
        // A patch that depends on nothing but its firing time is due once.
        let once = try self.rules(#"{"at":"data.child('at').val()","if":"!data.hasChild('done')","patch":{"done":"firing"}}"#)
        #expect(try once.expiry(of: "a/k", in: ["a": ["k": ["at": 5]]], written: nil, now: 9).map(\.value) == [9])
        #expect(once.due(at: "a/k", in: ["a": ["k": ["at": 5, "done": 9]]], written: nil) == nil)
    }

    @Test(arguments: [
        (#"{"at": "1", "log": "log/{user}", "value": "$x"}"#, ["n": 1], "cannot be found out"),
        (#"{"at": "1", "log": "log/{user}", "value": "$x"}"#, ["user": "a/b"], "'a/b' cannot be a key"),
        (#"{"at": "1", "log": "a/{user}/log", "value": "$x"}"#, ["user": "k"], "cannot be found out"),
        (#"{"at": "1", "log": "log", "value": "data.child('n').val() + 1"}"#, ["m": 1], "cannot be found out"),
        (#"{"at": "1", "log": "log", "value": null}"#, ["m": 1], "cannot be found out"),
    ] as [(String, Node, String)]) func whatCannotBeWritten_isAFault(_ expire: String, _ node: Node, _ fault: String) throws {
        let rules = try rules(expire)
        #expect { try rules.expiry(of: "a/k", in: ["a": ["k": node]], written: nil, now: 5) } throws: { "\($0)".contains(fault) }
    }

    @Test(arguments: [
        ("now + 5", "'now' is not seen here"), ("root.child('x').val()", "'root' is not seen here"), ("auth.uid", "'auth' is not seen here"),
        ("newData.val()", "'newData' is not seen here"), ("data.parent().child('x').val()", "parent() is not seen here"),
        ("query.limit", "'query' is not seen here"), ("writen + 1", "Unknown variable 'writen'"), ("data", "must evaluate to a number"),
    ]) func expression_seesNothingThatChangesWithoutTheNode(_ at: String, _ fault: String) {
        #expect(faults("\"\(at)\"").first?.contains(fault) == true, "\(faults("\"\(at)\""))")
        #expect(faults(#"{"at":"1","patch":{"n":"\#(at)"}}"#).first?.contains(fault) == true)
        if at != "now + 5" { #expect(faults(#"{"at":"1","log":"l","value":"\#(at)"}"#).first?.contains(fault) == true) }
    }

    @Test(arguments: [
        "5", "{}", "[]", "null", #"{"if":"true"}"#, #"{"at":"1","more":1}"#, #"{"at":"1","at":"2"}"#, #"{"at":"1","log":"l"}"#,
        #"{"at":"1","value":1}"#, #"{"at":"1","patch":{}}"#, #"{"at":"1","patch":{"":1}}"#, #"{"at":"1","patch":{"a":1,"a/b":2}}"#,
        #"{"at":"1","patch":{"a.b":1}}"#, #"{"at":"1","log":"l/*","value":1}"#, #"{"at":"1","log":"l/$y","value":1}"#, #"{"at":1}"#,
        #"{"at":"1","if":"5"}"#, #"{"at":"1","log":"l","value":{"a.b":1}}"#, #"{"at":"1","log":"l","value":{"a":1,"a":2}}"#, #"[["1"]]"#,
    ]) func malformed_isRefused(_ expire: String) { #expect(!faults(expire).isEmpty) }

    @Test func root_hasNone_andOtherRulesDoNotSeeWritten() {
        #expect(throws: RulesErrors.self) { try RuleSet(parsing: #"{"rules":{".expire":"5"}}"#) }
        #expect(throws: RulesErrors.self) { try RuleSet(parsing: #"{"rules":{".read":"written > 5"}}"#) }
        #expect(throws: Never.self) {
            try RuleSet(parsing: #"{"functions":{"late(x)":"x + 5"},"rules":{"a":{".expire":"late(written)"}}}"#)
        }
        #expect(throws: RulesErrors.self) {
            try RuleSet(parsing: #"{"functions":{"late(x)":"now + x"},"rules":{"a":{".expire":"late(5)"}}}"#)
        }
    }

    /// Nodes above, at and below the written places; subtrees shared by both trees are not visited.
    @Test func visit_findsTheNodesThatAWriteTouches() throws {
        let rules = try RuleSet(parsing: #"""
            {"rules":{"a":{"$x":{".expire":"1","in":{"$y":{".expire":"1"}}},"z":{}},"b":{".expire":"1"}}}
            """#)
        let old: Node = ["a": ["k": ["in": ["p": 1, "q": ["n": 1]]], "l": 1, "z": 1], "b": ["c": 1], "other": 1]
        func visit(_ path: Path, _ value: Node?, most: Int = 1_000) -> [String] {
            var (new, found, left) = (old, [String](), most)
            if let value { new.set(value, at: path) }
            if !rules.visitExpiring(path, old: old, new: new, atMost: &left, { found.append("\($0)") }) { found.append("more") }
            return found
        }
        #expect(visit("a/k/in/p", 2) == ["/a/k", "/a/k/in/p"] && visit("a/k/in/p", 1) == ["/a/k", "/a/k/in/p"])
        #expect(visit("a/k/other/deep", 2) == ["/a/k"] && visit("a/z/x", 2) == [] && visit("other", .null) == [] && visit("b/c", 7) == ["/b"])
        #expect(Set(visit("a", .null)) == ["/a/k", "/a/k/in/p", "/a/k/in/q", "/a/l"])
        #expect(Set(visit("a", ["m": 1, "l": 1])) == ["/a/k", "/a/k/in/p", "/a/k/in/q", "/a/l", "/a/m"])
        #expect(Set(visit(.root, ["a": ["l": 1], "b": 1])) == ["/a/k", "/a/k/in/p", "/a/k/in/q", "/a/l", "/b"])
        #expect(Set(visit(.root, nil)) == ["/a/k", "/a/k/in/p", "/a/k/in/q", "/a/l", "/b"], "the same again")
        #expect(visit("a", .null, most: 2).last == "more" && visit("a", .null, most: 20).last != "more")
    }

    @Test func explanation_tellsWhenNodesEnd() throws {
        let rules = try rules("[\"written + 60\", {\"at\":\"data.child('at').val()\"}]", #","$p":{".write":true}"#)
        let (old, new): (Node, Node) = (["a": ["k": ["at": 500]]], ["a": ["k": ["at": 500, "n": 1]]])
        let trace = rules.explainWrite(["a/k/n"], old: old, new: new, auth: .null, now: 100, following: ConsequenceLimits())
        #expect(trace.expiring == [ExpiringNode(path: "a/k", at: 160, rule: "/a/$x.expire")])
        #expect(trace.description.contains("    /a/k expires at 160 by /a/$x.expire\n"), "\(trace)")
    }
}
