import JSONTree
import Testing
import TestSupport

/// Values of writes: export form, arrays, pruning, limits (contract §4.1–§4.4).
@Suite(.timeLimit(.minutes(30))) struct JSONWriteValueTests {
    @Test(arguments: 1...5) func roundTrip_randomNodes_isExact(seed: Int) throws {
        var random = SeededRandom(UInt64(seed) &* 77)
        for _ in 0..<120 {
            let node = random.node()
            let again = try Node(json: node.json)
            #expect(again == node)
            #expect(NaiveTree(again) == NaiveTree(node))
            #expect(again.json == node.json && again.hash == node.hash)
        }
    }

    @Test(arguments: [
        ("[]", .null), ("{}", .null), ("null", .null), ("[null,null]", .null), ("[{},[],{\"a\":[null]}]", .null),
        ("[1,null,3]", ["0": 1, "2": 3]),
        ("[[1],[2]]", ["0": ["0": 1], "1": ["0": 2]]), ("{\"a\":null,\"b\":1}", ["b": 1]), ("{\"a\":{\"b\":{\"c\":{}}},\"d\":0}", ["d": 0]),
        ("[0,1,2,3,4,5,6,7,8,9,10]", Node.object((0...10).map { (Key(index: $0), Node.int(Int64($0))) })),
    ] as [(String, Node)])
    func containers_nullsAndArrays_becomePrunedObjects(json: String, expected: Node) throws { #expect(try Node(json: json) == expected) }

    @Test(arguments: [
        (#"{".value":5}"#, 5), (#"{".value":"x",".priority":1}"#, Node.string("x").with(priority: 1)),
        (#"{".priority":"p",".value":true}"#, Node.bool(true).with(priority: "p")),
        (#"{".value":5,".priority":null}"#, 5), (#"{".value":null,".priority":1}"#, .null), (#"{".priority":1}"#, .null),
        (#"{".value":5,"a":null,"b":{}}"#, 5),
        (#"{"a":1,".priority":2.5}"#, (["a": 1] as Node).with(priority: 2.5)), (#"{"a":null,".priority":2.5}"#, .null),
        (#"{".priority":1.0,"a":1}"#, (["a": 1] as Node).with(priority: 1)),
        (#"{"a":{".value":1,".priority":0},"b":{".priority":3}}"#, ["a": Node.int(1).with(priority: 0)]),
    ] as [(String, Node)])
    func exportForm_valueAndPriority_isRead(json: String, expected: Node) throws {
        #expect(try Node(json: json) == expected)
    }

    @Test(arguments: [
        #"{"a":1,".priority":true}"#, #"{"a":1,".priority":{}}"#, #"{"a":1,".priority":[]}"#, #"{"a":1,".priority":{"b":1}}"#,
        #"{".value":1,".priority":false}"#,
    ])
    func priority_neitherNullNumberNorString_isRejected(json: String) {
        #expect { try Node(json: json) } throws: { if case JSONError.invalidPriority = $0 { true } else { false } }
    }

    @Test(arguments: [
        #"{".value":1,"a":2}"#, #"{"a":2,".value":1}"#, #"{".value":{"a":1}}"#, #"{".value":[1]}"#, #"{".value":{}}"#,
        #"{".value":{".value":1}}"#, #"{".value":null,"a":2}"#,
    ])
    func value_besideChildrenOrNotALeaf_isRejected(json: String) {
        #expect { try Node(json: json) } throws: { if case JSONError.invalidValue = $0 { true } else { false } }
    }

    @Test(arguments: ["", ".", ".foo", ".sv2", ".info", "a.b", "$a", "a#", "a[", "a]", "a/b", "/", "\u{7F}"])
    func memberName_thatIsNoKey_isRejected(name: String) {
        #expect { try Node(json: "{\"\(name)\":1}") } throws: { if case JSONError.invalidKey(name, _) = $0 { true } else { false } }
    }

    @Test func memberName_escapedControlCharacterOrSlash_isRejected() {
        for json in [#"{"a\u0000":1}"#, #"{"\u001f":1}"#, #"{"\n":1}"#, #"{"a\/b":1}"#, #"{"\u002esv":"timestamp","a":1}"#] {
            #expect(throws: JSONError.self) { try Node(json: json) }
        }
    }

    @Test func memberName_length_is768Bytes() throws {
        #expect(try Node(json: "{\"\(String(repeating: "é", count: 384))\":1}").childCount == 1)
        #expect { try Node(json: "{\"\(String(repeating: "é", count: 384))a\":1}") } throws: {
            if case JSONError.invalidKey(let cut, _) = $0 { cut.utf8.count == 64 } else { false }
        }
        #expect { try Node(json: "{\".e\(String(repeating: "\u{301}", count: 500))\":1}") } throws: {
            if case JSONError.invalidKey(let cut, _) = $0 { cut.utf8.count <= 66 } else { false }
        }
    }

    @Test func depth_ofPlaceAndValue_isAtMost32() throws {
        func nested(_ levels: Int, _ inner: String = "1") -> String {
            String(repeating: "{\"a\":", count: levels) + inner + String(repeating: "}", count: levels)
        }
        func arrays(_ levels: Int) -> String { String(repeating: "[", count: levels) + "1" + String(repeating: "]", count: levels) }
        for place in [0, 1, 10, 31, 32] {
            #expect(try Parsed.write(nested(32 - place), depth: place).node.exists)
            #expect(try Parsed.write(arrays(32 - place), depth: place).node.exists)
            #expect(try Parsed.write(nested(32 - place, #"{".value":1,".priority":2}"#), depth: place).node.exists)
            #expect(try Parsed.write(nested(33 - place, "null"), depth: place).node.isNull)
            for json in [nested(33 - place), arrays(33 - place), nested(33 - place, #"{".sv":"timestamp"}"#)] {
                #expect { try Parsed.write(json, depth: place) } throws: { if case JSONError.tooDeep = $0 { true } else { false } }
            }
        }
    }

    @Test func string_limit_countsBytesOfUTF8() throws {
        #expect(try Parsed.write("\"aaaa\"", maxStringBytes: 4).node == "aaaa")
        #expect(try Parsed.write(#""\u00e9\u00e9""#, maxStringBytes: 4).node == "éé")
        for json in ["\"aaaaa\"", "\"ééa\"", "{\"k\":\"aaaaa\"}", #"{".value":"aaaaa"}"#, #"{"a":1,".priority":"aaaaa"}"#] {
            #expect { try Parsed.write(json, maxStringBytes: 4) } throws: { if case JSONError.stringTooLong = $0 { true } else { false } }
        }
    }

    @Test func string_tenMegabytes_isTheDefaultLimit() throws {
        let fits = [0x22] + [UInt8](repeating: 0x61, count: 10_485_760) + [0x22]
        #expect(try Parsed.write(fits).node.exists)
        #expect { try Parsed.write([0x22, 0x61] + fits.dropFirst()) } throws: {
            if case JSONError.stringTooLong = $0 { true } else { false }
        }
    }

    @Test func members_duplicate_theLastWins() throws {
        #expect(try Node(json: #"{"a":1,"a":2}"#) == ["a": 2])
        #expect(try Node(json: #"{"a":1,"b":3,"a":null}"#) == ["b": 3])
        #expect(try Node(json: #"{"a":null,"a":1}"#) == ["a": 1])
        #expect(try Node(json: #"{"b":1,"a":{"x":1},"c":2,"a":{"y":2},"b":0}"#) == ["a": ["y": 2], "b": 0, "c": 2])
        #expect(try Node(json: #"{".value":1,".value":2}"#) == 2)
    }

    /// Objects within unordered objects, with duplicates and removals, on both sides of the size at which the storage form changes.
    @Test(arguments: [3, 40, 64, 65, 66, 67, 300]) func members_nestedAndUnordered_agreeWithTheModel(size: Int) throws {
        var random = SeededRandom(UInt64(size))
        func object(_ depth: Int) -> (json: String, model: NaiveTree?) {
            var (json, model) = ([String](), NaiveTree())
            for _ in 0..<(depth == 0 ? size * 2 : 1 + random.below(6)) {
                let key = "k\(random.below(size * 2))"
                if random.chance(10) {
                    json.append("\"\(key)\":null")
                    model.children[key] = nil
                } else if depth < 3, random.chance(depth == 1 ? 80 : 25) {
                    let inner = object(depth + 1)
                    json.append("\"\(key)\":\(inner.json)")
                    model.children[key] = inner.model
                } else {
                    let number = Int64(random.below(1000))
                    json.append("\"\(key)\":\(number)")
                    model.children[key] = NaiveTree(leaf: .int(number))
                }
            }
            return ("{" + json.joined(separator: ",") + "}", model.children.isEmpty ? nil : model)
        }
        for _ in 0..<20 {
            let (json, model) = object(0)
            let node = try Node(json: json)
            #expect(NaiveTree(node) == model)
            let children = node.children
            let keys = children.map(\.key)
            #expect(keys == keys.sorted() && keys.count == children.count)
        }
    }

    @Test func members_unordered_areSorted() throws {
        var random = SeededRandom(21)
        for size in [2, 5, 33, 500] {
            var members = (0..<size).map { ($0 % 3 == 0 ? "\($0)" : "k\($0 * 31 % 1009)", $0) }
            members.shuffle(using: &random)
            let node = try Node(json: "{" + members.map { "\"\($0.0)\":\($0.1)" }.joined(separator: ",") + "}")
            #expect(node == .object(members.map { (Key($0.0), Node.int(Int64($0.1))) }))
            let keys = node.children.map(\.key)
            #expect(keys == keys.sorted() && keys.count == Set(members.map(\.0)).count)
        }
    }

    @Test func exportForm_written_hasPriorityInsideObjectsAndBesideLeaves() {
        let node: Node = ["b": Node.bool(true).with(priority: 1), "a": (["x": "y"] as Node).with(priority: "p"), "10": 1.5, "9": 2]
        #expect(node.json == #"{"9":2,"10":1.5,"a":{"x":"y",".priority":"p"},"b":{".value":true,".priority":1}}"#)
    }
}
