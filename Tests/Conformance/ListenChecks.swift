import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing

/// Checks 45–61: listens.
@Suite(.timeLimit(.minutes(30))) struct ListenChecks {
    @Test func checklist_045_firstPushCarriesPathTagAndValueBeforeOk() throws {
        let peer = try Peer(TestServer())
        try peer.put("/a", #"{"x":1,"y":{"z":2}}"#)
        #expect(try peer.listen("/a") == [#"d a {"x":1,"y":{"z":2}}"#, "ok {}"])
        #expect(try peer.listen("/a", #"{"i":".key","l":1}"#, tag: 7) == [#"d#7 a {"y":{"z":2}}"#, "ok {}"])
    }

    @Test func checklist_046_emptyPlaceIsOkOnly() throws {
        #expect(try Peer(TestServer()).listen("/nothing") == ["ok {}"])
    }

    @Test func checklist_047_048_matchingHashGetsNoData_anotherGetsAll() throws {
        let server = try TestServer()
        let first = try Peer(server)
        let value = try Node(json: #"{"a":1,"b":{"c":"x"},"d":2}"#)
        try first.put("/v", value.json)
        #expect(try first.listen("/v", hash: value.hash) == ["ok {}"])
        #expect(try Peer(server).listen("/v", hash: "stale") == ["d v \(value.json)", "ok {}"])
        let window: Node = ["d": 2]
        #expect(try first.listen("/v", #"{"i":".key","l":1}"#, tag: 1, hash: window.hash) == ["ok {}"])
    }

    @Test func checklist_049_compoundHashIsNoError_andNobodyElseIsSentRanges() throws {
        let peer = try Peer(TestServer())
        try peer.put("/v", #"{"a":1}"#)
        #expect(try peer.ask("q", #"{"p":"/v","h":"stale","ch":{"hs":["x",""],"ps":["a"]}}"#).last == "ok {}")
        #expect(try peer.listen("/v", #"{"l":1}"#, tag: 1, hash: "stale").allSatisfy { !$0.hasPrefix("rm") })
    }

    @Test func checklist_050_deepPutArrivesAtItsPath() throws {
        let server = try TestServer()
        let (reader, writer) = (try Peer(server), try Peer(server))
        try reader.listen("/a")
        try writer.put("/a/b/c", #"{"d":1}"#)
        #expect(try reader.pushes() == [#"d a/b/c {"d":1}"#])
    }

    @Test func checklist_051_multiPathUpdateArrivesAsOneMerge() throws {
        let server = try TestServer()
        let (reader, writer) = (try Peer(server), try Peer(server))
        try reader.listen("/a")
        try writer.put("/a", #"{"x":1,"y":{"q":1}}"#)
        _ = try reader.pushes()
        try writer.merge("/", #"{"a/x":2,"a/y/q":null,"b":3}"#)
        #expect(try reader.pushes() == [#"m a {"x":2,"y/q":null}"#])
    }

    @Test func checklist_052_053_ownWriteIsEchoedBeforeItsOk_ifAListenCoversIt() throws {
        let peer = try Peer(TestServer())
        #expect(try peer.put("/x/at", "1") == ["ok \"\""])
        try peer.listen("/x")
        #expect(try peer.put("/x/at", "5") == ["d x/at 5", "ok \"\""])
    }

    @Test func checklist_054_refusedPutIsPushedToNobody() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".read":true}}"#)
        let server = try TestServer { $0.rules = rules }
        let (reader, writer) = (try Peer(server), try Peer(server))
        try reader.listen("/a")
        #expect(try writer.put("/a", "1") == ["permission_denied Permission denied"])
        #expect(try reader.pushes() == [])
    }

    @Test func checklist_055_056_overlappingListens_eachGetTheirPush() throws {
        let peer = try Peer(TestServer())
        try peer.put("/a", #"{"b":{"c":1}}"#)
        try peer.listen("/a")
        try peer.listen("/a/b")
        try peer.listen("/a", #"{"i":".key","l":5}"#, tag: 3)
        let lines = try peer.put("/a/b/c", "2")
        #expect(lines.last == "ok \"\"")
        #expect(lines.dropLast().sorted() == ["d a/b/c 2", "d a/b/c 2", "d#3 a/b/c 2"])
    }

    @Test func checklist_057_nothingIsPushedAfterUnlisten() throws {
        let peer = try Peer(TestServer())
        try peer.listen("/a")
        try peer.listen("/a", #"{"i":".key","l":1}"#, tag: 2)
        #expect(try peer.ask("n", #"{"p":"/a"}"#) == ["ok \"\""])
        #expect(try peer.put("/a", #"{"x":1}"#) == [#"d#2 a {"x":1}"#, "ok \"\""])
        #expect(try peer.ask("n", #"{"p":"/a","q":{"i":".key","l":1},"t":2}"#) == ["ok \"\""])
        #expect(try peer.put("/a", "2") == ["ok \"\""])
    }

    @Test func checklist_058_listenRacingWithWrites_seesThemAllInOrder() throws {
        let server = try TestServer()
        let (reader, writer) = (try Peer(server), try Peer(server))
        for i in 1...100 {
            try writer.send("p", #"{"p":"/n","d":\#(i)}"#)
            if i == 50 { try reader.send("q", #"{"p":"/n","h":""}"#) }
        }
        for _ in 1...100 { _ = try writer.line() }
        let seen = try reader.pushes0().filter { $0.hasPrefix("d ") }.compactMap { Int($0.dropFirst(4)) }
        #expect(seen.last == 100)
        #expect(zip(seen, seen.dropFirst()).allSatisfy { $1 == $0 + 1 })
    }

    @Test func checklist_059_deletionAbove_isNullAtTheListen() throws {
        let peer = try Peer(TestServer())
        try peer.put("/a/b", #"{"c":1}"#)
        try peer.listen("/a/b")
        #expect(try peer.put("/a", "null") == ["d a/b null", "ok \"\""])
    }

    @Test func checklist_060_deletingTheOnlyChild_makesTheParentNull() throws {
        let server = try TestServer()
        let (peer, other) = (try Peer(server), try Peer(server))
        try peer.put("/a/b/c", "1")
        try other.listen("/a/b/c")
        try peer.put("/a/b/c", "null")
        #expect(try other.pushes() == ["d a/b/c null"])
        #expect(try peer.get("/a") == "ok null")
        #expect(try peer.get("/") == "ok null")
    }

    @Test func checklist_061_cancelRepeatsTheQuery_andADefaultListenHasNone() throws {
        let server = try TestServer { $0.rules = .denyAll }
        let peer = try Peer(server)
        try peer.signInAsOwner()
        try peer.listen("/x", #"{"sp":1,"sn":"k","sin":false,"l":2,"vf":"r","i":"a/b"}"#, tag: 5)
        try peer.listen("/x")
        let lines = try peer.ask("unauth", "{}")
        #expect(lines == ["ok \"\""] || lines.count == 1, "the answer comes first")
        #expect(Set(try peer.pushes()) == ["c x", #"c x [{"sp":1,"sn":"k","sin":false,"l":2,"vf":"r","i":"a/b"}]"#])
    }
}

extension Peer {
    /// Everything received so far, including answers to earlier requests.
    fileprivate func pushes0() throws -> [String] {
        let mark = #"{"t":"d","d":{"r":9999,"b":{"s":"ok","d":""}}}"#
        try socket.sendText(#"{"t":"d","d":{"r":9999,"a":"s","b":{"c":{}}}}"#)
        var lines: [String] = []
        while true {
            let message = try message()
            if message == mark { return lines }
            lines.append(try Self.text(message))
        }
    }

    private static func text(_ message: String) throws -> String {
        let body = try RawObject(message)["d"]?.object()
        guard let push = try body?["b"]?.object(), body?["a"] != nil else { return "answer" }
        return "d \(push["p"]?.string ?? "") \(push["d"]?.text ?? "")"
    }
}
