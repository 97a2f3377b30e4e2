import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing

/// Checks 82–102: values, transactions, server values.
@Suite(.timeLimit(.minutes(30))) struct ModelChecks {
    private func peer() throws -> Peer { try Peer(TestServer()) }

    @Test func checklist_082_nullsAndEmptyObjectsArePruned() throws {
        let peer = try peer()
        try peer.put("/a", #"{"n":null,"e":{},"l":[],"d":{"x":{"y":null,"z":{}}},"k":1}"#)
        #expect(try peer.get("/a") == #"ok {"k":1}"#)
        try peer.put("/a", #"{"d":{"x":{}}}"#)
        #expect(try peer.get("/") == "ok null")
    }

    @Test func checklist_083_keysAndDepthAreChecked() throws {
        let peer = try peer()
        for key in ["a.b", "a$", "#", "[", "]", #"a\u0007"#, #"\u007f"#, ""] {
            #expect(try peer.put("/x", #"{"\#(key)":1}"#)[0].hasPrefix("failure "), "\(key)")
        }
        #expect(try peer.put("/x", #"{"\#(String(repeating: "é", count: 384))":1}"#) == ["ok \"\""])
        #expect(try peer.put("/x", #"{"\#(String(repeating: "é", count: 384))a":1}"#)[0].hasPrefix("failure "))
        #expect(try peer.put("/x/y z/😀%\\\"", "1") == ["ok \"\""])
        func nested(_ levels: Int) -> String { String(repeating: #"{"a":"#, count: levels) + "1" + String(repeating: "}", count: levels) }
        #expect(try peer.put("/", nested(32)) == ["ok \"\""])
        #expect(try peer.put("/", nested(33))[0].hasPrefix("failure "))
        #expect(try peer.put("/a", nested(31)) == ["ok \"\""])
        #expect(try peer.put("/a", nested(32))[0].hasPrefix("failure "))
        #expect(try peer.put("/" + Array(repeating: "a", count: 32).joined(separator: "/"), "1") == ["ok \"\""])
        #expect(try peer.put("/" + Array(repeating: "a", count: 33).joined(separator: "/"), "1")[0].hasPrefix("failure "))
    }

    @Test func checklist_084_numbersSurvive() throws {
        let peer = try peer()
        for number in ["9223372036854775807", "-9223372036854775808", "9007199254740993", "0", "0.5", "1e-7"] {
            try peer.put("/n", number)
            #expect(try peer.get("/n") == (number == "1e-7" ? "ok 1e-07" : "ok \(number)"))
        }
        try peer.put("/n", "1.7976931348623157e308")
        #expect(try peer.get("/n") == "ok 1.7976931348623157e+308")
        try peer.put("/n", "1.0")
        #expect(try peer.listen("/n", hash: Node.int(1).hash) == ["ok {}"])
    }

    @Test func checklist_085_arrayIsTheObjectOfItsIndexes() throws {
        let peer = try peer()
        try peer.put("/l", #"["a",null,{"x":1}]"#)
        #expect(try peer.get("/l") == #"ok {"0":"a","2":{"x":1}}"#, "the wire has objects")
    }

    @Test func checklist_086_prioritiesAreNullNumberOrString() throws {
        let peer = try peer()
        for (priority, isAccepted) in [("null", true), ("1.5", true), (#""p""#, true), ("true", false), (#"{"a":1}"#, false)] {
            #expect(try peer.put("/v", #"{".value":1,".priority":\#(priority)}"#)[0].hasPrefix(isAccepted ? "ok" : "failure"))
            #expect(try peer.put("/v/.priority", priority)[0].hasPrefix(isAccepted ? "ok" : "failure"))
        }
    }

    @Test func checklist_087_putClearsThePriority_mergeKeepsIt() throws {
        let peer = try peer()
        try peer.put("/v", #"{"a":1,".priority":3}"#)
        try peer.merge("/v", #"{"b":2}"#)
        #expect(try peer.get("/v") == #"ok {"a":1,"b":2,".priority":3}"#)
        try peer.put("/v", #"{"a":1}"#)
        #expect(try peer.get("/v") == #"ok {"a":1}"#)
    }

    /// In whatever order the members of a merge stand, the node is not empty in between.
    @Test func checklist_087_mergeKeepsThePriority_ofANodeWhoseChildrenItReplaces() throws {
        for members in [#"{"a":null,"b":2}"#, #"{"b":2,"a":null}"#, #"{"b":2,"a/x":null}"#] {
            let peer = try peer()
            try peer.put("/v", #"{"a":{"x":1},".priority":3}"#)
            try peer.merge("/v", members)
            #expect(try peer.get("/v") == #"ok {"b":2,".priority":3}"#, "\(members)")
        }
        let peer = try peer()
        try peer.put("/v", #"{"a":1,".priority":3}"#)
        try peer.merge("/v", #"{"a":null}"#)
        try peer.merge("/v", #"{"b":2}"#)
        #expect(try peer.get("/v") == #"ok {"b":2}"#, "two commits")
    }

    @Test func checklist_088_priorityPathsChangeOnlyThePriority() throws {
        let peer = try peer()
        try peer.put("/v", #"{"a":1}"#)
        try peer.put("/v/.priority", "2")
        #expect(try peer.get("/v") == #"ok {"a":1,".priority":2}"#)
        try peer.merge("/", #"{"v/.priority":"x","w/.priority":5}"#)
        #expect(try peer.get("/v") == #"ok {"a":1,".priority":"x"}"#)
        #expect(try peer.get("/w") == "ok null")
    }

    @Test func checklist_089_leafWithPriorityRoundTrips() throws {
        let peer = try peer()
        try peer.put("/v", #"{".value":true,".priority":1.0}"#)
        #expect(try peer.get("/v") == #"ok {".value":true,".priority":1}"#)
    }

    @Test func checklist_090_hashVectorsMatch() throws {
        let peer = try peer()
        for (value, hash) in [
            ("true", "E5z61QM0lN/U2WsOnusszCTkR8M="), ("false", "aSSNoqcS4oQwJ2xxH20rvpp3zP0="), ("500", "Ajg9bohDwTVmqR14o1bVJnneryM="),
            (#""Hello World""#, "B8HWXc7zXMjrsnJxPRj7wrNGqt4="), (#"{"foo":"bar"}"#, "XnLeTeWQmzTHImTbSMDLg/qMrKY="),
            (#"{"z":1,"a":"2","b":"true","c":false}"#, "8qk5vmuZGXWJx+77SGwjYRM0yPA="),
            (#"{".value":"primitive",".priority":200}"#, "R9u8hs9fhRzuQ2M/3BQ0uhxz5ys="),
            (#"{".value":42,".priority":"high"}"#, "d/2FMFWchvDsa06RLXZhzvM9aQc="),
            (#"{"someKey":"value",".priority":128.256}"#, "WYR8kBGna+a7E5x75zvhPhzACOQ="),
            (#"{"someKey":"value",".priority":"high"}"#, "/KquMIGoCuKO/ipoLoQzqnU0BcI="),
        ] {
            try peer.put("/v", value)
            #expect(try peer.listen("/v", hash: hash) == ["ok {}"], "\(value)")
            try peer.ask("n", #"{"p":"/v"}"#)
        }
    }

    @Test func checklist_091_childrenAreHashedInTheOrderOfTheirPriorities() throws {
        let peer = try peer()
        let (a, b) = (Node.int(1).with(priority: 2), Node.int(2).with(priority: 1))
        try peer.put("/v", (["a": a, "b": b] as Node).json)
        #expect(try peer.listen("/v", hash: (["a": a, "b": b] as Node).hash) == ["ok {}"])
        #expect((["a": a, "b": b] as Node).hash != (["a": Node.int(1).with(priority: 1), "b": Node.int(2).with(priority: 2)] as Node).hash)
    }

    // MARK: Transactions

    @Test func checklist_092_equalHash_writesPushesThenAnswers() throws {
        let peer = try peer()
        try peer.put("/n", "1")
        try peer.listen("/n")
        #expect(try peer.put("/n", "2", if: Node.int(1).hash) == ["d n 2", "ok \"\""])
    }

    @Test func checklist_093_otherHash_isDatastaleBehindTheCurrentData() throws {
        let server = try TestServer()
        let (peer, other) = (try Peer(server), try Peer(server))
        try peer.put("/n", "1")
        try peer.listen("/n")
        try other.put("/n", "5")
        #expect(try peer.put("/n", "2", if: Node.int(1).hash) == ["d n 5", "datastale Transaction hash does not match"])
        #expect(try other.get("/n") == "ok 5")
    }

    @Test func checklist_094_emptyHashMatchesOnlyNothing() throws {
        let peer = try peer()
        #expect(try peer.put("/n", "1", if: "") == ["ok \"\""])
        #expect(try peer.put("/n", "2", if: "")[0].hasPrefix("datastale"))
    }

    @Test func checklist_095_twoClientsOfFiftyTransactions_endAtAHundred() throws {
        let server = try TestServer()
        let peers = [try Peer(server), try Peer(server)]
        for peer in peers { try peer.listen("/n") }
        var left = [50, 50]
        var known: [Node] = [.null, .null]
        while left != [0, 0] {
            for i in 0..<2 where left[i] > 0 {
                let next = if case .int(let value) = known[i] { value + 1 } else { Int64(1) }
                let lines = try peers[i].put("/n", "\(next)", if: known[i].hash)
                for line in lines where line.hasPrefix("d n ") { known[i] = try Node(json: String(line.dropFirst(4))) }
                if lines.last == "ok \"\"" { left[i] -= 1 } else { #expect(lines.last?.hasPrefix("datastale") == true) }
            }
        }
        #expect(try peers[0].get("/n") == "ok 100")
    }

    @Test func checklist_096_theComparedHashIncludesThePriority() throws {
        let peer = try peer()
        let stored = Node.int(1).with(priority: 5)
        try peer.put("/n", stored.json)
        #expect(try peer.put("/n", "2", if: Node.int(1).hash)[0].hasPrefix("datastale"))
        #expect(try peer.put("/n", "2", if: stored.hash) == ["ok \"\""])
    }

    @Test func checklist_097_deniedTransactionIsPermissionDenied_whateverItsHash() throws {
        let peer = try Peer(TestServer { $0.rules = .denyAll })
        #expect(try peer.put("/n", "1", if: "") == ["permission_denied Permission denied"])
        #expect(try peer.put("/n", "1", if: "stale") == ["permission_denied Permission denied"])
    }

    @Test func updateWithAHash_comparesThePlaceItIsMadeAt() throws {
        let peer = try peer()
        try peer.put("/v", #"{"a":1}"#)
        let hash = (["a": 1] as Node).hash
        #expect(try peer.ask("m", #"{"p":"/v","d":{"b":2},"h":"\#(hash)"}"#) == ["ok \"\""])
        #expect(try peer.ask("m", #"{"p":"/v","d":{"c":3},"h":"\#(hash)"}"#)[0].hasPrefix("datastale"))
        #expect(try peer.get("/v") == #"ok {"a":1,"b":2}"#)
    }

    // MARK: Server values

    @Test func checklist_098_timestampsOfOneWriteAreOneNumber() throws {
        let peer = try peer()
        try peer.merge("/", #"{"a":{".sv":"timestamp"},"b/c":{".sv":"timestamp"}}"#)
        let (a, b) = (try peer.get("/a"), try peer.get("/b/c"))
        #expect(a == b)
        #expect(try #require(Int64(a.dropFirst(3))) > 1_600_000_000_000)
    }

    @Test func checklist_099_increments() throws {
        let peer = try peer()
        func add(_ n: String, to start: String) throws -> String {
            try peer.put("/n", start)
            try peer.put("/n", #"{".sv":{"increment":\#(n)}}"#)
            return try peer.get("/n")
        }
        #expect(try add("5", to: "null") == "ok 5")
        #expect(try add("5", to: #""text""#) == "ok 5")
        #expect(try add("5", to: #"{"a":1}"#) == "ok 5")
        #expect(try add("2", to: "9007199254740993") == "ok 9007199254740995")
        #expect(try add("0.5", to: "1") == "ok 1.5")
        #expect(try add("1", to: "9223372036854775807") == "ok 9.223372036854776e+18")
    }

    @Test func checklist_100_101_serverValuesInPrioritiesAndOnDisconnect_arePushedResolved() throws {
        let server = try TestServer()
        let (peer, leaver) = (try Peer(server), try Peer(server))
        try peer.listen("/v")
        let pushed = try peer.put("/v", #"{".value":"x",".priority":{".sv":"timestamp"}}"#)[0]
        let node = try Node(json: String(pushed.dropFirst("d v ".count)))
        guard case .int = node.priority else { Issue.record("\(pushed)"); return }
        try peer.put("/v", "3")
        try leaver.ask("o", #"{"p":"/v","d":{".sv":{"increment":4}}}"#)
        let successor = try Peer(server, "v=5&ns=test&ls=\(leaver.session)")
        #expect(try successor.get("/v") == "ok 7")
        #expect(try peer.pushes() == ["d v 7"])
    }

    @Test func checklist_102_unknownServerValuesAreRefused() throws {
        let peer = try peer()
        for value in [#"{".sv":"time"}"#, #"{".sv":{"increment":"1"}}"#, #"{".sv":{"double":1}}"#, #"{".sv":5}"#] {
            #expect(try peer.put("/v", value)[0].hasPrefix("failure "))
        }
        #expect(try peer.get("/v") == "ok null")
    }
}
