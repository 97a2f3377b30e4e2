import DispatchNet
import Glibc
import HubServer
import JSONTree
import TestHub
import Testing
import WireProtocols

/// Bodies and answers too large for one buffer, and the limits of both.
@Suite(.timeLimit(.minutes(30))) struct LargeBodyTests {
    private static let tooBig = "413 Data to write exceeds the maximum size that can be modified with a single request."

    @Test func body_overTheLimit_isRefused_oneWithinIsNot() throws {
        let server = try TestServer { $0.limits.http.bodyBytes = 2_000_000 }
        let text = String(repeating: "a", count: 1_999_998)
        #expect(try RESTPeer(server).put("/a.json?print=silent", "\"\(text)\"") == "204 ")
        #expect(try RESTPeer(server).refusal("PUT", "/a.json", "\"\(text)b\"") == Self.tooBig)
        let chunked = try RESTPeer(server)
        try chunked.socket.send(
            "PUT /a.json?ns=test HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1e8480\r\n\"\(text)\"\r\n1\r\n")
        #expect(try chunked.socket.response().status == 413)
        let waiting = try RESTPeer(server)
        try waiting.socket.send("PUT /a.json?ns=test HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2000001\r\n\r\n")
        #expect(try waiting.socket.response().status == 413, "before the body is sent")
    }

    @Test func body_toAnAddressThatTakesNone_hasALimitOfItsOwn() throws {
        let server = try TestServer { $0.limits.http.smallBodyBytes = 1000 }
        for (length, status) in [(1000, 200), (1001, 413)] {
            let socket = try TestSocket(port: server.port)
            try socket.send("GET /.health HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(length)\r\n\r\n" + String(repeating: "a", count: length))
            #expect(try socket.response().status == status)
        }
    }

    /// `{"k0":{"text":"…","list":[…]},…}` and its JSON.
    private func tree(_ count: Int) throws -> String {
        var writer = JSONWriter()
        writer.raw("{")
        for i in 0..<count {
            if i > 0 { writer.raw(",") }
            writer.string("k\(100_000 + i)")
            writer.raw(":{\"list\":[\(i),null,true],\"text\":\"é\\n\(String(repeating: "x", count: i % 60))\"}".utf8)
        }
        writer.raw("}")
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    @Test func largeAnswer_comesInPieces_andIsTheTreeAsItWas() throws {
        let server = try TestServer()
        let (peer, slow) = (try RESTPeer(server), try RESTPeer(server))
        let json = try tree(12_000)
        #expect(try peer.line("PUT", "/big.json", json) == "200 \(json)", "the echo is as large")
        try slow.send("GET", "/big.json")
        #expect(try slow.socket.head().head.contains("Transfer-Encoding: chunked"))
        // The other request has started its answer, and others write.
        #expect(try peer.line("DELETE", "/big.json") == "200 null")
        var body = ""
        while let piece = try slow.socket.chunk() { body += piece }
        #expect(body == json)
        #expect(try slow.get("/big.json") == "200 null", "the connection goes on")
        #expect(try peer.patch("/big.json", json) == "200 \(json)")
        let etag = try #require(try peer.ask("GET", "/big.json", "", ["X-Firebase-ETag: true"]).field("ETag"))
        #expect(try peer.line("GET", "/big.json", "", ["if-none-match: \(etag)"]) == "304 ")
        #expect(try peer.ask("HEAD", "/big.json").status == 200)
        #expect(try peer.get("/big.json?callback=f&shallow=true").hasPrefix("200 f({\"k100000\":true,"))
        let script = try peer.ask("GET", "/big.json?callback=f")
        #expect(script.body == "f(\(json))")
        try peer.socket.send("GET /big.json?ns=test HTTP/1.0\r\n\r\n")
        #expect(try peer.socket.rest().hasSuffix("\r\n\r\n" + json), "without chunks for HTTP/1.0")
    }

    @Test func largeAnswer_overTheLimit_isRefused_oneWithinIsNot() throws {
        let json = "[\"" + String(repeating: "x", count: 400_000) + "\"]"
        for (limit, isAllowed) in [(400_100, true), (399_000, false)] {
            let peer = try RESTPeer(TestServer { $0.limits.restReadBytes = limit })
            #expect(try peer.put("/a.json?print=silent", json) == "204 ")
            let answer = try peer.ask("GET", "/a.json")
            #expect(answer.status == (isAllowed ? 200 : 400))
            if !isAllowed { #expect(answer.body.contains("The specified payload is too large, please request a location with less data.")) }
            #expect(try peer.get("/a.json?shallow=true") == #"200 {"0":true}"#)
        }
    }

    @Test func sizeOfAnAnswer_isTold_nullAboveWhatWasAskedForAndAboveTheLimit() throws {
        let peer = try RESTPeer(TestServer { $0.limits.restReadBytes = 400_010 })
        let text = String(repeating: "x", count: 400_000)
        #expect(try peer.put("/a.json?print=silent", #"{"b":"\#(text)","c":{"d":1}}"#) == "204 ")
        #expect(try peer.get("/a/b.json?sizeUpTo=500000") == "200 400002", "counted on another thread")
        #expect(try peer.get("/a/b.json?sizeUpTo=400002") == "200 400002")
        #expect(try peer.get("/a/b.json?sizeUpTo=400001") == "200 null")
        #expect(try peer.get("/a/b.json?sizeUpTo=9") == "200 null")
        #expect(try peer.get("/a/c.json?sizeUpTo=8") == "200 8")
        #expect(try peer.get("/a/c.json?sizeUpTo=7") == "200 null")
        #expect(try peer.get("/a.json?sizeUpTo=500000") == "200 null", "with the keys it is more than one answer may have")
        #expect(try peer.get("/a.json?sizeUpTo=99999999999999999999") == "200 null", "where the content itself is refused")
        #expect(try peer.get(#"/a.json?orderBy="$key"&startAt="c"&sizeUpTo=131072"#) == "200 15", "of what a query brings")
        #expect(try peer.get("/none.json?sizeUpTo=131072") == "200 4")
        for wrong in ["sizeUpTo=0", "sizeUpTo=x", "sizeUpTo=5&shallow=true"] {
            #expect(try peer.ask("GET", "/a.json?\(wrong)").status == 400, "\(wrong)")
        }
    }

    @Test func largeAnswer_thatNobodyTakes_holdsAPieceAtMost() throws {
        let server = try TestServer { $0.limits.net.sendBufferBytes = 16 << 10 }
        #expect(try RESTPeer(server).put("/big.json?print=silent", try tree(30_000)) == "204 ")
        let slow = try TestSocket(port: server.port, receiveBuffer: 4096)
        try slow.send("GET /big.json?ns=test HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(try slow.head().status == 200)
        #expect(try server.metric("vigla_backlog_bytes", becomes: { $0 > 0 }))
        #expect(try server.metric("vigla_backlog_bytes") < 600_000)
        #expect(try RESTPeer(server).put("/other.json", "1") == "200 1", "nobody waits for it")
    }

    private static let pinned = #"vigla_memory_held_bytes{purpose="pinned"}"#

    private static func slow(_ server: TestServer, _ path: String) throws -> TestSocket {
        let socket = try TestSocket(port: server.port, receiveBuffer: 4096)
        try socket.send("GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return socket
    }

    @Test func largeAnswers_ofOneVersion_countOnce_thoseOfEachVersionAndAreRefusedOverHalfTheBudget() throws {
        let server = try TestServer {
            $0.limits.net.sendBufferBytes = 16 << 10
            $0.limits.memoryBytes = 64 << 20
        }
        func text(_ letter: String) -> String {
            "[" + Array(repeating: "\"\(String(repeating: letter, count: 100_000))\"", count: 100).joined(separator: ",") + "]"
        }
        let writer = try RESTPeer(server)
        var sockets: [TestSocket] = []
        for (number, letter) in ["x", "y", "z"].enumerated() {
            #expect(try writer.put("/big.json?print=silent", text(letter)) == "204 ")
            for _ in 0..<3 {
                sockets.append(try Self.slow(server, "/big.json?ns=test"))
                #expect(try sockets[sockets.count - 1].head().status == 200)
            }
            let held = try server.metric(Self.pinned)
            let expected = (number + 1) * 10_030_000
            #expect(held > expected - 150_000 && held < expected + 150_000, "\(number + 1) versions: \(held)")
        }
        #expect(try writer.put("/big.json?print=silent", text("w")) == "204 ", "there is room for writes")
        let refused = try Self.slow(server, "/big.json?ns=test").response()
        #expect(refused.status == 503 && refused.body.contains("memory for requests under way"))
        #expect(try writer.get("/other.json") == "200 null", "small answers hold nothing")
        // Once read, or abandoned, it holds no memory any more.
        var body = ""
        while let piece = try sockets[0].chunk() { body += piece }
        #expect(body == text("x"), "as it was")
        sockets = []
        #expect(try server.metric(Self.pinned, becomes: { $0 == 0 }))
        #expect(try Self.slow(server, "/big.json?ns=test").head().status == 200)
    }

    @Test func largeAnswers_besideSmallWrites_countWhatTheseReplaced() throws {
        let server = try TestServer { $0.limits.net.sendBufferBytes = 16 << 10 }
        let writer = try RESTPeer(server)
        #expect(try writer.put("/big.json?print=silent", try tree(30_000)) == "204 ")
        var sockets: [TestSocket] = []
        var first = 0
        for number in 0..<10 {
            sockets.append(try Self.slow(server, "/big.json?ns=test"))
            #expect(try sockets[number].head().status == 200)
            let held = try server.metric(Self.pinned)
            if number == 0 { first = held }
            #expect(held <= first + number * 128 << 10, "\(number): \(held) of \(first)")
            #expect(try writer.put("/big/k100000.json", "\(number)") == "200 \(number)")
        }
        #expect(first > 2_000_000)
        // The last version is released first: nodes it shares with the previous one then count there.
        sockets.removeLast()
        #expect(try writer.get("/other.json") == "200 null")
        #expect(try server.metric(Self.pinned) >= first - 128 << 10)
        sockets = []
        #expect(try server.metric(Self.pinned, becomes: { $0 == 0 }))
    }

    @Test func largeAnswer_countsForItsAddress() throws {
        let server = try TestServer {
            $0.limits.net.sendBufferBytes = 16 << 10
            $0.limits.memoryBytes = 128 << 20
            $0.limits.addressMemoryBytes = 24 << 20
            $0.limits.admission.countsLoopback = true
        }
        let keys = (0..<120_000).map { "\"\(String(repeating: "k", count: 50))\(100_000 + $0)\":" }
        let writer = try RESTPeer(server)
        var sockets: [TestSocket] = []
        for name in ["a", "b", "c", "d"] {
            #expect(try writer.put("/\(name).json?print=silent", "{" + keys.map { $0 + "1" }.joined(separator: ",") + "}") == "204 ")
        }
        // A shallow answer holds everything below its names.
        for (number, name) in ["a", "a", "b", "b", "c", "a"].enumerated() {
            sockets.append(try Self.slow(server, "/\(name).json?ns=test&shallow=true"))
            #expect(try sockets[number].head().status == 200)
        }
        let held = try server.metric(Self.pinned)
        #expect(held > 3 * 7_000_000 && held < 3 * 8_300_000, "as they are in memory: \(held)")
        let refused = try Self.slow(server, "/d.json?ns=test&shallow=true").response()
        #expect(refused.status == 503 && refused.body.contains("This address' part"))
        var body = ""
        while let piece = try sockets[4].chunk() { body += piece }
        #expect(body == "{" + keys.map { $0 + "true" }.joined(separator: ",") + "}")
        sockets = []
        #expect(try server.metric(Self.pinned, becomes: { $0 == 0 }))
    }

    @Test func echo_thatIsTooLarge_isLeftOut_theWriteStands() throws {
        let text = String(repeating: "x", count: 300_000)
        for (limit, status) in [(301_000, "200"), (299_000, "204")] {
            let peer = try RESTPeer(TestServer { $0.limits.restReadBytes = limit })
            #expect(try peer.patch("/a.json", "{\"b\":\"\(text)\"}").hasPrefix(status))
            #expect(try peer.put("/a/c.json", "{\"d\":\"\(text)\"}").hasPrefix(status))
            #expect(try peer.get("/a.json?shallow=true") == #"200 {"b":true,"c":true}"#)
        }
    }

    @Test func largeAnswer_takenBelowItsRate_isEnded_aboveItIsGiven() throws {
        let server = try TestServer {
            $0.limits.net.sendBufferBytes = 8_000
            $0.limits.requestSeconds = 4
            $0.limits.bodyBytesPerSecond = 20_000
        }
        let json = try tree(12_000)
        #expect(try RESTPeer(server).put("/big.json?print=silent", json) == "204 ")
        func begin() throws -> TestSocket {
            let socket = try TestSocket(port: server.port, receiveBuffer: 4096)
            try socket.send("GET /big.json?ns=test HTTP/1.0\r\n\r\n")
            #expect(try socket.head().status == 200)
            return socket
        }
        let (steady, slow) = (try begin(), try begin())
        let ends = #"vigla_connections_closed_total{reason="write_stalled"}"#
        var bytes = 0
        while try server.metric(ends) == 0 {
            bytes += try steady.discard(8_000)
            _ = try slow.discard(100)
            usleep(100_000)
        }
        #expect(try server.metric(ends) == 1)
        #expect(bytes + (try steady.rest().utf8.count) >= json.utf8.count)
    }
}
