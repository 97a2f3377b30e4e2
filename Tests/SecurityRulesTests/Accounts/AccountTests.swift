import JSONTree
import SecurityRules
import Testing
import TestSupport

/// `.account`: data that is removed or changed with an account.
@Suite(.timeLimit(.minutes(30))) struct AccountTests {
    private static let text = #"""
        {"rules":{
          "users":{"$u":{".account":true,"kept":{}}},
          "friends":{"$a":{"$b":{".account":["$a","$b"]}}},
          "follow-log":{"$f":{".account":"$f","$w":{".account":"$w"}}},
          "posts":{"$p":{"user":{".account":{"set":"deleted"}},"likes":{"$u":{".account":"$u"}}}},
          "news":{"author":{".account":{"set":false}}}}}
        """#
    private static let data: Node = [
        "users": ["ana": ["name": "Ana"], "bo": 1], "friends": ["ana": ["bo": 1, "cy": 2], "bo": ["ana": 1, "cy": 1], "cy": ["bo": 1]],
        "follow-log": ["ana": ["bo": 1], "bo": ["ana": 1], "cy": 5], "news": ["author": "ana"],
        "posts": ["1": ["user": "ana", "likes": ["bo": true]], "2": ["user": "bo", "likes": ["ana": true]], "3": ["user": ["ana": "ana"]]],
    ]

    private func found(_ uid: String, _ atMost: Int = .max, text: String = text, in data: Node = data) throws -> [String] {
        var search = AccountSearch(try RuleSet(parsing: text), of: uid)
        var lines: [String] = []
        while !search.isDone {
            let part = search.next(in: data, atMost: atMost)
            #expect(part.count <= atMost && part.allSatisfy { $0.isDue(in: data) })
            lines += part.map { "\($0.path) \($0.value.exists ? $0.value.json : "-")" }
        }
        return lines
    }

    @Test(arguments: [
        ("ana", [
            "/users/ana -", "/friends/ana/bo -", "/friends/ana/cy -", "/friends/bo/ana -", "/follow-log/ana -", "/follow-log/bo/ana -",
            "/posts/1/user \"deleted\"", "/posts/2/likes/ana -", "/news/author false",
        ]),
        ("bo", [
            "/users/bo -", "/friends/bo/ana -", "/friends/bo/cy -", "/friends/ana/bo -", "/friends/cy/bo -", "/follow-log/bo -",
            "/follow-log/ana/bo -", "/posts/2/user \"deleted\"", "/posts/1/likes/bo -",
        ]),
        ("cy", ["/friends/cy/bo -", "/friends/ana/cy -", "/friends/bo/cy -", "/follow-log/cy -"]),
        ("eve", []), ("", []), ("a/b", []), ("deleted", []), ("kept", []),
    ] as [(String, [String])]) func account_isFound_whereItsKeyOrItsLeafIs(_ uid: String, _ expected: [String]) throws {
        #expect(try found(uid).sorted() == expected.sorted())
        for atMost in 1...3 { #expect(try found(uid, atMost) == found(uid), "a part at a time it is the same, in the same order") }
    }

    @Test func idThatIsNoKey_isFoundInLeavesOnly() throws {
        #expect(try found("a/b", in: ["posts": ["1": ["user": "a/b"]], "users": ["a": ["b": 1]]]) == ["/posts/1/user \"deleted\""])
    }

    @Test func foundWrite_isDueAsLongAsTheLeafHoldsTheID() throws {
        var search = AccountSearch(try RuleSet(parsing: Self.text), of: "ana")
        let writes = search.next(in: Self.data, atMost: .max)
        var data = Self.data
        for write in writes {
            #expect(write.isDue(in: data))
            data.set(write.value, at: write.path)
            #expect(!write.isDue(in: data), "\(write.path): made, it is due no more")
        }
        let leaf = try #require(writes.first { $0.value == "deleted" })
        data.set("bo", at: leaf.path)
        #expect(!leaf.isDue(in: data), "others have written meanwhile")
        data.set(.null, at: "/posts")
        #expect(!leaf.isDue(in: data), "nothing comes back")
    }

    /// `by` names the child that holds the id, and a removed leaf may be the whole node.
    @Test func nodeGoes_ifAFieldHoldsTheID() throws {
        let text = #"""
            {"rules":{"posts":{"$p":{".account":{"by":"author/uid"}}},"names":{"$n":{".account":{"set":null}}},
              "tasks":{"$t":{"owner":{".account":{"set":null}}}}}}
            """#
        let data: Node = [
            "posts": ["1": ["author": ["uid": "ana"]], "2": ["author": "ana"], "3": ["author": ["uid": ["ana": 1]]], "4": ["author": ["uid": "bo"]]],
            "names": ["x": "ana", "y": "bo", "z": ["ana": 1]], "tasks": ["t": ["owner": "ana", "title": "Tea"], "u": ["title": "ana"]],
        ]
        let expected = ["/posts/1 -", "/names/x -", "/tasks/t/owner -"]
        #expect(try found("ana", text: text, in: data) == expected && found("ana", 1, text: text, in: data) == expected)
        var search = AccountSearch(try RuleSet(parsing: text), of: "ana")
        let post = try #require(search.next(in: data, atMost: 1).first)
        var later = data
        later.set("bo", at: "posts/1/author/uid")
        #expect(post.isDue(in: data) && !post.isDue(in: later), "it was handed to somebody else meanwhile")
    }

    private static let form = "An '.account' is true, a wildcard such as \"$uid\", a list of these, {\"by\": \"author\"}, or "
        + "{\"set\": \"deleted\"}."
    private static let own = "'true' stands at a place such as \"$uid\", whose key is the account's id. Elsewhere name the wildcard."
    private static let leaf = "'set' is the text, number or boolean that stands there in the place of the account's id; null removes it."
    private static let by = "'by' is a path below the node to the account's id, such as \"author/uid\"."

    @Test(arguments: [
        ("true", []), ("\"$b\"", []), ("\"$a\"", []), ("[\"$a\",\"$b\"]", []), ("{\"set\":\"x\"}", []), ("{\"set\":0}", []),
        ("{\"set\":false}", []), ("false", [form]), ("5", [form]), ("null", [form]), ("[]", [form]), ("{}", [form]), ("[5]", [form]),
        ("{\"set\":\"x\",\"if\":\"true\"}", [form]), ("{\"put\":\"x\"}", [form]),
        ("{\"set\":null}", []), ("{\"set\":{\"a\":1}}", [leaf]), ("{\"by\":\"x\"}", []), ("{\"by\":\"x/y\"}", []), ("{\"by\":\"\"}", [by]),
        ("{\"by\":5}", [by]), ("{\"by\":\"x.y\"}", [by]), ("{\"by\":\"x\",\"set\":1}", [form]),
        ("\"$c\"", ["'$c' is no wildcard of this place."]), ("\"a\"", ["'a' is no wildcard of this place."]),
        ("[\"$b\",\"$b\"]", ["'$b' stands there twice."]), ("\"$A\"", ["'$A' is no wildcard of this place."]),
    ]) func value_isOneOfTheForms(_ value: String, _ expected: [String]) {
        let found = faults("{\"rules\":{\"x\":{\"$a\":{\"$b\":{\".account\":\(value)}}}}}")
        #expect(found.map { $0.message.replacing(#/ \(did you mean.*\)$/#, with: "") } == expected)
    }

    @Test func place_isBelowTheRoot_andTrueStandsAtAWildcard() {
        #expect(faults(#"{"rules":{".account":true}}"#).map(\.message) == ["An '.account' stands below the root."])
        #expect(faults(#"{"rules":{"$a":{"b":{".account":true}}}}"#).map(\.message) == [Self.own])
    }

    /// Compared with a scan of every node of the tree.
    @Test(arguments: 0..<20) func search_agreesWithALookAtEverything(_ seed: UInt64) throws {
        var random = SeededRandom(seed)
        let names = ["a", "b", "c", "z", "1", "22"]
        func tree(_ depth: Int) -> Node {
            if depth == 0 || Int.random(in: 0..<4, using: &random) == 0 {
                return [.string(names.randomElement(using: &random) ?? "a"), 1, .null].randomElement(using: &random) ?? 1
            }
            return .object(names.compactMap { Bool.random(using: &random) ? (Key($0), tree(depth - 1)) : nil })
        }
        let rules = try RuleSet(
            parsing: #"{"rules":{"$x":{"$y":{".account":["$x","$y"],"z":{},"$z":{".account":{"set":"gone"}}},"#
                + #""a":{"$v":{".account":true}}}}}"#)
        for _ in 0..<20 {
            let (data, uid) = (tree(4), names.randomElement(using: &random) ?? "a")
            var expected: Set<String> = []
            for (x, below) in data.children {
                for (y, node) in below.children {
                    // A place that the rules name literally has its own rules.
                    guard y != "a" else {
                        if node.child(Key(uid)).exists { expected.insert("/\(x)/a/\(uid)") }
                        continue
                    }
                    if x.string == uid || y.string == uid { expected.insert("/\(x)/\(y)") }
                    for (z, leaf) in node.children where z != "z" && leaf == .string(uid) { expected.insert("/\(x)/\(y)/\(z)=") }
                }
            }
            var (search, found) = (AccountSearch(rules, of: uid), [String]())
            while !search.isDone { found += search.next(in: data, atMost: 2).map { "\($0.path)\($0.value == "gone" ? "=" : "")" } }
            #expect(Set(found) == expected)
        }
    }

    @Test func caseOfAnAccountsDeletion_saysWhatIsThereAfterwards() throws {
        let rules = try RuleSet(parsing: #"""
            {"rules":{"users":{"$u":{".account":true,".removes":"seen/$u"}},"posts":{"$p":{"by":{".account":{"set":"gone"}}}}}}
            """#)
        let cases = #"""
            {"data":{"users":{"ana":1,"bo":1},"seen":{"ana":1},"posts":{"p":{"by":"ana"}}},"cases":[
              {"deleteAccount":"ana","expect":"allow","then":{"/users":{"bo":1},"/seen":null,"/posts/p/by":"gone"}},
              {"deleteAccount":"cy","expect":"allow","then":{"/users":{"ana":1,"bo":1}}},
              {"deleteAccount":"ana","expect":"allow","then":{"/users/ana":1}}]}
            """#
        let result = rules.run(try RuleCases(parsing: cases))
        #expect(result.count == 3 && result.failures.map(\.failed.line) == [4])
        #expect(throws: RulesErrors.self) { try RuleCases(parsing: #"{"cases":[{"deleteAccount":5,"expect":"allow"}]}"#) }
    }
}
