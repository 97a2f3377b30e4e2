import Dispatch
import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing
import WireProtocols

/// Checks 1–18: transport and framing.
@Suite(.timeLimit(.minutes(30))) struct TransportChecks {
    @Test func checklist_001_namespaceIsTheParameter_elseTheFirstHostLabel() throws {
        // A development hub refuses host names with a dot, unless allowed origins are configured.
        let server = try TestServer { $0.allowedOrigins = ["*"] }
        try Peer(server, "v=5&ns=named").put("/a", "1")
        #expect(try Peer(server, "v=5&ns=named", host: "other.example.com").get("/a") == "ok 1")
        try Peer(server, "v=5", host: "label.example.com").put("/a", "2")
        #expect(try Peer(server, "v=5&ns=label").get("/a") == "ok 2")
        #expect(try Peer(server, "v=5", host: "localhost").get("/a") == "ok null")
    }

    @Test func checklist_002_upgradeHasExactTokensAndNothingMore() throws {
        let server = try TestServer()
        let socket = try TestSocket(port: server.port)
        try socket.send(
            "GET /.ws?v=5&ns=test HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: x\r\n\r\n")
        let head = try socket.response().head.lowercased()
        #expect(head.hasPrefix("http/1.1 101 "))
        #expect(head.contains("\r\nupgrade: websocket\r\n") && head.contains("\r\nconnection: upgrade\r\n"))
        #expect(!head.contains("sec-websocket-protocol") && !head.contains("sec-websocket-extensions"))
    }

    @Test func checklist_003_helloIsFirstAndWellFormed() throws {
        let server = try TestServer()
        let (one, two) = (try Peer(server), try Peer(server))
        #expect(one.hello.child("t") == "c" && one.hello.node(at: "d/t") == "h" && one.hello.node(at: "d/d/v") == "5")
        guard case .int(let ts) = one.hello.node(at: "d/d/ts") else { Issue.record("ts is no integer"); return }
        #expect(ts > 1_600_000_000_000)
        #expect(!one.session.isEmpty && one.session != two.session)
    }

    @Test func checklist_004_helloHostIsTheRequestsHost() throws {
        #expect(try Peer(TestServer { $0.allowedOrigins = ["*"] }, host: "hub.example:8443").hello.node(at: "d/d/h") == "hub.example:8443")
    }

    @Test func checklist_005_006_pingIsAnsweredWithPong_andControlsHaveAnInnerD() throws {
        let peer = try Peer(TestServer())
        try peer.socket.sendText(#"{"t":"c","d":{"t":"p","d":{}}}"#)
        #expect(try peer.socket.text() == #"{"t":"c","d":{"t":"o","d":null}}"#)
        for control in [RealtimeReply.pong, RealtimeReply.switchAck, RealtimeReply.endTransmission, RealtimeReply.reset(host: "h")] {
            #expect(try RawObject(String(decoding: control, as: UTF8.self))["d"]?.object()["d"] != nil)
        }
    }

    @Test func checklist_007_009_keepAliveIsSilent_andChunksAreJoined() throws {
        let peer = try Peer(TestServer())
        try peer.socket.sendText("0")
        let text = String(repeating: "x", count: 20000)
        let message = #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":"\#(text)"}}}"#
        for part in ["2", String(message.prefix(16384)), String(message.dropFirst(16384))] { try peer.socket.sendText(part) }
        #expect(try peer.line() == "ok \"\"")
        #expect(try peer.socketGet() == "\"\(text)\"")
    }

    @Test func checklist_008_noFrameIsANumberButAChunkCount() throws {
        let peer = try Peer(TestServer())
        try peer.send("p", #"{"p":"/a","d":"\#(String(repeating: "y", count: 40000))"}"#)
        #expect(try peer.line() == "ok \"\"")
        try peer.send("g", #"{"p":"/a","q":{}}"#)
        let count = try #require(Int(try peer.socket.text()))
        #expect(count == 3)
        for _ in 0..<count {
            let frame = try peer.socket.text()
            #expect(!frame.isEmpty && Int(frame) == nil)
        }
    }

    @Test func checklist_010_largeMessage_comesInFewerThan9999Chunks() throws {
        let peer = try Peer(TestServer())
        let text = String(repeating: "z", count: 100 << 10)
        try peer.put("/a", "\"\(text)\"")
        try peer.send("g", #"{"p":"/a","q":{}}"#)
        let count = try #require(Int(try peer.socket.text()))
        #expect((2..<9999).contains(count))
        var joined = ""
        for _ in 0..<count {
            let part = try peer.socket.text()
            #expect(part.utf16.count <= 16384)
            joined += part
        }
        #expect(joined == #"{"t":"d","d":{"r":2,"b":{"s":"ok","d":"\#(text)"}}}"#)
    }

    @Test func checklist_011_chunksNeverSplitASurrogatePair() throws {
        let peer = try Peer(TestServer())
        // Odd offsets one after the other: some cut would fall inside a surrogate pair.
        for pad in 0..<2 {
            let text = String(repeating: "a", count: pad) + String(repeating: "😀", count: 20000)
            try peer.put("/a", "\"\(text)\"")
            #expect(try peer.get("/a") == "ok \"\(text)\"")
        }
    }

    @Test func checklist_012_contentBehindAChunkCountMayBeZero() throws {
        let peer = try Peer(TestServer())
        for part in ["3", #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1"#, "0", "}}}"] { try peer.socket.sendText(part) }
        #expect(try peer.line() == "ok \"\"")
        #expect(try peer.socketGet() == "10")
    }

    @Test func checklist_013_malformedJSON_closesThatConnectionOnly() throws {
        let server = try TestServer()
        let (bad, good) = (try Peer(server), try Peer(server))
        try bad.socket.sendText(#"{"t":"d","d":{"r":1"#)
        #expect(try bad.socket.closeCode() == 1008)
        #expect(try good.put("/a", "1") == ["ok \"\""])
    }

    @Test func checklist_014_namespacesAreApart() throws {
        let server = try TestServer()
        try Peer(server, "v=5&ns=one").put("/a", "1")
        #expect(try Peer(server, "v=5&ns=two").get("/a") == "ok null")
    }

    @Test func checklist_015_newSessionEndsTheOneItNames_beforeItsOwnRequests() throws {
        let server = try TestServer()
        let old = try Peer(server)
        try old.ask("o", #"{"p":"/gone","d":true}"#)
        let new = try Peer(server, "v=5&ns=test&ls=\(old.session)")
        #expect(try new.get("/gone") == "ok true")
        _ = try old.socket.closeCode()
    }

    @Test func checklist_016_silentPeerIsClosed_andItsOnDisconnectsFire() throws {
        let server = try TestServer {
            $0.limits.pingAfterSeconds = 1
            $0.limits.silenceSeconds = 2
        }
        let silent = try Peer(server)
        try silent.ask("o", #"{"p":"/gone","d":true}"#)
        #expect(try silent.socket.next() == .ping([]))
        #expect(throws: TestSocket.Closed.self) { try silent.socket.next() }
        #expect(try Peer(server).get("/gone") == "ok true")
    }

    @Test func checklist_017_gracefulStopClosesWithoutShutdown() throws {
        let server = try TestServer()
        let peer = try Peer(server)
        try peer.listen("/a")
        let stopped = DispatchSemaphore(value: 0)
        server.server.stop { stopped.signal() }
        var heard: [String] = []
        do {
            while true { if case .text(let text) = try peer.socket.next() { heard.append(text) } }
        } catch is TestSocket.Closed {}
        #expect(heard == [], "no control message, so the SDKs come back")
        #expect(stopped.wait(timeout: .now() + 20) == .success)
    }

    @Test func checklist_018_resetNamesTheHost() throws {
        // The server sends `r` before hello only to a socket that asks to join an unknown session (check 29).
        let server = try TestServer { $0.allowedOrigins = ["*"] }
        let socket = try TestSocket(port: server.port)
        try socket.upgrade("/.ws?v=5&ns=test&s=nobody", host: "hub.example:8443")
        #expect(try socket.text() == #"{"t":"c","d":{"t":"r","d":"hub.example:8443"}}"#)
    }

    @Test func frameOverTheLimit_closesOnlyThatConnectionWith1009() throws {
        let server = try TestServer { $0.limits.frameBytes = 1000 }
        let envelope = #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":""}}}"#
        func put(_ bytes: Int) -> String {
            envelope.replacing(#""d":"""#, with: "\"d\":\"\(String(repeating: "x", count: bytes - envelope.utf8.count))\"")
        }
        let (at, over) = (try Peer(server), try Peer(server))
        try at.socket.sendText(put(1000))
        #expect(try at.line() == "ok \"\"")
        try over.socket.sendText(put(1001))
        #expect(try over.socket.closeCode() == 1009)
        try at.socket.sendText(put(1000))
        #expect(try at.line() == "ok \"\"")
    }
}

extension Peer {
    /// Reads `/a` after messages that were sent by hand.
    fileprivate func socketGet() throws -> String {
        try socket.sendText(#"{"t":"d","d":{"r":99,"a":"g","b":{"p":"/a","q":{}}}}"#)
        return String(try line().dropFirst("ok ".count))
    }
}
