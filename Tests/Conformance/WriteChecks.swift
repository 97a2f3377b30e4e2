import Glibc
import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing
import TestSupport

/// Checks 103–110: updates and onDisconnect.
@Suite(.timeLimit(.minutes(30))) struct WriteChecks {
    @Test func checklist_103_oneDeniedPathOfAnUpdate_changesNothing() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".read":true,"a":{".write":true}}}"#)
        let peer = try Peer(TestServer { $0.rules = rules })
        try peer.listen("/a")
        #expect(try peer.merge("/", #"{"a/x":1,"b/x":1}"#) == ["permission_denied Permission denied"])
        #expect(try peer.get("/") == "ok null")
        #expect(try peer.pushes() == [])
    }

    @Test func checklist_104_ancestorAndDescendantInOneUpdate_areRefused() throws {
        let peer = try Peer(TestServer())
        #expect(try peer.merge("/", #"{"a":1,"a/b":2}"#)[0].hasPrefix("failure "))
        #expect(try peer.merge("/", #"{"a":1,"ab":2}"#) == ["ok \"\""])
    }

    @Test func checklist_105_emptyUpdateIsOkWithoutPush() throws {
        let peer = try Peer(TestServer())
        try peer.listen("/a")
        #expect(try peer.merge("/a", "{}") == ["ok \"\""])
    }

    @Test func checklist_106_writingBelowALeafMakesAnObject() throws {
        let peer = try Peer(TestServer())
        try peer.put("/a", #"{".value":5,".priority":1}"#)
        try peer.put("/a/b", "6")
        #expect(try peer.get("/a") == #"ok {"b":6,".priority":1}"#)
    }

    @Test func checklist_107_parentReplacesPendingChildren_cancelKeepsSiblings() throws {
        let server = try TestServer()
        let one = try Peer(server)
        try one.ask("om", #"{"p":"/a","d":{"x":1,"y":2,"z/q":3}}"#)
        #expect(try one.ask("oc", #"{"p":"/a/x","d":null}"#) == ["ok \"\""])
        try one.ask("o", #"{"p":"/b/old","d":1}"#)
        try one.ask("o", #"{"p":"/b","d":{"new":1,"part":{"x":1}}}"#)
        try one.ask("oc", #"{"p":"/b/part","d":null}"#)
        let next = try Peer(server, "v=5&ns=test&ls=\(one.session)")
        #expect(try next.get("/") == #"ok {"a":{"y":2,"z":{"q":3}},"b":{"new":1}}"#)
    }

    @Test func checklist_108_closingFiresTheBatchAsOneMessage() throws {
        let server = try TestServer()
        let watcher = try Peer(server)
        try watcher.put("/p", #"{"on":true,"n":1}"#)
        try watcher.listen("/p")
        var leaver: Peer? = try Peer(server)
        try leaver?.ask("o", #"{"p":"/p/on","d":false}"#)
        try leaver?.ask("om", #"{"p":"/p","d":{"n":{".sv":{"increment":1}},"at":{".sv":"timestamp"}}}"#)
        leaver = nil
        let line = try watcher.line()
        #expect(line.hasPrefix("m p "))
        let sent = try RawObject(String(line.dropFirst("m p ".count)))
        #expect(sent["on"]?.text == "false" && sent["n"]?.text == "2" && Int64(sent["at"]?.text ?? "") != nil)
        #expect(try watcher.pushes() == [])
    }

    @Test func checklist_109_deniedAtRegistration() throws {
        let peer = try Peer(TestServer { $0.rules = .denyAll })
        for (action, data) in [("o", "1"), ("om", #"{"a":1}"#)] {
            #expect(try peer.ask(action, #"{"p":"/x","d":\#(data)}"#) == ["permission_denied Permission denied"])
        }
    }

    @Test func checklist_110_nothingFiresTwice_andASuccessorBeginsEmpty() throws {
        let server = try TestServer()
        let one = try Peer(server)
        try one.ask("o", #"{"p":"/n","d":{".sv":{"increment":1}}}"#)
        let two = try Peer(server, "v=5&ns=test&ls=\(one.session)")
        #expect(try two.get("/n") == "ok 1")
        _ = try one.socket.closeCode()
        let three = try Peer(server, "v=5&ns=test&ls=\(two.session)")
        let four = try Peer(server, "v=5&ns=test&ls=\(one.session)")
        #expect(try three.get("/n") == "ok 1")
        #expect(try four.get("/n") == "ok 1")
    }

    // MARK: Across a crash

    @Test func pendingWrites_ofACrashedServer_areMadeOnceByTheNext() throws {
        let folder = try TemporaryFolder()
        let crashed = try TestServer { $0.dataFolder = folder.at("one") }
        let peer = try Peer(crashed)
        try peer.signIn("ana")
        try peer.put("/p", #"{"on":true,"n":1}"#)
        #expect(try peer.ask("om", #"{"p":"/p","d":{"on":false,"n":{".sv":{"increment":1}},"x/.priority":3}}"#) == ["ok \"\""])
        try peer.ask("o", #"{"p":"/forgotten","d":1}"#)
        try peer.ask("oc", #"{"p":"/forgotten","d":null}"#)
        // The disk content at the time of the answer is what a kill -9 leaves.
        try folder.copy("one", to: "two")
        for _ in 0..<2 {
            let next = try TestServer { $0.dataFolder = folder.at("two") }
            #expect(try Peer(next).get("/") == #"ok {"p":{"n":2,"on":false}}"#)
            try folder.copy("two", to: "three")
            let third = try TestServer { $0.dataFolder = folder.at("three") }
            #expect(try Peer(third).get("/p/n") == "ok 2")
            third.stop()
            next.stop()
            try folder.remove("three")
        }
    }
}
