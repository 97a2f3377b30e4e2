import Dispatch
import HubServer
import JSONTree
import TestHub
import Testing
import TestSupport
import WireProtocols

/// The contract's checks of `/.lp`, over real sockets on two loops (protocol-rtdb §9, 19–30).
@Suite(.timeLimit(.minutes(30))) struct LongPollTests {
    private static func put(_ number: Int, _ path: String, _ json: String) -> String {
        #"{"t":"d","d":{"r":\#(number),"a":"p","b":{"p":"\#(path)","d":\#(json)}}}"#
    }
    private static func listen(_ number: Int, _ path: String) -> String {
        #"{"t":"d","d":{"r":\#(number),"a":"q","b":{"p":"\#(path)","h":""}}}"#
    }
    private static func onDisconnect(_ number: Int, _ path: String, _ json: String) -> String {
        #"{"t":"d","d":{"r":\#(number),"a":"o","b":{"p":"\#(path)","d":\#(json)}}}"#
    }
    private static func control(_ type: String) -> String { #"{"t":"c","d":{"t":"\#(type)","d":{}}}"# }

    /// A WebSocket client that listens at a place and has got the answer.
    private static func watcher(_ server: TestServer, _ path: String) throws -> TestSocket {
        let (socket, _) = try server.realtime()
        try socket.sendText(listen(1, path))
        try #require(try socket.text().contains("\"r\":1"))
        return socket
    }

    // MARK: A conversation

    @Test func checklist_019_020_conversation_isAnsweredInOrder() throws {
        let server = try TestServer()
        let peer = try LongPollPeer(server)
        #expect(peer.hello.node(at: "d/t") == "h" && peer.hello.node(at: "d/d/h") == "localhost:9000" && peer.session.utf8.count == 32)
        try peer.poll(Self.listen(1, "/a"))
        #expect(try peer.messages(1)[0].node(at: "d/b/s") == "ok")
        try peer.poll(Self.put(2, "/a/x", "\"</script>\u{2028}ä\""), Self.put(3, "/a/y", "2"))
        let heard = try peer.messages(5)
        #expect(heard[1].node(at: "d/b") == ["p": "a/x", "d": "</script>\u{2028}ä"])
        #expect(heard[2].node(at: "d/r") == 2)
        #expect(heard[3].node(at: "d/b") == ["p": "a/y", "d": 2])
        #expect(heard[4].node(at: "d/r") == 3 && heard.count == 5)
        // Writes of others arrive, too.
        let (other, _) = try server.realtime()
        try other.sendText(Self.put(1, "/a/z", "3"))
        #expect(try peer.messages(6)[5].node(at: "d/b") == ["p": "a/z", "d": 3])
    }

    @Test func messageOverManyChunks_comesWhole() throws {
        let peer = try LongPollPeer(TestServer())
        let text = String(repeating: "ä\u{1F600}", count: 5000)
        let segments = peer.segments(Self.put(1, "/big", "\"\(text)\""))
        try #require(segments.count > 15)
        for segment in segments { try peer.poll(segments: [segment]) }
        try peer.poll(#"{"t":"d","d":{"r":2,"a":"g","b":{"p":"/big","q":{}}}}"#)
        #expect(try peer.messages(2)[1].node(at: "d/b/d") == Node.string(Text(text)))
    }

    @Test func checklist_021_newerPoll_releasesTheOlder() throws {
        let peer = try LongPollPeer(TestServer())
        try peer.poll()
        // Returns when the first poll was answered; nothing else could have caused that.
        try peer.poll()
        #expect(peer.heard.isEmpty && peer.closed == nil)
    }

    @Test func checklist_022_heldPoll_isAnsweredAfterItsTime() throws {
        let server = try TestServer {
            $0.limits.longPoll.holdSeconds = 2
            $0.limits.requestSeconds = 1
        }
        let peer = try LongPollPeer(server)
        // The request deadline does not close a connection that waits for its answer.
        try peer.wait()
        #expect(peer.heard.isEmpty && peer.closed == nil)
        try peer.poll(Self.put(1, "/a", "1"))
        #expect(try peer.messages(1)[0].node(at: "d/r") == 1)
    }

    @Test func checklist_023_024_segmentsInTheWrongOrder_areReassembled() throws {
        let server = try TestServer()
        let watcher = try Self.watcher(server, "/a")
        let peer = try LongPollPeer(server)
        let text = String(repeating: "0123456789", count: 1000)
        let segments = peer.segments(Self.put(1, "/a", "\"\(text)\"")) + peer.segments(Self.put(2, "/a", "2"))
        for segment in segments.reversed() { try peer.poll(segments: [segment]) }
        #expect(try peer.messages(2).map { $0.node(at: "d/r") } == [1, 2])
        #expect(try watcher.text() == #"{"t":"d","d":{"a":"d","b":{"p":"a","d":"\#(text)"}}}"#)
        #expect(try watcher.text() == #"{"t":"d","d":{"a":"d","b":{"p":"a","d":2}}}"#)
    }

    @Test func heldPoll_holdsTheLaterAnswersOfItsConnection() throws {
        let server = try TestServer()
        let peer = try LongPollPeer(server)
        let socket = try TestSocket(port: server.port)
        let get = { (target: String) in "GET \(target) HTTP/1.1\r\nHost: localhost:9000\r\n\r\n" }
        try socket.send(get("/.lp?\(peer.key)&ser=5") + get("/.health") + get("/.lp?\(peer.key)&ser=6") + get("/.health"))
        let (other, _) = try server.realtime()
        try other.sendText(Self.listen(1, "/x"))
        try #require(try other.text().contains("ok"))
        // Answers the first poll; the connection continues with the second one.
        try peer.poll()
        #expect(try socket.response().body.hasPrefix("pRTLPCB(1,"))
        #expect(try socket.response().body.contains("status"))
        // Of the serials 6 and 1001 the older one arrived later: both are answered.
        #expect(try socket.response().body.hasPrefix("pRTLPCB("))
        #expect(try socket.response().body.contains("status"))
    }

    // MARK: Keys and ends

    @Test func checklist_030_wrongPassword_isRefusedAndChangesNothing() throws {
        let server = try TestServer()
        let peer = try LongPollPeer(server)
        let stranger = try TestSocket(port: server.port)
        let wrong = String(peer.key.dropLast()) + (peer.key.hasSuffix("A") ? "B" : "A")
        #expect(try stranger.get("/.lp?\(wrong)&ser=9").body == "pLPCommand('close');")
        #expect(try stranger.get("/.lp?id=1&pw=2&ser=9").body == "pLPCommand('close');")
        #expect(try stranger.get("/.lp?disconn=t&\(wrong)").status == 403)
        #expect(try stranger.get("/.lp?dframe=t&\(wrong)").status == 403)
        #expect(try stranger.get("/.lp?\(peer.key)&seg0=x&ts0=1&d0=e30.").status == 400)
        try peer.poll(Self.put(1, "/a", "1"))
        #expect(try peer.messages(1)[0].node(at: "d/r") == 1)
    }

    @Test func checklist_025_026_leaving_firesOnDisconnectAtOnce() throws {
        let server = try TestServer()
        let watcher = try Self.watcher(server, "/bye")
        let peer = try LongPollPeer(server)
        try peer.poll(Self.onDisconnect(1, "/bye", "true"))
        _ = try peer.messages(1)
        try peer.poll()
        let page = try TestSocket(port: server.port)
        let frame = try page.get("/.lp?dframe=t&\(peer.key)&ns=test")
        #expect(frame.status == 200 && frame.head.contains("text/html") && frame.body.contains("/.lp?disconn=t&\(peer.key)"))
        #expect(try page.get("/.lp?disconn=t&\(peer.key)").status == 200)
        #expect(try watcher.text() == #"{"t":"d","d":{"a":"d","b":{"p":"bye","d":true}}}"#)
        try peer.wait()
        #expect(peer.closed == .some(nil))
    }

    @Test func silentClient_isGoneAfterItsTime() throws {
        let server = try TestServer { $0.limits.longPoll.silenceSeconds = 1 }
        let watcher = try Self.watcher(server, "/bye")
        let peer = try LongPollPeer(server)
        try peer.poll(Self.onDisconnect(1, "/bye", "true"))
        _ = try peer.messages(1)
        #expect(try watcher.text() == #"{"t":"d","d":{"a":"d","b":{"p":"bye","d":true}}}"#)
        try peer.wait()
        #expect(peer.closed == .some(nil))
    }

    @Test func pollThatBringsARequest_takesItsAnswerAlongWithOlderNews() throws {
        let server = try TestServer {
            $0.loops = 1
            $0.limits.longPoll.answerMs = 15_000
        }
        let peer = try LongPollPeer(server)
        try peer.poll(Self.listen(1, "/a"))
        let heard = try peer.messages(1).count
        try peer.hold()
        try Peer(server).put("/a", "1")
        try peer.wait()
        #expect(peer.heard.count == heard + 1)
        // There is no poll for this message; its writer's answer leaves after it in the same loop.
        try Peer(server).put("/a", "2")
        try peer.poll(Self.put(2, "/b", "3"))
        try peer.wait()
        #expect(peer.heard.dropFirst(heard + 1).map { $0.node(at: "d/r") } == [.null, 2], "the news and the answer, by one poll")
    }

    @Test func malformedMessage_endsTheSession() throws {
        let peer = try LongPollPeer(TestServer())
        try peer.poll("{\"t\":")
        try peer.wait()
        #expect(peer.closed == .some(nil))
    }

    @Test func checklist_015_newPollingSession_replacesTheOld() throws {
        let server = try TestServer()
        let watcher = try Self.watcher(server, "/bye")
        let old = try LongPollPeer(server)
        try old.poll(Self.onDisconnect(1, "/bye", "true"))
        _ = try old.messages(1)
        try old.poll()
        let new = try LongPollPeer(server, query: "&ls=\(old.session)")
        #expect(try watcher.text().contains("\"bye\""))
        try old.wait()
        #expect(old.closed == .some(nil) && new.closed == nil)
    }

    @Test func sessions_haveALimit() throws {
        let server = try TestServer { $0.limits.longPoll.sessions = 1 }
        let first = try LongPollPeer(server)
        let socket = try TestSocket(port: server.port)
        #expect(try socket.get("/.lp?start=t&ser=1&v=5&ns=test").status == 503)
        #expect(try socket.get("/.lp?disconn=t&\(first.key)").status == 200)
        try first.wait()
        #expect(try socket.get("/.lp?start=t&ser=1&v=5&ns=test").status == 200)
    }

    @Test(arguments: [(1000, true), (1200, false)])
    func messagesForTheNextPoll_haveALimit(_ length: Int, _ fits: Bool) throws {
        let text = String(repeating: "x", count: length)
        let server = try TestServer { $0.limits.longPoll.queuedBytes = 1150 }
        let watcher = try Self.watcher(server, "/bye")
        let peer = try LongPollPeer(server)
        try peer.poll(Self.listen(1, "/a"), Self.onDisconnect(2, "/bye", "true"))
        _ = try peer.messages(2)
        let (other, _) = try server.realtime()
        try other.sendText(Self.put(1, "/a", "\"\(text)\""))
        if fits {
            #expect(try peer.messages(3)[2].node(at: "d/b/d") == Node.string(Text(text)))
        } else {
            #expect(try watcher.text().contains("bye"))
            try peer.wait()
            #expect(peer.closed == .some(nil))
        }
    }

    @Test func stoppingServer_tellsHeldPolls() throws {
        let server = try TestServer()
        let peer = try LongPollPeer(server)
        try peer.poll(Self.put(1, "/a", "1"))
        _ = try peer.messages(1)
        try peer.hold()
        let stopped = DispatchSemaphore(value: 0)
        server.server.stop { stopped.signal() }
        try peer.wait()
        #expect(peer.closed == .some(nil))
        stopped.wait()
    }

    // MARK: The move to a WebSocket

    @Test(arguments: 0..<4) func checklist_028_upgrade_losesAndDoublesNothing(_ round: Int) throws {
        let server = try TestServer()
        let peer = try LongPollPeer(server)
        try peer.poll(Self.listen(1, "/feed"), Self.listen(2, "/mine"))
        _ = try peer.messages(2)
        // Loops take sockets in turn: shift which of them get the session and the WebSocket.
        let spacers = try (0..<round).map { _ in try TestSocket(port: server.port) }
        let (writer, _) = try server.realtime()
        var fed = 0
        func feed(_ count: Int) throws {
            for _ in 0..<count {
                try writer.sendText(Self.put(fed, "/feed", "\(fed)"))
                fed += 1
            }
        }
        try feed(40)
        try peer.poll(Self.put(10, "/mine", "10"))
        let socket = try TestSocket(port: server.port)
        try socket.upgrade("/.ws?v=5&ns=test&s=\(peer.session)")
        #expect(try socket.text() == Self.control("a"))
        try feed(40)
        for _ in 0..<2 {
            try socket.sendText(Self.control("p"))
            #expect(try socket.text() == #"{"t":"c","d":{"t":"o","d":null}}"#)
        }
        // The last polled segments are in flight while `n`, and the client's messages after it, have arrived already.
        let late = peer.segments(Self.put(11, "/mine", "\"\(String(repeating: "x", count: 4000))\""))
        let end = peer.segments(Self.control("n"))
        try socket.sendText(Self.control("a"))
        try socket.sendText(Self.put(12, "/mine", "12"))
        let chunked = Self.put(13, "/mine", "13")
        try socket.sendText("2")
        try socket.sendText(String(chunked.prefix(20)))
        try socket.sendText(String(chunked.dropFirst(20)))
        // The answer confirms that the session has everything by now.
        try socket.sendText(Self.control("p"))
        #expect(try socket.text() == #"{"t":"c","d":{"t":"o","d":null}}"#)
        try feed(40)
        try peer.poll(segments: end)
        try feed(40)
        for segment in late { try peer.poll(segments: [segment]) }
        try feed(40)
        while peer.closed == nil { try peer.wait() }
        #expect(peer.heard.last?.node(at: "d/t") == "n" && peer.closed.flatMap { $0 } != nil)
        try socket.sendText(Self.put(14, "/mine", "14"))
        var heard = peer.heard.dropLast()
        while !heard.contains(where: { $0.node(at: "d/r") == 14 }) || heard.filter({ $0.node(at: "d/b/p") == "feed" }).count < fed {
            heard.append(try Node(json: socket.text()))
        }
        let feedHeard = heard.filter { $0.node(at: "d/b/p") == "feed" }.map { $0.node(at: "d/b/d") }
        #expect(feedHeard == (0..<fed).map { .int(Int64($0)) })
        let mine = heard.filter { $0.node(at: "d/b/p") == "mine" }.map { $0.node(at: "d/b/d") }
        #expect(mine == [10, .string(Text(String(repeating: "x", count: 4000))), 12, 13, 14])
        #expect(heard.filter { $0.node(at: "d/r").exists }.map { $0.node(at: "d/r") } == [1, 2, 10, 11, 12, 13, 14])
        withExtendedLifetime(spacers) {}
    }

    /// Another client writes continuously; this one's requests are cut, shuffled and spread over polls and the socket.
    @Test(arguments: 0..<8) func upgrade_underLoad_losesAndDoublesNothing(_ seed: UInt64) throws {
        var random = SeededRandom(seed)
        let server = try TestServer()
        let peer = try LongPollPeer(server)
        try peer.poll(Self.listen(1, "/feed"), Self.listen(2, "/mine"))
        _ = try peer.messages(2)
        let spacers = try (0..<Int.random(in: 0...3, using: &random)).map { _ in try TestSocket(port: server.port) }
        let fed = 600
        let batches = Array(repeating: 0, count: fed / 10).map { _ in Int.random(in: 1...20, using: &random) }
        nonisolated(unsafe) let writer = try server.realtime().socket
        let isFed = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            var next = 0
            for batch in batches + [fed] {
                let end = min(fed, next + batch)
                for number in next..<end { try? writer.sendText(Self.put(number, "/feed", "\(number)")) }
                for _ in next..<end { _ = try? writer.text() }
                next = end
            }
            isFed.signal()
        }
        var mine = 0
        func put() -> String {
            mine += 1
            return Self.put(10 + mine, "/mine", "\"\(mine)\(String(repeating: "x", count: Int.random(in: 0...300, using: &random)))\"")
        }
        func pollInAnyOrder(_ segments: [String]) throws {
            var left = segments.shuffled(using: &random)
            while !left.isEmpty {
                let count = min(left.count, Int.random(in: 1...4, using: &random))
                try peer.poll(segments: Array(left.prefix(count)))
                left.removeFirst(count)
            }
        }
        func segments(_ messages: Int) -> [String] {
            (0..<messages).flatMap { _ in peer.segments(put(), pieceLength: Int.random(in: 20...400, using: &random)) }
        }
        for _ in 0..<Int.random(in: 0...6, using: &random) { try pollInAnyOrder(segments(Int.random(in: 0...5, using: &random))) }
        let socket = try TestSocket(port: server.port)
        try socket.upgrade("/.ws?v=5&ns=test&s=\(peer.session)")
        try #require(try socket.text() == Self.control("a"))
        try socket.sendText(Self.control("a"))
        var last = segments(Int.random(in: 0...8, using: &random)) + peer.segments(Self.control("n"))
        // Messages on the socket wait for all of them.
        let early = Int.random(in: 0...last.count, using: &random)
        last.shuffle(using: &random)
        try pollInAnyOrder(Array(last.prefix(early)))
        for _ in 0..<Int.random(in: 0...10, using: &random) {
            try socket.sendText(Bool.random(using: &random) ? put() : Self.control("p"))
        }
        try pollInAnyOrder(Array(last.dropFirst(early)))
        for _ in 0..<Int.random(in: 0...10, using: &random) { try socket.sendText(put()) }
        while peer.closed == nil { try peer.wait() }
        #expect(peer.heard.last?.node(at: "d/t") == "n" && peer.closed.flatMap { $0 } != nil)
        try socket.sendText(put())
        isFed.wait()
        var heard = peer.heard.dropLast().filter { $0.node(at: "t") == "d" }
        while heard.count < 2 + 2 * mine + fed {
            let message = try Node(json: socket.text())
            if message.node(at: "t") == "d" { heard.append(message) }
        }
        let feedHeard = heard.filter { $0.node(at: "d/b/p") == "feed" }.map { $0.node(at: "d/b/d") }
        #expect(feedHeard == (0..<fed).map { .int(Int64($0)) })
        #expect(heard.filter { $0.node(at: "d/b/p") == "mine" }.count == mine)
        #expect(heard.filter { $0.node(at: "d/r").exists }.map { $0.node(at: "d/r") } == [1, 2] + (0..<mine).map { .int(Int64(11 + $0)) })
        withExtendedLifetime(spacers) {}
    }

    @Test func stoppingServer_tellsMovedSession() throws {
        let server = try TestServer()
        let peer = try LongPollPeer(server)
        let socket = try Self.moved(peer, server)
        let stopped = DispatchSemaphore(value: 0)
        server.server.stop { stopped.signal() }
        #expect(try socket.closeCode() == 1001)
        stopped.wait()
    }

    /// A session that has moved to the returned socket.
    private static func moved(_ peer: LongPollPeer, _ server: TestServer) throws -> TestSocket {
        let socket = try TestSocket(port: server.port)
        try socket.upgrade("/.ws?v=5&ns=test&s=\(peer.session)")
        try #require(try socket.text() == control("a"))
        try socket.sendText(control("a"))
        try peer.poll(control("n"))
        while peer.closed == nil { try peer.wait() }
        return socket
    }

    @Test func checklist_027_leavingAfterTheMove_isIgnored() throws {
        let server = try TestServer()
        let watcher = try Self.watcher(server, "/bye")
        let peer = try LongPollPeer(server)
        try peer.poll(Self.onDisconnect(1, "/bye", "true"))
        _ = try peer.messages(1)
        var socket: TestSocket? = try Self.moved(peer, server)
        #expect(try TestSocket(port: server.port).get("/.lp?disconn=t&\(peer.key)").status == 200)
        try socket?.sendText(Self.put(2, "/a", "1"))
        #expect(try socket?.text() == #"{"t":"d","d":{"r":2,"b":{"s":"ok","d":""}}}"#)
        socket = nil
        #expect(try watcher.text() == #"{"t":"d","d":{"a":"d","b":{"p":"bye","d":true}}}"#)
    }

    @Test func movedSession_needsNoPolls() throws {
        let server = try TestServer { $0.limits.longPoll.silenceSeconds = 1 }
        let peer = try LongPollPeer(server)
        let socket = try Self.moved(peer, server)
        // A session that stays on polls without any message ends by the same limit. By then this one would have, too.
        let watcher = try Self.watcher(server, "/bye")
        let silent = try LongPollPeer(server)
        try silent.poll(Self.onDisconnect(1, "/bye", "true"))
        _ = try silent.messages(1)
        #expect(try watcher.text().contains("bye"))
        try socket.sendText(Self.put(2, "/a", "1"))
        #expect(try socket.text() == #"{"t":"d","d":{"r":2,"b":{"s":"ok","d":""}}}"#)
    }

    @Test func checklist_029_upgradeOfAnUnknownSession_isSentAwayAndPollingGoesOn() throws {
        let server = try TestServer()
        let peer = try LongPollPeer(server)
        for target in ["/.ws?v=5&ns=test&s=nobody", "/.ws?v=5&ns=other&s=\(peer.session)"] {
            let socket = try TestSocket(port: server.port)
            try socket.upgrade(target)
            #expect(try socket.text() == #"{"t":"c","d":{"t":"r","d":"localhost:9000"}}"#)
            #expect(try socket.closeCode() == 1000)
        }
        try peer.poll(Self.put(1, "/a", "1"))
        #expect(try peer.messages(1)[0].node(at: "d/r") == 1)
    }

    @Test func secondUpgrade_isSentAwayAndTheFirstGoesOn() throws {
        let server = try TestServer()
        let peer = try LongPollPeer(server)
        let first = try TestSocket(port: server.port)
        try first.upgrade("/.ws?v=5&ns=test&s=\(peer.session)")
        #expect(try first.text() == Self.control("a"))
        let second = try TestSocket(port: server.port)
        try second.upgrade("/.ws?v=5&ns=test&s=\(peer.session)")
        #expect(try second.text().contains("\"r\""))
        try first.sendText(Self.control("p"))
        #expect(try first.text().contains("\"o\""))
    }

    @Test func socketLostBeforeTheMove_leavesPolling() throws {
        let server = try TestServer()
        let peer = try LongPollPeer(server)
        do {
            let socket = try TestSocket(port: server.port)
            try socket.upgrade("/.ws?v=5&ns=test&s=\(peer.session)")
            #expect(try socket.text() == Self.control("a"))
        }
        try peer.poll(Self.put(1, "/a", "1"))
        #expect(try peer.messages(1)[0].node(at: "d/r") == 1)
    }
}
