import JSONTree
import Testing

/// Server values (contract §5, checks 98–102).
@Suite(.timeLimit(.minutes(30))) struct ServerValueTests {
    private func write(_ json: String) throws -> WriteValue { try Parsed.write(json) }

    private func resolve(_ json: String, over current: Node = .null, now: Int64 = 1_700_000_000_123) throws -> Node {
        try write(json).resolved(current: current, now: now)
    }

    @Test func timestamp_inTwoPlacesOfOneWrite_isTheSameNumber() throws {
        let node = try resolve(#"{"a":{".sv":"timestamp"},"b":{"c":{".sv":"timestamp"}},"d":[1,{".sv":"timestamp"}]}"#)
        #expect(node == ["a": 1_700_000_000_123, "b": ["c": 1_700_000_000_123], "d": ["0": 1, "1": 1_700_000_000_123]])
    }

    @Test(arguments: [
        (.null, "5", 5), ("text", "5", 5), (true, "5", 5), (["a": 1], "5", 5),
        (7, "5", 12), (7, "-9", -2), (7, "0.5", 7.5), (7.5, "1", 8.5), (0.25, "0.5", 0.75),
        (.int(.max), "1", .double(0x1p63)), (.int(.min), "-1", .double(-0x1p63)), (.int(.max), "0", .int(.max)),
        (.int(9_007_199_254_740_993), "2", .int(9_007_199_254_740_995)),
    ] as [(Node, String, Node)])
    func increment_overStored_followsTheContract(stored: Node, by: String, expected: Node) throws {
        #expect(try resolve("{\".sv\":{\"increment\":\(by)}}", over: stored) == expected)
        #expect(try resolve("{\"a\":{\"b\":{\".sv\":{\"increment\":\(by)}}}}", over: ["a": ["b": stored]]) == ["a": ["b": expected]])
    }

    @Test func increment_ofPrioritisedLeaf_countsItsNumberAndDropsThePriority() throws {
        #expect(try resolve(#"{".sv":{"increment":1}}"#, over: Node.int(4).with(priority: "p")) == 5)
    }

    @Test func increment_beyondTheLargestDouble_staysANumber() throws {
        let most = Node.double(.greatestFiniteMagnitude)
        #expect(try resolve(#"{".sv":{"increment":1.7976931348623157e308}}"#, over: most) == most)
        let least = Node.double(-.greatestFiniteMagnitude)
        #expect(try resolve(#"{".sv":{"increment":-1.7976931348623157e308}}"#, over: least) == least)
    }

    @Test func serverValue_asPriority_isResolvedOnLeafAndObject() throws {
        #expect(try resolve(#"{".value":1,".priority":{".sv":"timestamp"}}"#, now: 9) == Node.int(1).with(priority: 9))
        #expect(try resolve(#"{"a":1,".priority":{".sv":"timestamp"}}"#, now: 9) == (["a": 1] as Node).with(priority: 9))
        let stored = Node.int(1).with(priority: 3)
        #expect(try resolve(#"{".value":1,".priority":{".sv":{"increment":4}}}"#, over: stored) == Node.int(1).with(priority: 7))
    }

    @Test func serverValue_withPriority_keepsBoth() throws {
        #expect(try resolve(#"{".sv":"timestamp",".priority":2}"#, now: 9) == Node.int(9).with(priority: 2))
        #expect(try resolve(#"{".priority":{".sv":"timestamp"},".sv":"timestamp"}"#, now: 9) == Node.int(9).with(priority: 9))
        #expect(try resolve(#"{".value":{".sv":"timestamp"},".priority":"x"}"#, now: 9) == Node.int(9).with(priority: "x"))
    }

    @Test func serverValue_inOverwrittenDuplicate_hasNoEffect() throws {
        #expect(try resolve(#"{"a":{".sv":"timestamp"},"a":1}"#) == ["a": 1])
        #expect(try resolve(#"{"a":{".sv":"timestamp"},"a":null}"#) == .null)
        #expect(try resolve(
            #"{"b":1,"a":{"x":{".sv":"timestamp"}},"a":{"y":2},"c":{".sv":"timestamp"}}"#, now: 9) == ["a": ["y": 2], "b": 1, "c": 9])
        #expect(try resolve(#"{"a":1,"a":{".sv":"timestamp"}}"#, now: 9) == ["a": 9])
    }

    @Test(arguments: [
        #"{".sv":"time"}"#, #"{".sv":1}"#, #"{".sv":null}"#, #"{".sv":{}}"#, #"{".sv":{"increment":"1"}}"#, #"{".sv":{"increment":null}}"#,
        #"{".sv":{"decrement":1}}"#, #"{".sv":{"increment":1,"x":2}}"#, #"{".sv":["timestamp"]}"#, #"{"a":1,".priority":{".sv":"x"}}"#,
    ])
    func serverValue_unknown_isRejected(json: String) {
        #expect { try write(json) } throws: { if case JSONError.unknownServerValue = $0 { true } else { false } }
    }

    @Test(arguments: [
        #"{".sv":"timestamp","a":1}"#, #"{"a":1,".sv":"timestamp"}"#, #"{".sv":"timestamp",".value":1}"#, #"{".value":1,".sv":"timestamp"}"#
    ])
    func serverValue_besideOtherMembers_isRejected(json: String) {
        #expect { try write(json) } throws: { if case JSONError.invalidValue = $0 { true } else { false } }
    }

    @Test func node_fromJSONWithServerValue_isRefused() {
        #expect { try Node(json: #"{"a":{".sv":"timestamp"}}"#) } throws: {
            if case JSONError.unknownServerValue = $0 { true } else { false }
        }
    }
}
