import HubEngine
@testable import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing
import TestSupport

/// Checks 126–128: event streams.
@Suite(.timeLimit(.minutes(30))) struct EventStreamChecks {
    @Test func checklist_126_firstPutThenWhatIsWritten() throws {
        let server = try TestServer()
        let (writer, peer) = (try RESTPeer(server), try RESTPeer(server))
        try writer.put("/room.json", #"{"a":{"x":1},"l":[1,2]}"#)
        let head = try peer.stream("/room.json")
        #expect(
            head.status == 200 && head.field("Content-Type") == "text/event-stream; charset=utf-8"
            && head.field("Cache-Control") == "no-cache")
        #expect(try peer.event() == #"put {"path":"/","data":{"a":{"x":1},"l":[1,2]}}"#)
        try writer.put("/room/a/x.json", #""two\nlines""#)
        try writer.patch("/room.json", #"{"a/y":2,"a/z":{"q":1}}"#)
        try writer.patch("/room.json", #"{"a/y":null,"b":1}"#)
        try writer.put("/elsewhere.json", "1")
        try writer.line("DELETE", "/room.json")
        try writer.put("/.json", #"{"room":5}"#)
        #expect(try peer.event() == #"put {"path":"/a/x","data":"two\nlines"}"#)
        #expect(try peer.event() == #"patch {"path":"/","data":{"a/y":2,"a/z":{"q":1}}}"#)
        #expect(try peer.event() == #"patch {"path":"/","data":{"a/y":null,"b":1}}"#)
        #expect(try peer.event() == #"put {"path":"/","data":null}"#)
        #expect(try peer.event() == #"put {"path":"/","data":5}"#)
    }

    @Test func checklist_126_absentPlaceBeginsWithNull_andQueriesHaveWindows() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".read":true,".write":true,"k":{".indexOn":"n"}}}"#)
        let server = try TestServer { $0.rules = rules }
        let (writer, peer, export) = (try RESTPeer(server), try RESTPeer(server), try RESTPeer(server))
        #expect(try peer.stream(#"/k.json?orderBy="n"&limitToLast=2"#).status == 200)
        #expect(try peer.event() == #"put {"path":"/","data":null}"#)
        try writer.put("/k.json", #"{"a":{"n":1},"b":{"n":2}}"#)
        #expect(try peer.event() == #"put {"path":"/","data":{"a":{"n":1},"b":{"n":2}}}"#)
        try writer.put("/k/c.json", #"{"n":3}"#)
        #expect(try peer.event() == #"patch {"path":"/","data":{"a":null,"c":{"n":3}}}"#)
        try writer.put("/k/c/n.json", "4")
        #expect(try peer.event() == #"put {"path":"/c/n","data":4}"#)
        #expect(try export.stream("/p.json?format=export").status == 200)
        try writer.put("/p.json", #"{".value":1,".priority":2}"#)
        #expect(try [export.event(), export.event()] == [
            #"put {"path":"/","data":null}"#, #"put {"path":"/","data":{".value":1,".priority":2}}"#,
        ])
        #expect(try RESTPeer(server).stream(#"/none.json?orderBy="n""#).status == 200, "a query that selects nothing is the place")
        let refused = try RESTPeer(server).refusal("GET", #"/none.json?orderBy="n"&limitToFirst=1"#, "", ["Accept: text/event-stream"])
        #expect(refused == #"400 Index not defined, add ".indexOn": "n", for path "/none", to the rules"#)
    }

    @Test func checklist_126_update_isAPatchAtThePlaceThatIsUpdated() throws {
        let server = try TestServer()
        let (writer, sdk, peer, leaf) = (try RESTPeer(server), try Peer(server), try RESTPeer(server), try RESTPeer(server))
        try writer.put("/lamp.json", #"{"on":0,"n":1}"#)
        try peer.stream("/lamp.json")
        try leaf.stream("/lamp/on.json")
        #expect(try peer.event() == #"put {"path":"/","data":{"n":1,"on":0}}"#)
        #expect(try leaf.event() == #"put {"path":"/","data":0}"#)
        try writer.patch("/lamp.json", #"{"on":1}"#)
        try writer.patch("/lamp/deep.json", #"{"a/b":1}"#)
        try writer.patch("/.json", #"{"lamp/on":2}"#)
        try writer.put("/lamp/deep/a/b.json", "2")
        _ = try sdk.merge("/lamp", #"{"on":3}"#)
        #expect(try peer.event() == #"patch {"path":"/","data":{"on":1}}"#)
        #expect(try peer.event() == #"patch {"path":"/deep","data":{"a/b":1}}"#)
        #expect(try peer.event() == #"put {"path":"/on","data":2}"#, "the update of a place above")
        #expect(try peer.event() == #"put {"path":"/deep/a/b","data":2}"#, "a set")
        #expect(try peer.event() == #"patch {"path":"/","data":{"on":3}}"#)
        for value in 1...3 { #expect(try leaf.event() == #"put {"path":"/","data":\#(value)}"#, "below an update") }
        // A value that is prepared in the background, too.
        let text = String(repeating: "x", count: 600_000)
        try writer.patch("/lamp.json", #"{"long":"\#(text)"}"#)
        #expect(try peer.event() == #"patch {"path":"/","data":{"long":"\#(text)"}}"#)
    }

    @Test func checklist_126_queryByAChild_isAnObject_alsoWhereItsKeysAreIndexes() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".read":true,".write":true,"k":{".indexOn":["n",".value"]}}}"#)
        let server = try TestServer { $0.rules = rules }
        let (writer, ordered, keyed) = (try RESTPeer(server), try RESTPeer(server), try RESTPeer(server))
        try writer.put("/k.json", #"[{"n":[1,2]},{"n":3}]"#)
        try ordered.stream(#"/k.json?orderBy="n"&limitToLast=5"#)
        try keyed.stream(#"/k.json?orderBy="$key"&limitToLast=5"#)
        #expect(try ordered.event() == #"put {"path":"/","data":{"0":{"n":[1,2]},"1":{"n":3}}}"#)
        #expect(try keyed.event() == #"put {"path":"/","data":[{"n":[1,2]},{"n":3}]}"#)
        try writer.put("/k.json", #"[{"n":5}]"#)
        #expect(try ordered.event() == #"put {"path":"/","data":{"0":{"n":5}}}"#)
        #expect(try keyed.event() == #"put {"path":"/","data":[{"n":5}]}"#)
    }

    @Test func checklist_126_keepAlive() throws {
        let peer = try RESTPeer(TestServer { $0.limits.streamKeepAliveSeconds = 1 })
        try peer.stream("/a.json")
        #expect(try [peer.event(), peer.event(), peer.event()] == [#"put {"path":"/","data":null}"#, "keep-alive null", "keep-alive null"])
    }

    @Test func checklist_126_cancelClosesWhenReadingIsNoLongerAllowed() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".write":true,"room":{".read":"root.child('open').val()==true"}}}"#)
        let server = try TestServer { $0.rules = rules }
        let (writer, peer) = (try RESTPeer(server), try RESTPeer(server))
        try writer.put("/open.json", "true")
        try peer.stream("/room.json")
        #expect(try peer.event() == #"put {"path":"/","data":null}"#)
        try writer.patch("/.json", #"{"open":false,"room/secret":1}"#)
        #expect(try peer.event() == "cancel null")
        #expect(try peer.event() == nil)
        #expect(try peer.socket.rest() == "")
    }

    @Test func checklist_127_deniedAtStart_isA401LikeAnyOther() throws {
        let rules = try RuleSet(parsing: #"{"rules":{"a":{".read":"auth!=null"}}}"#)
        let server = try TestServer { $0.rules = rules }
        let peer = try RESTPeer(server)
        #expect(try peer.refusal("GET", "/a.json", "", ["Accept: text/event-stream"]) == "401 Permission denied")
        #expect(try peer.refusal("GET", "/a.json?auth=bad", "", ["Accept: text/event-stream"]) == "401 Could not parse auth token.")
        #expect(try peer.stream("/a.json?auth=\(Token.mock("ana"))").status == 200, "on the same connection")
        #expect(try peer.event() == #"put {"path":"/","data":null}"#)
        #expect(try server.metric(#"vigla_sessions{protocol="stream"}"#) == 1)
    }

    @Test func checklist_128_authRevokedIsUnquoted() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".read":"auth!=null"}}"#)
        let clock = FakeClock()
        let server = try TestServer(scheduler: clock.scheduler) {
            $0.rules = rules
            $0.limits.tokenLeewaySeconds = 0
            $0.tokens = ManualVerifier { _ in .success(Identity(auth: ["uid": "ana"], expires: clock.seconds + 5)) }
        }
        let peer = try RESTPeer(server)
        #expect(try peer.stream("/a.json?auth=\(Token.signed("ana"))").status == 200)
        #expect(try peer.event() == #"put {"path":"/","data":null}"#)
        clock.advance(seconds: 5)
        #expect(try peer.event() == "auth_revoked credential is no longer valid")
        #expect(try peer.event() == nil)
    }

    @Test func streamOfHTTP10_hasNoChunks() throws {
        let server = try TestServer()
        let peer = try RESTPeer(server)
        try peer.socket.send("GET /a.json?ns=test HTTP/1.0\r\nAccept: text/event-stream\r\n\r\n")
        #expect(try peer.socket.head().head.contains("Connection: close"))
        server.stop()
        #expect(try peer.socket.rest() == "event: put\ndata: {\"path\":\"/\",\"data\":null}\n\n")
    }

    @Test func streamEnds_whenItsPeerLeaves() throws {
        let server = try TestServer()
        do {
            let peer = try RESTPeer(server)
            try peer.stream("/a.json")
            #expect(try server.metric(#"vigla_sessions{protocol="stream"}"#) == 1)
        }
        #expect(try server.metric(#"vigla_sessions{protocol="stream"}"#, becomes: { $0 == 0 }))
    }
}
