import HubServer
import JSONTree
import SecurityRules
import Testing
import WireProtocols

/// The contract's checks that concern one realtime connection, over real sockets (protocol-rtdb §9).
@Suite struct RealtimeTests {
    @Test func check03_hello_isFirstAndWellFormed() throws {
        let server = try TestServer()
        let (_, first) = try server.realtime()
        let (_, second) = try server.realtime()
        #expect(first.child("t") == "c")
        #expect(first.node(at: "d/t") == "h")
        guard case .int(let ts) = first.node(at: "d/d/ts") else { Issue.record("ts is no integer"); return }
        #expect(ts > 1_600_000_000_000)
        #expect(first.node(at: "d/d/v") == "5")
        #expect(first.node(at: "d/d/s").exists && first.node(at: "d/d/s") != second.node(at: "d/d/s"))
    }

    @Test func check04_helloHost_isTheRequestsHost() throws {
        let (_, hello) = try TestServer().realtime(host: "hub.example:8443")
        #expect(hello.node(at: "d/d/h") == "hub.example:8443")
    }

    @Test func queryWithoutTag_isRefused_andDoesNotTouchTheDefaultListen() throws {
        let (socket, _) = try TestServer().realtime()
        let query = #""p":"/a","q":{"i":".key","l":1}"#
        try socket.sendText(#"{"t":"d","d":{"r":1,"a":"q","b":{\#(query),"h":""}}}"#)
        #expect(try socket.text() == #"{"t":"d","d":{"r":1,"b":{"s":"failure","d":"A query needs a tag."}}}"#)
        try socket.sendText(#"{"t":"d","d":{"r":2,"a":"q","b":{"p":"/a","h":""}}}"#)
        try socket.sendText(#"{"t":"d","d":{"r":3,"a":"n","b":{\#(query)}}}"#)
        try socket.sendText(#"{"t":"d","d":{"r":4,"a":"p","b":{"p":"/a/b","d":1}}}"#)
        for expected in [#"{"r":2,"b":{"s":"ok","d":{}}}"#, #"{"r":3,"b":{"s":"ok","d":""}}"#, #"{"a":"d","b":{"p":"a/b","d":1}}"#] {
            #expect(try socket.text() == #"{"t":"d","d":\#(expected)}"#)
        }
    }

    @Test func check06_pingControl_isAnsweredWithPong() throws {
        let (socket, _) = try TestServer().realtime()
        try socket.sendText(#"{"t":"c","d":{"t":"p","d":{}}}"#)
        #expect(try socket.text() == #"{"t":"c","d":{"t":"o","d":null}}"#)
    }

    @Test func check07_09_keepAliveAndChunks() throws {
        let (socket, _) = try TestServer().realtime()
        try socket.sendText("0")
        let text = String(repeating: "é", count: 20000)
        let message = Array(#"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":"\#(text)"}}}"#)
        try socket.sendText("2")
        try socket.sendText(String(message[..<16384]))
        try socket.sendText(String(message[16384...]))
        #expect(try socket.text() == #"{"t":"d","d":{"r":1,"b":{"s":"ok","d":""}}}"#)
        try socket.sendText(#"{"t":"d","d":{"r":2,"a":"g","b":{"p":"/a","q":{}}}}"#)
        let count = try #require(Int(try socket.text()))
        var answer = ""
        for _ in 0..<count { answer += try socket.text() }
        #expect(answer == #"{"t":"d","d":{"r":2,"b":{"s":"ok","d":"\#(text)"}}}"#)
    }

    @Test func check13_malformedMessage_endsOnlyThatConnection() throws {
        let server = try TestServer()
        let (bad, _) = try server.realtime()
        let (good, _) = try server.realtime()
        try bad.sendText(#"{"t":"d","d":{"r":1"#)
        #expect(try bad.closeCode() == 1008)
        try good.sendText(#"{"t":"d","d":{"r":1,"a":"s","b":{"c":{}}}}"#)
        #expect(try good.text() == #"{"t":"d","d":{"r":1,"b":{"s":"ok","d":""}}}"#)
    }

    @Test func check14_namespaces_areApart() throws {
        let server = try TestServer()
        let (one, _) = try server.realtime("v=5&ns=one")
        let (two, _) = try server.realtime("v=5&ns=two")
        try one.sendText(#"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1}}}"#)
        _ = try one.text()
        try two.sendText(#"{"t":"d","d":{"r":1,"a":"g","b":{"p":"/a","q":{}}}}"#)
        #expect(try two.text() == #"{"t":"d","d":{"r":1,"b":{"s":"ok","d":null}}}"#)
    }

    @Test func check15_lastSession_isEndedByItsSuccessor() throws {
        let server = try TestServer()
        let (old, hello) = try server.realtime()
        try old.sendText(#"{"t":"d","d":{"r":1,"a":"o","b":{"p":"/gone","d":true}}}"#)
        _ = try old.text()
        guard case .string(let id) = hello.node(at: "d/d/s") else { return }
        let (new, _) = try server.realtime("v=5&ns=test&ls=\(id)")
        try new.sendText(#"{"t":"d","d":{"r":1,"a":"g","b":{"p":"/gone","q":{}}}}"#)
        #expect(try new.text() == #"{"t":"d","d":{"r":1,"b":{"s":"ok","d":true}}}"#)
        _ = try old.closeCode()
    }

    @Test func check16_silentPeer_isAskedThenEnded() throws {
        let server = try TestServer {
            $0.limits.pingAfterSeconds = 1
            $0.limits.silenceSeconds = 2
        }
        let (silent, _) = try server.realtime()
        try silent.sendText(#"{"t":"d","d":{"r":1,"a":"o","b":{"p":"/gone","d":true}}}"#)
        _ = try silent.text()
        #expect(try silent.next() == .ping([]))
        #expect(throws: TestSocket.Closed.self) { try silent.next() }
        let (other, _) = try server.realtime()
        try other.sendText(#"{"t":"d","d":{"r":1,"a":"g","b":{"p":"/gone","q":{}}}}"#)
        #expect(try other.text() == #"{"t":"d","d":{"r":1,"b":{"s":"ok","d":true}}}"#)
    }

    @Test func check31_to_40_everyRequestIsAnsweredInOrder() throws {
        let (socket, _) = try TestServer().realtime()
        let requests = [
            #"{"r":0,"a":"s","b":{"c":{"sdk.js.1":1}}}"#, #"{"r":1,"a":"never heard of","b":{}}"#, #"{"r":2,"a":"n","b":{"p":"/x"}}"#,
            #"{"r":3,"a":"unauth","b":{}}"#, #"{"r":4,"a":"unappeck","b":{}}"#, #"{"r":5,"a":"appcheck","b":{"token":"t"}}"#,
            #"{"r":6,"a":"q","b":{"p":"/x","h":""}}"#, #"{"r":7,"a":"g","b":{"p":"x//y/","q":{}}}"#, #"{"b":{"d":null,"p":"/x"},"a":"oc","r":8}"#,
            #"{"r":9,"a":"p","b":{"p":"/bad.key","d":1}}"#, #"{"r":10,"a":"p","b":{"p":"/x","d":{"a$b":1}}}"#, #"{"r":11,"a":"m","b":{"p":"/x","d":{}}}"#,
        ]
        for request in requests { try socket.sendText(#"{"t":"d","d":\#(request)}"#) }
        for number in requests.indices {
            let answer = try Node(json: socket.text())
            #expect(answer.node(at: "d/r") == .int(Int64(number)))
            let status = answer.node(at: "d/b/s")
            if [1, 9, 10].contains(number) {
                #expect(status == "failure")
                guard case .string = answer.node(at: "d/b/d") else { Issue.record("d of a failure is a string"); continue }
            } else {
                #expect(status == "ok", "request \(number)")
            }
        }
    }

    @Test func check35_listenOk_isAnObject() throws {
        let (socket, _) = try TestServer().realtime()
        try socket.sendText(#"{"t":"d","d":{"r":1,"a":"q","b":{"p":"/x","h":""}}}"#)
        #expect(try socket.text() == #"{"t":"d","d":{"r":1,"b":{"s":"ok","d":{}}}}"#)
    }

    @Test func check52_ownWrite_isEchoedBeforeOk_withResolvedServerValue() throws {
        let (socket, _) = try TestServer().realtime()
        try socket.sendText(#"{"t":"d","d":{"r":1,"a":"q","b":{"p":"/x","h":""}}}"#)
        _ = try socket.text()
        try socket.sendText(#"{"t":"d","d":{"r":2,"a":"p","b":{"p":"/x/at","d":{".sv":"timestamp"}}}}"#)
        let push = try Node(json: socket.text())
        #expect(push.node(at: "d/a") == "d" && push.node(at: "d/b/p") == "x/at")
        guard case .int = push.node(at: "d/b/d") else { Issue.record("timestamp is not resolved"); return }
        #expect(try socket.text() == #"{"t":"d","d":{"r":2,"b":{"s":"ok","d":""}}}"#)
    }

    @Test func check136_unsignedToken_isTrustedOnlyUnderDev() throws {
        // {"alg":"none"} . {"sub":"ana","firebase":{"sign_in_provider":"password"}} .
        let token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbmEiLCJmaXJlYmFzZSI6eyJzaWduX2luX3Byb3ZpZGVyIjoicGFzc3dvcmQifX0."
        for isDev in [true, false] {
            let (socket, _) = try TestServer { $0.isDev = isDev }.realtime("v=5&ns=default")
            try socket.sendText(#"{"t":"d","d":{"r":1,"a":"auth","b":{"cred":"\#(token)"}}}"#)
            let answer = try Node(json: socket.text())
            #expect(answer.node(at: "d/b/s") == (isDev ? "ok" : "invalid_token"))
            #expect(answer.node(at: "d/b/d/auth/uid") == (isDev ? "ana" : .null))
            try socket.sendText(#"{"t":"d","d":{"r":2,"a":"gauth","b":{"cred":"owner"}}}"#)
            #expect(try Node(json: socket.text()).node(at: "d/b/s") == (isDev ? "ok" : "invalid_token"))
        }
    }

    @Test func check53_61_filteredListen_isTagged_andCancelRepeatsItsQuery() throws {
        let server = try TestServer { $0.rules = .denyAll }
        let (socket, _) = try server.realtime()
        try socket.sendText(#"{"t":"d","d":{"r":1,"a":"gauth","b":{"cred":"owner"}}}"#)
        _ = try socket.text()
        try socket.sendText(#"{"t":"d","d":{"r":2,"a":"p","b":{"p":"/x","d":{"a":1,"b":2,"c":3}}}}"#)
        _ = try socket.text()
        try socket.sendText(#"{"t":"d","d":{"r":3,"a":"q","b":{"p":"/x","q":{"l":2,"vf":"r","i":".key"},"t":5,"h":""}}}"#)
        #expect(try socket.text() == #"{"t":"d","d":{"a":"d","b":{"t":5,"p":"x","d":{"b":2,"c":3}}}}"#)
        #expect(try socket.text() == #"{"t":"d","d":{"r":3,"b":{"s":"ok","d":{}}}}"#)
        try socket.sendText(#"{"t":"d","d":{"r":4,"a":"p","b":{"p":"/x/d","d":4}}}"#)
        #expect(try socket.text() == #"{"t":"d","d":{"a":"m","b":{"t":5,"p":"x","d":{"b":null,"d":4}}}}"#)
        _ = try socket.text()
        try socket.sendText(#"{"t":"d","d":{"r":5,"a":"unauth","b":{}}}"#)
        _ = try socket.text()
        #expect(try socket.text() == #"{"t":"d","d":{"a":"c","b":{"p":"x","q":[{"l":2,"vf":"r","i":".key"}]}}}"#)
    }

    @Test func frameOverTheLimit_closesOnlyThatConnectionWith1009() throws {
        let server = try TestServer { $0.limits.frameBytes = 1000 }
        let (atLimit, _) = try server.realtime()
        let envelope = #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":""}}}"#
        func put(_ bytes: Int) -> String { envelope.replacing(#""d":"""#, with: "\"d\":\"\(String(repeating: "x", count: bytes - envelope.utf8.count))\"") }
        try atLimit.sendText(put(1000))
        #expect(try atLimit.text().contains(#""s":"ok""#))
        let (over, _) = try server.realtime()
        try over.sendText(put(1001))
        #expect(try over.closeCode() == 1009)
        try atLimit.sendText(put(1000))
        #expect(try atLimit.text().contains(#""s":"ok""#))
    }

    @Test func writeOverTheLimit_isAnswered_andTheConnectionStays() throws {
        let server = try TestServer { $0.limits.realtime.messageBytes = 500 }
        let (socket, _) = try server.realtime()
        try socket.sendText(#"{"t":"d","d":{"r":7,"a":"p","b":{"p":"/a","d":"\#(String(repeating: "x", count: 600))"}}}"#)
        #expect(try Node(json: socket.text()).node(at: "d/b/s") == "too_big")
        try socket.sendText(#"{"t":"d","d":{"r":8,"a":"p","b":{"p":"/a","d":"\#(String(repeating: "x", count: 300))"}}}"#)
        #expect(try socket.text() == #"{"t":"d","d":{"r":8,"b":{"s":"ok","d":""}}}"#)
    }
}
