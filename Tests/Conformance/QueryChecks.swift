import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing

/// Checks 62–81: queries.
@Suite(.timeLimit(.minutes(30))) struct QueryChecks {
    private static let rules = try? RuleSet(
        parsing: #"{"rules":{".read":true,".write":true,"k":{".indexOn":["age","deep/at",".value"]}}}"#)

    private func peer(_ data: String = "null") throws -> Peer {
        let peer = try Peer(TestServer { $0.rules = Self.rules ?? .denyAll })
        try peer.put("/k", data)
        return peer
    }

    @Test func checklist_062_orderAcrossTypes() throws {
        let peer = try peer(#"{"o":{"x":1},"s":"a","n2":2,"n1":1.5,"t":true,"f":false}"#)
        var seen: [String] = []
        for limit in 1...6 {
            let keys = try Set(peer.keys("/k", #"{"i":".value","l":\#(limit),"vf":"l"}"#))
            seen += keys.subtracting(seen).sorted()
        }
        #expect(seen == ["f", "t", "n1", "n2", "s", "o"])
        #expect(try peer.keys("/k", #"{"i":"age","l":1,"vf":"l"}"#) == ["f"], "all null: by key")
    }

    @Test func checklist_063_064_integerLikeKeysComeFirst_andOnlyWithin32Bits() throws {
        let order = ["-5", "0", "1", "01", "2", "10", "2147483647", "-", "-K", "2147483648", "a"]
        let peer = try peer("{\(order.shuffled().map { "\"\($0)\":1" }.joined(separator: ","))}")
        var seen: [String] = []
        for limit in 1...order.count {
            seen += try Set(peer.keys("/k", #"{"i":".key","l":\#(limit),"vf":"l"}"#)).subtracting(seen)
        }
        #expect(seen == order)
    }

    @Test func checklist_065_sentinelKeysAreBounds() throws {
        let peer = try peer(#"{"a":{"age":1},"b":{"age":1},"c":{"age":2}}"#)
        for highest in ["[MAX_NAME]", "[MAX_KEY]"] {
            #expect(try peer.keys("/k", #"{"i":"age","ep":1,"en":"\#(highest)"}"#) == ["a", "b"])
            #expect(try peer.keys("/k", #"{"i":"age","sp":1,"sn":"\#(highest)"}"#) == ["c"])
        }
        #expect(try peer.keys("/k", #"{"i":"age","sp":1,"sn":"[MIN_NAME]"}"#) == ["a", "b", "c"])
        #expect(try peer.keys("/k", #"{"i":"age","ep":2,"en":"[MIN_NAME]"}"#) == ["a", "b"])
        #expect(try peer.keys("/k", #"{"i":".key","sp":"[MIN_NAME]","ep":"[MAX_NAME]"}"#) == ["a", "b", "c"])
    }

    @Test func checklist_066_absentInclusivenessMeansInclusive() throws {
        let peer = try peer(#"{"a":{"age":1},"b":{"age":2},"c":{"age":3}}"#)
        #expect(try peer.keys("/k", #"{"i":"age","sp":1,"ep":2}"#) == ["a", "b"])
        #expect(try peer.keys("/k", #"{"i":"age","sp":1,"sin":false,"sn":"a","ep":3,"ein":false,"en":"c"}"#) == ["b"])
    }

    @Test func checklist_067_startAfterAValueSkipsAllThatHaveIt() throws {
        let peer = try peer(#"{"a":{"age":1},"b":{"age":1},"c":{"age":2}}"#)
        #expect(try peer.keys("/k", #"{"i":"age","sp":1,"sn":"[MAX_NAME]","sin":false}"#) == ["c"])
    }

    @Test func checklist_068_069_nullIsABound_andEndAtIncludesNulls() throws {
        let peer = try peer(#"{"a":{"age":1},"n":{"x":1},"z":{"age":5}}"#)
        #expect(try peer.keys("/k", #"{"i":"age","sp":null,"ep":null}"#) == ["n"])
        #expect(try peer.keys("/k", #"{"i":"age","sp":null}"#) == ["a", "n", "z"])
        #expect(try peer.keys("/k", #"{"i":"age","ep":2}"#) == ["a", "n"])
    }

    @Test func checklist_070_withoutASideALimitKeepsFirstBehindAStart_elseLast() throws {
        let peer = try peer(#"{"a":1,"b":2,"c":3}"#)
        #expect(try peer.keys("/k", #"{"i":".value","sp":1,"l":1}"#) == ["a"])
        #expect(try peer.keys("/k", #"{"i":".value","l":1}"#) == ["c"])
    }

    @Test func checklist_071_queryOnALeafIsNull() throws {
        let peer = try peer("5")
        #expect(try peer.get("/k", #"{"l":1}"#) == "ok null")
        #expect(try peer.listen("/k", #"{"l":1}"#, tag: 1) == ["ok {}"])
    }

    @Test func checklist_072_rootPriorityIsAbsentFromResults() throws {
        let peer = try peer(#"{"a":{".value":1,".priority":2},".priority":5}"#)
        #expect(try peer.get("/k", #"{"l":1}"#) == #"ok {"a":{".value":1,".priority":2}}"#)
    }

    @Test func checklist_073_deletedChildLeavesWithItsReplacementInFull() throws {
        let peer = try peer(#"{"key-1":{"x":{"y":1}},"key-2":2,"key-3":3}"#)
        try peer.listen("/k", #"{"i":".key","l":2,"vf":"r"}"#, tag: 1)
        #expect(try peer.put("/k/key-2", "null") == [#"m#1 k {"key-2":null,"key-1":{"x":{"y":1}}}"#, "ok \"\""])
    }

    @Test func checklist_074_childThatMovesOutLeavesInTheSameMessage() throws {
        let peer = try peer(#"{"a":{"age":1},"b":{"age":2},"c":{"age":3}}"#)
        try peer.listen("/k", #"{"i":"age","l":2,"vf":"r"}"#, tag: 1)
        #expect(try peer.put("/k/b/age", "0") == [#"m#1 k {"b":null,"a":{"age":1}}"#, "ok \"\""])
    }

    @Test func checklist_075_fiveKeyUpdateIsOneMessage() throws {
        let peer = try peer(#"{"a":"a","b":"b","c":"c0","d":"d","e":"e"}"#)
        try peer.listen("/k", #"{"l":4,"vf":"l"}"#, tag: 1)
        let lines = try peer.merge("/k", #"{"b":null,"c":"a","cc":"new","cd":"new2","d":"gone"}"#)
        #expect(lines.count == 2 && lines[0].hasPrefix("m#1 k "))
        let sent = try RawObject(String(lines[0].dropFirst("m#1 k ".count)))
        for (key, value) in [("b", "null"), ("c", #""a""#), ("cc", #""new""#), ("cd", #""new2""#), ("d", "null")] {
            #expect(sent[key]?.text == value)
        }
    }

    @Test func checklist_076_077_deepChangeInsideIsDeep_outsideIsSilent() throws {
        let peer = try peer(#"{"a":{"age":1,"n":1},"b":{"age":2,"n":1},"c":{"age":3,"n":1}}"#)
        try peer.listen("/k", #"{"i":"age","l":2,"vf":"r"}"#, tag: 9)
        #expect(try peer.put("/k/b/n", "7") == ["d#9 k/b/n 7", "ok \"\""])
        #expect(try peer.put("/k/a/n", "7") == ["ok \"\""])
    }

    @Test func checklist_078_079_missingIndex_warnsOnAListenAndRefusesAGet() throws {
        let peer = try peer(#"{"a":{"age":1,"size":2}}"#)
        #expect(try peer.listen("/k", #"{"i":"size","l":1}"#, tag: 1) == [#"d#1 k {"a":{"age":1,"size":2}}"#, #"ok {"w":["no_index"]}"#])
        #expect(try peer.listen("/k", #"{"i":"age","l":1}"#, tag: 2).last == "ok {}")
        #expect(
            try peer.get("/k", #"{"i":"size","l":1}"#) == #"failure Index not defined, add ".indexOn": "size", for path "/k", to the rules"#
        )
        try peer.put("/k", #"{"a":{"deep":{"at":2}},"b":{"deep":{"at":1}}}"#)
        #expect(try peer.keys("/k", #"{"i":"deep/at","l":1,"vf":"l"}"#) == ["b"])
    }

    @Test func checklist_080_valueNeedsItsIndex_keyAndPriorityNone() throws {
        let peer = try peer(#"{"a":1}"#)
        #expect(try peer.listen("/k", #"{"i":".value","l":1}"#, tag: 1).last == "ok {}")
        try peer.put("/other", #"{"a":1}"#)
        #expect(try peer.listen("/other", #"{"i":".value","l":1}"#, tag: 2).last == #"ok {"w":["no_index"]}"#)
        for (tag, index) in [".key", ".priority"].enumerated() {
            #expect(try peer.listen("/other", #"{"i":"\#(index)","l":1}"#, tag: 3 + tag).last == "ok {}")
            #expect(try peer.keys("/other", #"{"i":"\#(index)","l":1}"#) == ["a"])
        }
    }

    @Test func checklist_081_withoutAnIndexTheOrderIsByPriority() throws {
        let peer = try peer(#"{"a":{".value":1,".priority":3},"b":{".value":1,".priority":"x"},"c":1,"d":{".value":1,".priority":2}}"#)
        #expect(try peer.keys("/k", #"{"l":2,"vf":"l"}"#) == ["c", "d"])
        #expect(try peer.keys("/k", #"{"l":1,"vf":"r"}"#) == ["b"])
        try peer.listen("/k", #"{"l":1,"vf":"r"}"#, tag: 1)
        #expect(try peer.put("/k/c/.priority", #""z""#) == [#"m#1 k {"b":null,"c":{".value":1,".priority":"z"}}"#, "ok \"\""])
    }

    @Test func mobileSDKs_shiftTheKeyInPlaceOfAnExclusiveBound() throws {
        let peer = try peer(#"{"1":{"age":1},"2":{"age":1},"a":{"age":1},"b":{"age":1}}"#)
        // startAfter(1, "a"): successor("a"); endBefore(1, "b"): predecessor("b"), padded beyond the length of a key.
        #expect(try peer.keys("/k", #"{"i":"age","sp":1,"sn":"a-"}"#) == ["b"])
        #expect(try peer.keys("/k", #"{"i":"age","ep":1,"en":"a\#(String(repeating: "\u{FFFF}", count: 785))"}"#) == ["1", "2", "a"])
        #expect(try peer.keys("/k", #"{"i":".key","sp":"2"}"#) == ["2", "a", "b"], "startAfter(\"1\")")
    }

    @Test func queryWithoutTag_isRefused_andDoesNotTouchTheDefaultListen() throws {
        let peer = try peer()
        #expect(try peer.ask("q", #"{"p":"/k","q":{"i":".key","l":1},"h":""}"#) == ["failure A query needs a tag."])
        try peer.listen("/k")
        try peer.ask("n", #"{"p":"/k","q":{"i":".key","l":1}}"#)
        #expect(try peer.put("/k/b", "1") == ["d k/b 1", "ok \"\""])
    }
}
