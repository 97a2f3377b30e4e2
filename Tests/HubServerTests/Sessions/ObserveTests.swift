import HubEngine
import HubServer
import JSONTree
import SecurityRules
import Synchronization
import TestHub
import Testing
import TestSupport
import WireProtocols

/// The observe protocol over real sockets (docs/observe-protocol.md).
@Suite(.timeLimit(.minutes(30))) struct ObserveTests {
    private func connect(_ server: TestServer) throws -> TestSocket {
        let socket = try TestSocket(port: server.port)
        try socket.upgrade("/.observe?ns=test")
        return socket
    }

    @Test func childObserver_seesAddedChangedRemovedInOrder() throws {
        let server = try TestServer()
        let (watcher, writer) = (try connect(server), try connect(server))
        try writer.sendText(#"{"id":1,"op":"set","path":"/t","value":{"a":1}}"#)
        #expect(try writer.text() == #"{"id":1,"ok":{"seq":1}}"#)
        try watcher.sendText(#"{"id":7,"op":"observe","path":"/t","events":["added","changed","removed"]}"#)
        #expect(try watcher.text() == #"{"id":7,"ok":{"seq":1}}"#)
        #expect(try watcher.text() == #"{"sub":7,"seq":1,"event":"added","key":"a","value":1,"prev":null}"#)
        try writer.sendText(#"{"id":2,"op":"update","path":"/","value":{"/t/b":2,"/t/a":5}}"#)
        #expect(try watcher.text() == #"{"sub":7,"seq":2,"event":"added","key":"b","value":2,"prev":"a"}"#)
        #expect(try watcher.text() == #"{"sub":7,"seq":2,"event":"changed","key":"a","value":5,"prev":null}"#)
        try writer.sendText(#"{"id":3,"op":"remove","path":"/t/a"}"#)
        #expect(try watcher.text() == #"{"sub":7,"seq":3,"event":"removed","key":"a","value":5}"#)
        try watcher.sendText(#"{"id":8,"op":"unobserve","sub":7}"#)
        #expect(try watcher.text() == #"{"id":8,"ok":{}}"#)
        try writer.sendText(#"{"id":4,"op":"push","path":"/t","value":1}"#)
        try watcher.sendText(#"{"id":9,"op":"ping"}"#)
        #expect(try watcher.text() == #"{"id":9,"ok":{}}"#)
    }

    @Test func valueObserver_getsTheWholePlaceEachTime() throws {
        let server = try TestServer()
        let socket = try connect(server)
        try socket.sendText(#"{"id":1,"op":"observe","path":"/v","events":["value"]}"#)
        #expect(try socket.text() == #"{"id":1,"ok":{"seq":0}}"#)
        #expect(try socket.text() == #"{"sub":1,"seq":0,"event":"value","value":null}"#)
        try socket.sendText(#"{"id":2,"op":"set","path":"/v/x","value":1}"#)
        #expect(try socket.text() == #"{"sub":1,"seq":1,"event":"value","value":{"x":1}}"#)
        #expect(try socket.text() == #"{"id":2,"ok":{"seq":1}}"#)
    }

    private func ask(_ request: String, _ socket: TestSocket, _ answers: Int) throws -> [String] {
        try socket.sendText(request)
        return try (0..<answers).map { _ in try socket.text() }
    }

    private static let players = #"{"ana":{"score":5},"ben":{"score":9},"cleo":{"score":7},"dan":{"score":7}}"#
    private static let indexed = try? RuleSet(parsing: #"{"rules":{".read":true,".write":true,"p":{".indexOn":"score"}}}"#)

    @Test func queryObserver_seesItsChildrenInOrder_thenReady_andWhatMoves() throws {
        let server = try TestServer { $0.rules = Self.indexed ?? .denyAll }
        let (watcher, writer) = (try connect(server), try connect(server))
        _ = try ask(#"{"id":1,"op":"set","path":"/p","value":\#(Self.players)}"#, writer, 1)
        let observe = #"{"id":7,"op":"observe","path":"/p","events":["added","changed","moved","removed","ready"],"#
            + #""query":{"orderBy":"score","limitToLast":3}}"#
        #expect(try ask(observe, watcher, 5) == [
            #"{"id":7,"ok":{"seq":1}}"#,
            #"{"sub":7,"seq":1,"event":"added","key":"cleo","value":{"score":7},"prev":null}"#,
            #"{"sub":7,"seq":1,"event":"added","key":"dan","value":{"score":7},"prev":"cleo"}"#,
            #"{"sub":7,"seq":1,"event":"added","key":"ben","value":{"score":9},"prev":"dan"}"#,
            #"{"sub":7,"seq":1,"event":"ready"}"#,
        ])
        _ = try ask(#"{"id":2,"op":"update","path":"/p","value":{"cleo/score":8,"ana/score":10}}"#, writer, 1)
        #expect(try (0..<4).map { _ in try watcher.text() } == [
            #"{"sub":7,"seq":2,"event":"removed","key":"dan","value":{"score":7}}"#,
            #"{"sub":7,"seq":2,"event":"moved","key":"cleo","prev":null}"#,
            #"{"sub":7,"seq":2,"event":"added","key":"ana","value":{"score":10},"prev":"ben"}"#,
            #"{"sub":7,"seq":2,"event":"changed","key":"cleo","value":{"score":8},"prev":null}"#,
        ])
        // Overwritten as a whole: only the differences are sent.
        _ = try ask(#"{"id":3,"op":"set","path":"/p","value":{"ana":{"score":10},"eve":{"score":1}}}"#, writer, 1)
        #expect(try (0..<3).map { _ in try watcher.text() } == [
            #"{"sub":7,"seq":3,"event":"removed","key":"cleo","value":{"score":8}}"#,
            #"{"sub":7,"seq":3,"event":"removed","key":"ben","value":{"score":9}}"#,
            #"{"sub":7,"seq":3,"event":"added","key":"eve","value":{"score":1},"prev":null}"#,
        ])
    }

    @Test func queryObserver_ofValues_getsAllThatItShowsEachTime() throws {
        let server = try TestServer { $0.rules = Self.indexed ?? .denyAll }
        let socket = try connect(server)
        _ = try ask(#"{"id":1,"op":"set","path":"/p","value":\#(Self.players)}"#, socket, 1)
        let observe = #"{"id":2,"op":"observe","path":"/p","query":{"orderBy":"score","equalTo":7}}"#
        #expect(try ask(observe, socket, 2).last == #"{"sub":2,"seq":1,"event":"value","value":{"cleo":{"score":7},"dan":{"score":7}}}"#)
        #expect(try ask(#"{"id":3,"op":"set","path":"/p/dan/name","value":"D"}"#, socket, 2) == [
            #"{"sub":2,"seq":2,"event":"value","value":{"cleo":{"score":7},"dan":{"name":"D","score":7}}}"#, #"{"id":3,"ok":{"seq":2}}"#,
        ])
    }

    @Test func get_pagesByCursor() throws {
        let server = try TestServer { $0.rules = Self.indexed ?? .denyAll }
        let socket = try connect(server)
        _ = try ask(#"{"id":1,"op":"set","path":"/p","value":\#(Self.players)}"#, socket, 1)
        let pages = [
            (#""limitToFirst":2"#, #"["ana","cleo"]"#, #"{"ana":{"score":5},"cleo":{"score":7}}"#),
            (#""startAfter":[7,"cleo"],"limitToFirst":2"#, #"["dan","ben"]"#, #"{"ben":{"score":9},"dan":{"score":7}}"#),
            (#""startAfter":[9,"ben"],"limitToFirst":2"#, "[]", "null"), (#""startAfter":7"#, #"["ben"]"#, #"{"ben":{"score":9}}"#),
            (#""endBefore":[7,"dan"]"#, #"["ana","cleo"]"#, #"{"ana":{"score":5},"cleo":{"score":7}}"#),
        ]
        for (page, keys, expected) in pages {
            let answer = try ask(#"{"id":2,"op":"get","path":"/p","query":{"orderBy":"score",\#(page)}}"#, socket, 1)
            #expect(answer == [#"{"id":2,"ok":{"keys":\#(keys),"value":\#(expected)}}"#], "\(page)")
        }
    }

    @Test func queryWithoutIndex_isServedOfFew_andRefusedOfMany_withTheLineThatIsMissing() throws {
        let server = try TestServer { $0.limits.engine.unindexedChildren = 4 }
        let socket = try connect(server)
        _ = try ask(#"{"id":1,"op":"set","path":"/p","value":\#(Self.players)}"#, socket, 1)
        let query = #""path":"/p","query":{"orderBy":"score","limitToLast":1}}"#
        #expect(try ask(#"{"id":2,"op":"get",\#(query)"#, socket, 1) == [#"{"id":2,"ok":{"keys":["ben"],"value":{"ben":{"score":9}}}}"#])
        #expect(try ask(#"{"id":3,"op":"observe",\#(query)"#, socket, 2).first == #"{"id":3,"ok":{"seq":1,"lacksIndex":true}}"#)
        _ = try ask(#"{"id":4,"op":"set","path":"/p/eve","value":{"score":1}}"#, socket, 1)
        let refusal = #""code":"missing_index","message":"Index not defined, add \".indexOn\": \"score\", for path \"/p\", to the rules","#
            + #""member":"query.orderBy"}}"#
        #expect(try ask(#"{"id":5,"op":"get",\#(query)"#, socket, 1) == [#"{"id":5,"error":{\#(refusal)"#])
        #expect(try ask(#"{"id":6,"op":"observe",\#(query)"#, socket, 1) == [#"{"id":6,"error":{\#(refusal)"#])
    }

    @Test func rules_seeTheQuery() throws {
        let rules = #"{"rules":{"p":{".read":"query.orderByChild == 'score' && query.limitToLast <= 10",".indexOn":"score"}}}"#
        let parsed = try RuleSet(parsing: rules)
        let server = try TestServer { $0.rules = parsed }
        let socket = try connect(server)
        for (query, isAllowed) in [
            (#"{"orderBy":"score","limitToLast":10}"#, true), (#"{"orderBy":"score","limitToLast":11}"#, false),
            (#"{"orderBy":"score","limitToFirst":1}"#, false), (#"{"limitToLast":1}"#, false),
        ] {
            for op in ["get", "observe"] {
                let answer = try ask(#"{"id":1,"op":"\#(op)","path":"/p","query":\#(query)}"#, socket, 1)[0]
                #expect(answer.contains(isAllowed ? #""ok""# : "permission_denied"), "\(op) \(query): \(answer)")
                if op == "observe", isAllowed {
                    _ = try socket.text()
                    _ = try ask(#"{"id":2,"op":"unobserve","sub":1}"#, socket, 1)
                }
            }
        }
    }

    @Test func count_isTold_onceAndLive_withoutTheContent() throws {
        let server = try TestServer { $0.rules = Self.indexed ?? .denyAll }
        let (watcher, writer) = (try connect(server), try connect(server))
        _ = try ask(#"{"id":1,"op":"set","path":"/p","value":\#(Self.players)}"#, writer, 1)
        let query = #""query":{"orderBy":"score","startAt":7}}"#
        #expect(try ask(#"{"id":1,"op":"count","path":"/p"}"#, watcher, 1) == [#"{"id":1,"ok":{"count":4}}"#])
        #expect(try ask(#"{"id":2,"op":"count","path":"/p",\#(query)"#, watcher, 1) == [#"{"id":2,"ok":{"count":3}}"#])
        #expect(try ask(#"{"id":3,"op":"count","path":"/none"}"#, watcher, 1) == [#"{"id":3,"ok":{"count":0}}"#])
        #expect(try ask(#"{"id":4,"op":"observe","path":"/p","events":["count","ready"]}"#, watcher, 3) == [
            #"{"id":4,"ok":{"seq":1}}"#, #"{"sub":4,"seq":1,"event":"count","count":4}"#, #"{"sub":4,"seq":1,"event":"ready"}"#,
        ])
        #expect(try ask(#"{"id":5,"op":"observe","path":"/p","events":["count"],\#(query)"#, watcher, 2).last
            == #"{"sub":5,"seq":1,"event":"count","count":3}"#)
        // Neither number changes, then one, then both.
        for (id, change) in [#"{"ana/score":6,"ben/name":"B"}"#, #"{"ana/score":8}"#, #"{"ana":null}"#].enumerated() {
            _ = try ask(#"{"id":\#(id),"op":"update","path":"/p","value":\#(change)}"#, writer, 1)
        }
        #expect(try Set((0..<3).map { _ in try watcher.text() }) == [
            #"{"sub":5,"seq":3,"event":"count","count":4}"#, #"{"sub":4,"seq":4,"event":"count","count":3}"#,
            #"{"sub":5,"seq":4,"event":"count","count":3}"#,
        ])
    }

    @Test func count_ofMoreThanMayBeSent_isTold() throws {
        let server = try TestServer { $0.limits.engine.readBytes = 1_000 }
        let socket = try connect(server)
        let many = (0..<500).map { #""k\#($0)":"\#(String(repeating: "x", count: 10))""# }.joined(separator: ",")
        _ = try ask(#"{"id":1,"op":"set","path":"/m","value":{\#(many)}}"#, socket, 1)
        #expect(try ask(#"{"id":2,"op":"get","path":"/m"}"#, socket, 1)[0].contains("too_big"))
        #expect(try ask(#"{"id":3,"op":"count","path":"/m"}"#, socket, 1) == [#"{"id":3,"ok":{"count":500}}"#])
        for (id, query) in [(4, ""), (5, #","query":{"startAt":"k1"}"#)] {
            let answers = try ask(#"{"id":\#(id),"op":"observe","path":"/m","events":["count"]\#(query)}"#, socket, 2)
            #expect(answers.last == #"{"sub":\#(id),"seq":1,"event":"count","count":\#(id == 4 ? 500 : 499)}"#)
        }
        let denied = try TestServer { $0.rules = .denyAll }
        #expect(try ask(#"{"id":1,"op":"count","path":"/m"}"#, connect(denied), 1)[0].contains("permission_denied"))
        #expect(try ask(#"{"id":1,"op":"observe","path":"/m","events":["count"]}"#, connect(denied), 1)[0].contains("permission_denied"))
    }

    @Test func transaction_isMadeOnTheValueItNames_elseToldWhatIsThere() throws {
        let rules = try RuleSet(parsing: #"{"rules":{"n":{".read":true,".write":true},"w":{".write":true}}}"#)
        let server = try TestServer { $0.rules = rules }
        let socket = try connect(server)
        func transact(_ path: String, _ members: String) throws -> String {
            try ask(#"{"id":1,"op":"transaction","path":"\#(path)",\#(members)}"#, socket, 1)[0]
        }
        let stale = #""code":"stale","message":"The place has another value.""#
        #expect(try transact("/n/a", #""was":null,"value":5"#) == #"{"id":1,"ok":{"seq":1}}"#)
        #expect(try transact("/n/a", #""was":4,"value":6"#) == #"{"id":1,"error":{\#(stale),"value":5}}"#)
        #expect(try transact("/n/a", #""was":5,"value":{"x":1,"y":2}"#) == #"{"id":1,"ok":{"seq":2}}"#)
        #expect(try transact("/n/a", #""was":{"y":2,"x":1},"value":null"#) == #"{"id":1,"ok":{"seq":3}}"#)
        #expect(try transact("/n/a", #""hash":"","value":{".sv":{"increment":2}}"#) == #"{"id":1,"ok":{"seq":4}}"#)
        #expect(try transact("/n/a", #""hash":"\#(Node.int(2).hash)","value":7"#) == #"{"id":1,"ok":{"seq":5}}"#)
        #expect(try transact("/n/a", #""hash":"rubbish","value":7"#) == #"{"id":1,"error":{\#(stale),"value":7}}"#)
        // A client without the read permission learns nothing about the content.
        #expect(try transact("/w/a", #""was":null,"value":5"#).contains("permission_denied"))
        // More than a refusal contains.
        let long = String(repeating: "x", count: 70_000)
        _ = try ask(#"{"id":2,"op":"set","path":"/n/b","value":"\#(long)"}"#, socket, 1)
        #expect(try transact("/n/b", #""was":null,"value":5"#) == #"{"id":1,"error":{\#(stale)}}"#)
        #expect(try transact("/n/b", #""was":"\#(long)","value":5"#) == #"{"id":1,"ok":{"seq":7}}"#)
    }

    @Test func onDisconnect_isDoneWhenTheConnectionEnds_unlessItWasCancelled() throws {
        let server = try TestServer()
        let watcher = try connect(server)
        _ = try ask(#"{"id":1,"op":"set","path":"/s","value":{"old":1,"keep":1}}"#, watcher, 1)
        _ = try ask(#"{"id":2,"op":"observe","path":"/s"}"#, watcher, 2)
        try {
            let leaver = try connect(server)
            for request in [
                #""do":"set","path":"/s/a","value":{"at":1}"#, #""do":"update","path":"/s","value":{"b/c":2,"d":3}"#,
                #""do":"remove","path":"/s/old""#, #""do":"set","path":"/s/cancelled","value":1"#, #""do":"cancel","path":"/s/cancelled""#,
                #""do":"remove","path":"/s/keep""#, #""do":"cancel","path":"/s/keep""#,
            ] { #expect(try ask(#"{"id":1,"op":"onDisconnect",\#(request)}"#, leaver, 1) == [#"{"id":1,"ok":{}}"#]) }
        }()
        #expect(try Node(json: watcher.text()).child("value") == ["a": ["at": 1], "b": ["c": 2], "d": 3, "keep": 1])
    }

    @Test func binaryFrames_areRefused_withTheReason() throws {
        let server = try TestServer()
        let socket = try connect(server)
        var frame = WebSocketFrame.text(Array("{}".utf8), mask: WebSocketMask(bigEndian: 5))
        frame[0] = 0x82
        try socket.send(frame)
        #expect(try socket.next() == .close(1003))
        #expect(socket.closeReason == "Send text frames: a message is a JSON text, never binary.")
    }

    @Test func version_isOne_andAnotherIsRefused_withTheReason() throws {
        let server = try TestServer()
        let socket = try TestSocket(port: server.port)
        try socket.upgrade("/.observe?ns=test&v=1")
        #expect(try ask(#"{"id":1,"op":"ping"}"#, socket, 1) == [#"{"id":1,"ok":{}}"#])
        for version in ["2", "", "one"] {
            let other = try TestSocket(port: server.port)
            try other.upgrade("/.observe?ns=test&v=\(version)")
            #expect(try other.next() == .close(1008))
            #expect(other.closeReason == "This hub speaks version 1 of the observe protocol.")
        }
        let plain = try TestSocket(port: server.port)
        try plain.send("GET /.observe?v=2 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(try plain.response().status >= 400)
    }

    @Test func badRequests_areAnsweredOnThatRequest() throws {
        let server = try TestServer()
        let socket = try connect(server)
        let cases = [
            (#"{"id":1,"op":"dance"}"#, "not_supported"), (#"{"id":2,"op":"set","path":"/a.b","value":1}"#, "bad_path"),
            (#"{"id":3,"op":"set","path":"/a","value":{"x#":1}}"#, "bad_data"), (#"{"id":4,"op":"unobserve","sub":99}"#, "unknown_sub"),
            (#"{"id":5,"op":"auth","token":"rubbish"}"#, "invalid_token"),
            (#"{"id":6,"op":"observe","path":"/a","near":{"lat":1,"lng":2}}"#, "bad_request"),
        ]
        for (request, code) in cases {
            try socket.sendText(request)
            #expect(try Node(json: socket.text()).node(at: "error/code") == .string(code), "\(request)")
        }
        try socket.sendText(#"{"id":7,"op":"observe","path":"/a","events":[]}"#)
        #expect(try Node(json: socket.text()).node(at: "error/message") == #"Invalid request: "events" is empty"#)
        try socket.sendText(#"{"id":10,"op":"observe","path":"/a"}"#)
        _ = try socket.text()
        _ = try socket.text()
        try socket.sendText(#"{"id":10,"op":"observe","path":"/b"}"#)
        #expect(try Node(json: socket.text()).node(at: "error/code") == "duplicate_id")
    }

    /// All of it arrives in one read, so that nothing is answered before the last message is seen.
    private func sendAtOnce(_ texts: [String], _ socket: TestSocket) throws {
        try socket.send(texts.flatMap { WebSocketFrame.text(Array($0.utf8), mask: WebSocketMask(bigEndian: 0x0102_0304)) })
    }

    @Test func malformedText_isAnsweredBehindAllBeforeIt_andWhatFollowsIsNotRead() throws {
        let server = try TestServer()
        let socket = try connect(server)
        let pushes = (1...50).map { #"{"id":\#($0),"op":"push","path":"/list","value":\#($0)}"# }
        try sendAtOnce(pushes + ["{bad", #"{"id":51,"op":"set","path":"/behind","value":1}"#, "{worse"], socket)
        for id in 1...50 { #expect(try socket.text().hasPrefix(#"{"id":\#(id),"ok":{"seq":\#(id)"#)) }
        let fault = try socket.text()
        #expect(fault.hasPrefix(#"{"id":null,"error":{"code":"bad_request""#), "\(fault)")
        #expect(try socket.next() == .close(1008))
        let other = try connect(server)
        try other.sendText(#"{"id":1,"op":"get","path":"/behind"}"#)
        #expect(try other.text() == #"{"id":1,"ok":{"value":null}}"#)
    }

    /// Requests wait for a token that is being checked; the error for malformed text waits with them.
    @Test func malformedText_behindAnAuth_isAnsweredBehindIt() throws {
        final class GatedVerifier: TokenVerifier {
            let done = Mutex<[Answer]>([])
            struct Answer { let give: @Sendable (Result<Identity, Failure>) -> Void }
            func verify(_ token: String, _ done: @escaping @Sendable (Result<Identity, Failure>) -> Void) {
                self.done.withLock { $0.append(Answer(give: done)) }
            }
        }
        let verifier = GatedVerifier()
        let server = try TestServer { $0.tokens = verifier }
        let socket = try connect(server)
        let behind = #"{"id":3,"op":"set","path":"/behind","value":1}"#
        try sendAtOnce([#"{"id":1,"op":"auth","token":"e30.e30.x"}"#, #"{"id":2,"op":"ping"}"#, "{bad", behind], socket)
        #expect(becomes { verifier.done.withLock { !$0.isEmpty } })
        verifier.done.withLock { $0.first }?.give(.success(.anonymous))
        #expect(try socket.text().hasPrefix(#"{"id":1,"ok""#))
        #expect(try socket.text() == #"{"id":2,"ok":{}}"#)
        #expect(try socket.text().contains("bad_request"))
        #expect(try socket.next() == .close(1008))
        let other = try connect(server)
        try other.sendText(#"{"id":1,"op":"get","path":"/behind"}"#)
        #expect(try other.text() == #"{"id":1,"ok":{"value":null}}"#)
    }

    @Test func deniedObserver_isToldSo() throws {
        let server = try TestServer { $0.rules = .denyAll }
        let socket = try connect(server)
        try socket.sendText(#"{"id":1,"op":"observe","path":"/a"}"#)
        #expect(try Node(json: socket.text()).node(at: "error/code") == "permission_denied")
        try socket.sendText(#"{"id":2,"op":"auth","token":"owner"}"#)
        _ = try socket.text()
        try socket.sendText(#"{"id":3,"op":"observe","path":"/a"}"#)
        #expect(try socket.text() == #"{"id":3,"ok":{"seq":0}}"#)
    }
}
