import Dispatch
import DispatchNet
import Glibc
import HubEngine
import JSONTree
import SecurityRules
import TestHub
import Testing
import TestSupport
import WireProtocols
@testable import HubServer

/// Partly received messages are held within the budget and at a minimum rate; nothing else is affected.
@Suite(.timeLimit(.minutes(30))) struct IncomingTests {
    private static let incoming = #"vigla_memory_held_bytes{purpose="incoming"}"#
    private static let parsing = #"vigla_memory_held_bytes{purpose="parsing"}"#
    private static let ends = #"vigla_connections_closed_total{reason="memory_budget"}"#
    private static let slow = #"vigla_connections_closed_total{reason="request_timeout"}"#

    private func observe(_ server: TestServer, offer: String? = nil) throws -> TestSocket {
        let socket = try TestSocket(port: server.port)
        socket.server = server
        try socket.upgrade("/.observe?ns=test", offer: offer)
        return socket
    }

    /// A client's frame with a zero mask.
    private func frame(
        _ payload: [UInt8], opcode: UInt8 = 1, isFinal: Bool = true, isCompressed: Bool = false, announcing length: Int? = nil
    ) -> [UInt8] {
        var bytes: [UInt8] = []
        WebSocketFrame.appendHeader(.text, payloadLength: length ?? payload.count, mask: WebSocketMask(bigEndian: 0), to: &bytes)
        bytes[0] = (isFinal ? 0x80 : 0) | (isCompressed ? 0x40 : 0) | opcode
        return bytes + payload
    }

    private func blanks(_ count: Int) -> [UInt8] { [UInt8](repeating: 0x20, count: count) }

    /// This many megabytes of blanks, compressed.
    private func bomb(_ megabytes: Int) -> [UInt8] {
        let encoder = WebSocketEncoder(.init(takesOverContext: false))
        let frame = blanks(1_000_000).withUnsafeBytes { encoder.frame(.text, $0) }
        let block = Array(frame[WebSocketFrame.headerLength(payloadLength: frame.count - 4)...]) + [0x00, 0x00, 0xFF, 0xFF]
        return Array(repeating: block, count: megabytes).flatMap { $0 }
    }

    // MARK: WebSocket messages

    @Test func unfinishedMessages_areHeldInSteps_andTheBudgetEndsWhoBringsMore() throws {
        let server = try TestServer { $0.limits.memoryBytes = 1 << 20 }
        let first = try observe(server)
        try first.send(frame(blanks(700_000), announcing: 2_000_000))
        #expect(try server.metric(Self.incoming, becomes: { $0 == 11 << 16 }), "700,000 bytes are 11 steps of 64 KiB")
        let second = try observe(server)
        try second.send(frame(blanks(10_000), announcing: 500_000))
        try second.send(blanks(400_000))
        #expect(try second.closeCode() == 1013)
        // The peer is notified first.
        #expect(try server.metric(Self.ends, becomes: { $0 == 1 }))
        #expect(try server.metric(#"vigla_memory_refusals_total{share="process"}"#) == 1)
        // The first one keeps its memory, and there is room for others again.
        #expect(try server.metric(Self.incoming, becomes: { $0 == 11 << 16 }))
        let third = try observe(server)
        try third.sendText(#"{"id":1,"op":"set","path":"/a","value":"\#(String(repeating: "x", count: 100_000))"}"#)
        #expect(try third.text() == #"{"id":1,"ok":{"seq":1}}"#)
        _ = first
    }

    @Test func oneAddress_hasItsShare_andNoMore() throws {
        let server = try TestServer {
            $0.limits.memoryBytes = 64 << 20
            $0.limits.addressMemoryBytes = 512 << 10
            $0.limits.admission.countsLoopback = true
        }
        let sockets = try (0..<3).map { _ in try observe(server) }
        for socket in sockets.prefix(2) { try socket.send(frame(blanks(200_000), announcing: 2_000_000)) }
        #expect(try server.metric(Self.incoming, becomes: { $0 == 8 << 16 }))
        try sockets[2].send(frame(blanks(100_000), announcing: 2_000_000))
        #expect(try sockets[2].closeCode() == 1013)
        #expect(try server.metric(#"vigla_memory_refusals_total{share="address"}"#) >= 1)
        #expect(try server.metric(#"vigla_memory_refusals_total{share="process"}"#) == 0)
    }

    @Test func chunksOfARealtimeMessage_countLikeOne() throws {
        let server = try TestServer { $0.limits.memoryBytes = 1 << 20 }
        let socket = try server.realtime().socket
        try socket.sendText("3")
        try socket.sendText(String(repeating: " ", count: 500_000))
        #expect(try server.metric(Self.incoming, becomes: { $0 == 8 << 16 }))
        try socket.sendText(String(repeating: " ", count: 600_000))
        #expect(try socket.closeCode() == 1013)
        #expect(try server.metric(Self.incoming, becomes: { $0 == 0 }))
    }

    @Test func compressedMessage_isHeldAsItCame_untilItIsWhole() throws {
        let server = try TestServer { $0.limits.memoryBytes = 4 << 20 }
        let payload = bomb(30)
        let socket = try observe(server, offer: "permessage-deflate")
        try socket.send(frame(payload, isFinal: false, isCompressed: true))
        try socket.send(WebSocketFrame.ping(mask: WebSocketMask(bigEndian: 0)))
        // 30 MB of blanks are about 30 KB compressed.
        let held = (payload.count + 65535) / 65536 * 65536
        #expect(try server.metric(Self.incoming, becomes: { $0 == held }))
        // The complete message does not fit when it is inflated.
        try socket.send(frame([0x00], opcode: 0))
        #expect(try socket.closeCode() == 1013)
        #expect(try server.metric(Self.incoming, becomes: { $0 == 0 }))
    }

    @Test func largeCompressedRequest_isAnswered_inItsOrder() throws {
        let server = try TestServer()
        let socket = try observe(server, offer: "permessage-deflate")
        let encoder = WebSocketEncoder(.init(takesOverContext: false))
        let text = String(repeating: "position ", count: 200_000)
        let large = Array(#"{"id":2,"op":"set","path":"/big","value":"\#(text)"}"#.utf8)
        var bytes = WebSocketFrame.text(Array(#"{"id":1,"op":"set","path":"/a","value":1}"#.utf8), mask: WebSocketMask(bigEndian: 0))
        bytes += large.withUnsafeBytes { encoder.frame(.text, $0, mask: WebSocketMask(bigEndian: 0)) }
        bytes += WebSocketFrame.text(Array(#"{"id":3,"op":"set","path":"/a","value":3}"#.utf8), mask: WebSocketMask(bigEndian: 0))
        bytes += large.withUnsafeBytes { encoder.frame(.text, $0, mask: WebSocketMask(bigEndian: 0)) }
        bytes += WebSocketFrame.text(Array(#"{"id":5,"op":"ping"}"#.utf8), mask: WebSocketMask(bigEndian: 0))
        try socket.send(bytes)
        for (id, rest) in [
            (1, #""ok":{"seq":1}}"#), (2, #""ok":{"seq":2}}"#), (3, #""ok":{"seq":3}}"#), (2, #""ok":{"seq":4}}"#), (5, #""ok":{}}"#),
        ] {
            #expect(try socket.text() == #"{"id":\#(id),"# + rest)
        }
        #expect(try server.metric(Self.incoming, becomes: { $0 == 0 }))
        #expect(try server.metric(Self.parsing, becomes: { $0 == 0 }))
    }

    @Test func largeRealtimeRequests_keepTheirOrder_alsoBehindACredential() throws {
        let server = try TestServer()
        let socket = try server.realtime().socket
        let text = String(repeating: "x", count: 600_000)
        var bytes: [UInt8] = []
        func put(_ number: Int, _ value: String) {
            bytes += WebSocketFrame.text(
                Array(#"{"t":"d","d":{"r":\#(number),"a":"p","b":{"p":"/a","d":\#(value)}}}"#.utf8), mask: WebSocketMask(bigEndian: 0))
        }
        for round in 0..<3 {
            put(4 * round + 1, "1")
            put(4 * round + 2, "\"\(text)\"")
            put(4 * round + 3, "3")
            bytes += WebSocketFrame.text(
                Array(#"{"t":"d","d":{"r":\#(4 * round + 4),"a":"gauth","b":{"cred":"owner"}}}"#.utf8), mask: WebSocketMask(bigEndian: 0))
        }
        // In chunks, too.
        let chunked = Array(#"{"t":"d","d":{"r":13,"a":"p","b":{"p":"/b","d":"\#(text)"}}}"#.utf8)
        bytes += WebSocketFrame.text(Array("2".utf8), mask: WebSocketMask(bigEndian: 0))
        bytes += WebSocketFrame.text(Array(chunked.prefix(300_000)), mask: WebSocketMask(bigEndian: 0))
        bytes += WebSocketFrame.text(Array(chunked.dropFirst(300_000)), mask: WebSocketMask(bigEndian: 0))
        put(14, "1")
        nonisolated(unsafe) let sender = socket  // its sending half; the test reads
        let all = bytes
        DispatchQueue.global().async { try? sender.send(all) }
        for number in 1...14 { #expect(try socket.text().contains(#""r":\#(number),"#)) }
        #expect(try server.metric(Self.incoming, becomes: { $0 == 0 }))
        #expect(try server.metric(Self.parsing, becomes: { $0 == 0 }))
    }

    @Test func largeRequest_ofAPeerThatHasLeft_isCarriedOut_thenItsEnd() throws {
        let server = try TestServer()
        do {
            let socket = try server.realtime().socket
            try socket.sendText(#"{"t":"d","d":{"r":1,"a":"o","b":{"p":"/gone","d":true}}}"#)
            #expect(try socket.text().contains(#""r":1"#))
            try socket.sendText(#"{"t":"d","d":{"r":2,"a":"p","b":{"p":"/big","d":"\#(String(repeating: "x", count: 600_000))"}}}"#)
        }
        let reader = try RESTPeer(server)
        #expect(try becomes { try reader.get("/gone.json") == "200 true" })
        #expect(try reader.get("/big.json").utf8.count == 600_006)
    }

    // MARK: Values

    @Test func values_overTheBudget_areTooBig_andTheConnectionGoesOn() throws {
        let server = try TestServer { $0.limits.memoryBytes = 2 << 20 }
        let ones = "[" + Array(repeating: "1", count: 500_000).joined(separator: ",") + "]"
        let watcher = try observe(server)
        try watcher.sendText(#"{"id":1,"op":"set","path":"/a","value":\#(ones)}"#)
        #expect(try watcher.text().hasPrefix(#"{"id":1,"error":{"code":"too_big","message":"The data takes more memory"#))
        try watcher.sendText(#"{"id":2,"op":"set","path":"/a","value":2}"#)
        #expect(try watcher.text() == #"{"id":2,"ok":{"seq":1}}"#)
        let sdk = try server.realtime().socket
        try sdk.sendText(#"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":\#(ones)}}}"#)
        #expect(try sdk.text().contains(#"{"r":1,"b":{"s":"too_big","d":"The data takes more memory"#))
        try sdk.sendText(#"{"t":"d","d":{"r":2,"a":"m","b":{"p":"/","d":{"b":\#(ones)}}}}"#)
        #expect(try sdk.text().contains(#"{"r":2,"b":{"s":"too_big""#))
        let rest = try RESTPeer(server)
        let refused = try rest.refusal("PUT", "/a.json", ones)
        #expect(refused.hasPrefix("413 The data takes more memory than the hub has left for it (--memory-budget)."), "\(refused)")
        #expect(try rest.get("/a.json") == "200 2", "the connection goes on")
        #expect(try server.metric(Self.parsing, becomes: { $0 == 0 }))
        #expect(try server.metric(Self.incoming, becomes: { $0 == 0 }))
        // A value that fits is written.
        let some = "[" + Array(repeating: "1", count: 30_000).joined(separator: ",") + "]"
        #expect(try rest.put("/a.json?print=silent", some) == "204 ")
    }

    @Test func values_thatWaitForTheDatabase_areHeld_untilTheyAreWritten() throws {
        let server = try TestServer()
        let database = try #require(server.server.hub.openNow("test"))
        let gate = DispatchSemaphore(value: 0)
        database.queue.async { gate.wait() }
        let socket = try observe(server)
        try socket.sendText(#"{"id":1,"op":"set","path":"/a","value":[\#(Array(repeating: "1", count: 400_000).joined(separator: ","))]}"#)
        #expect(try server.metric(Self.parsing, becomes: { $0 > 800_000 && $0 < 2_000_000 }))
        gate.signal()
        #expect(try socket.text() == #"{"id":1,"ok":{"seq":1}}"#)
        #expect(try server.metric(Self.parsing, becomes: { $0 == 0 }))
    }

    @Test func bodies_overTheBudget_areAnswered503_andNothingElseIsLost() throws {
        let server = try TestServer { $0.limits.memoryBytes = 6 << 20 }
        func begin(_ bytes: Int, of length: Int) throws -> RESTPeer {
            let peer = try RESTPeer(server)
            try peer.socket.send(
                "PUT /a.json?ns=test HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(length)\r\n\r\n\"" + String(repeating: "a", count: bytes))
            return peer
        }
        let first = try begin(2_000_000, of: 2_000_012)
        #expect(try server.metric(Self.incoming, becomes: { $0 == 31 << 16 }))
        let second = try begin(4_500_000, of: 5_000_002)
        let answer = try second.socket.response()
        #expect(answer.status == 503 && answer.body.contains("--memory-budget"))
        #expect(try server.metric(Self.incoming, becomes: { $0 == 31 << 16 }))
        try first.socket.send("aaaaaaaaaa\"")
        #expect(try first.socket.response().status == 200)
        #expect(try server.metric(Self.incoming, becomes: { $0 == 0 }))
        #expect(try server.metric(Self.ends) == 1)
    }

    // MARK: Long polling

    @Test func longPolledMessage_isHeld_andEndsItsSessionOverTheBudget() throws {
        let server = try TestServer { $0.limits.memoryBytes = 256 << 10 }
        let peer = try LongPollPeer(server)
        let segment = String(repeating: "ICAg", count: 3000)
        for i in 0..<10 { try peer.poll(segments: ["&seg0=\(i)&ts0=1000&d0=\(segment)"]) }
        #expect(try server.metric(Self.incoming, becomes: { $0 == 2 << 16 }))
        for i in 10..<40 where try server.metric("vigla_long_polling_sessions") == 1 {
            try? peer.poll(segments: ["&seg0=\(i)&ts0=1000&d0=\(segment)"])
        }
        #expect(try server.metric("vigla_long_polling_sessions", becomes: { $0 == 0 }))
        #expect(try server.metric(Self.incoming, becomes: { $0 == 0 }))
    }

    // MARK: Pace

    @Test func message_belowItsRate_ends_whateverStandsBeside_aboveItIsRead() throws {
        let server = try TestServer {
            $0.limits.requestSeconds = 4
            $0.limits.bodyBytesPerSecond = 10
        }
        let deflate = "permessage-deflate"
        let slow: [(TestSocket, [UInt8])] = [
            (try observe(server), frame(blanks(50_000), isFinal: false)),
            (try observe(server), frame(blanks(50_000), announcing: 60_000)),
            (try observe(server), [0x81]),
            (try observe(server, offer: deflate), frame(bomb(1), isFinal: false, isCompressed: true)),
        ]
        for (socket, bytes) in slow { try socket.send(bytes) }
        let sdk = try server.realtime().socket
        try sdk.sendText("999999")
        try sdk.sendText(String(repeating: " ", count: 20_000))
        let steady = try observe(server)
        let request = Array(#"{"id":1,"op":"set","path":"/a","value":"\#(String(repeating: "x", count: 100_000))"}"#.utf8)
        try steady.send(frame([], announcing: request.count))
        var sent = 0
        while sent < request.count - 100, try server.metric(Self.slow) < 5 {
            try steady.send(Array(request[sent..<sent + 40]))
            sent += 40
            // Keep-alives and other messages do not count for the slow message.
            try? sdk.sendText("")
            for index in [0, 3] { try? slow[index].0.send(WebSocketFrame.ping(mask: WebSocketMask(bigEndian: 0))) }
            usleep(20_000)
        }
        #expect(try server.metric(Self.slow) == 5)
        for (socket, _) in slow { #expect(try socket.closeCode() == 1008) }
        try steady.send(Array(request[sent...]))
        #expect(try steady.text() == #"{"id":1,"ok":{"seq":1}}"#)
    }

    // MARK: What no rule allows

    @Test func largeWrite_thatNoRuleAllows_isRefused_beforeItIsRead() throws {
        let rules = try RuleSet(
            parsing: #"{"rules":{"open":{".write":true},"mine":{"$u":{".write":"auth.uid == $u"}},"late":{".write":"data.exists()"}}}"#)
        let server = try TestServer { $0.rules = rules }
        // A namespace is opened by the first complete request.
        #expect(try RESTPeer(server).put("/open/a.json", "1") == "200 1")
        func head(_ target: String, _ fields: String = "Content-Length: 1000002") throws -> TestSocket {
            let socket = try TestSocket(port: server.port)
            try socket.send("PUT \(target)?ns=test HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n\r\n")
            return socket
        }
        for target in ["/shut.json", "/mine/ana.json"] {
            let answer = try head(target).response()
            #expect(answer.status == 401 && answer.body == "{\n  \"error\" : \"Permission denied\"\n}\n", "from the head alone")
            #expect(try head(target, "Expect: 100-continue\r\nContent-Length: 1000002").response().status == 401)
            let chunked = try head(target, "Transfer-Encoding: chunked")
            try chunked.send("11170\r\n\"" + String(repeating: "a", count: 70_000 - 1) + "\r\n")
            #expect(try chunked.response().status == 401)
        }
        // A body is read if data could allow the write, if a rule allows it, or if it is small.
        let body = "\"" + String(repeating: "a", count: 1_000_000) + "\""
        for (target, status) in [("/late.json", 401), ("/open/a.json", 200)] {
            let socket = try head(target)
            try socket.send(body)
            #expect(try socket.response().status == status)
        }
        let peer = try RESTPeer(server)
        #expect(try peer.put("/shut.json", "1") == "401 {\n  \"error\" : \"Permission denied\"\n}\n")
        #expect(try RESTPeer.owner(server).put("/shut.json?print=silent", body) == "204 ")
        // The places of an update are in its body: a value that no rule allows is not parsed.
        let ones = "[" + Array(repeating: "1", count: 400_000).joined(separator: ",") + "]"
        #expect(try peer.refusal("PATCH", "/.json", #"{"open/a":1,"shut":\#(ones)}"#) == "401 Permission denied")
        #expect(try peer.patch("/.json?print=silent", #"{"open/a":\#(ones),"open/b":2}"#) == "204 ")
    }

    @Test func largeRequestsOnSockets_thatNoRuleAllows_areDenied_withoutTheirValues() throws {
        let rules = try RuleSet(parsing: #"{"rules":{"open":{".write":true}}}"#)
        // The budget is too small for the values, but a denied client still gets the denial.
        let server = try TestServer {
            $0.rules = rules
            $0.limits.memoryBytes = 2 << 20
        }
        let ones = "[" + Array(repeating: "1", count: 600_000).joined(separator: ",") + "]"
        // The memory of a message is freed in the background, after its answer; until then the next one would be refused.
        func isFreed() throws -> Bool {
            try server.metric(Self.parsing, becomes: { $0 == 0 }) && server.metric(Self.incoming, becomes: { $0 == 0 })
        }
        let sdk = try server.realtime().socket
        for (number, body) in [
            (1, #""p","b":{"p":"/shut","d":\#(ones)}"#), (2, #""m","b":{"p":"/","d":{"open/a":1,"shut/b":\#(ones)}}"#),
            (3, #""o","b":{"p":"/shut","d":\#(ones)}"#),
        ] {
            try sdk.sendText(#"{"t":"d","d":{"r":\#(number),"a":\#(body)}}"#)
            #expect(try sdk.text().contains(#"{"r":\#(number),"b":{"s":"permission_denied","d":"Permission denied"}}"#))
            #expect(try isFreed())
        }
        try sdk.sendText(#"{"t":"d","d":{"r":4,"a":"p","b":{"p":"/open","d":\#(ones)}}}"#)
        #expect(try sdk.text().contains(#"{"r":4,"b":{"s":"too_big""#), "what a rule could allow is read")
        #expect(try isFreed())
        try sdk.sendText(#"{"t":"d","d":{"r":5,"a":"gauth","b":{"cred":"owner"}}}"#)
        _ = try sdk.text()
        try sdk.sendText(#"{"t":"d","d":{"r":6,"a":"p","b":{"p":"/shut","d":\#(ones)}}}"#)
        #expect(try sdk.text().contains(#"{"r":6,"b":{"s":"too_big""#), "no rule is asked for an administrator")
        #expect(try isFreed())
        let watcher = try observe(server)
        try watcher.sendText(#"{"id":1,"op":"set","path":"/shut","value":\#(ones)}"#)
        #expect(try watcher.text() == #"{"id":1,"error":{"code":"permission_denied","message":"Permission denied"}}"#)
        #expect(try isFreed())
        try watcher.sendText(#"{"id":2,"op":"update","path":"/shut","value":{"a":\#(ones)}}"#)
        #expect(try watcher.text() == #"{"id":2,"error":{"code":"permission_denied","message":"Permission denied"}}"#)
    }
}
