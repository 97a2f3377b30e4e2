import Dispatch
import DispatchNet
@testable import HubEngine
import JSONTree
import TestHub
import Testing
import WireProtocols
@testable import HubServer

/// Large values over real sockets: they are encoded in the background, and every carrier keeps the order around them.
@Suite(.timeLimit(.minutes(30))) struct LargeValueTests {
    private let long = String(repeating: "é\"x", count: 60_000)
    /// As JSON.
    private var json: String { "\"\(String(repeating: "é\\\"x", count: 60_000))\"" }

    private func put(_ number: Int, _ path: String, _ json: String) -> String {
        #"{"t":"d","d":{"r":\#(number),"a":"p","b":{"p":"\#(path)","d":\#(json)}}}"#
    }
    private func get(_ number: Int, _ path: String) -> String { #"{"t":"d","d":{"r":\#(number),"a":"g","b":{"p":"\#(path)","q":{}}}}"# }
    private func listen(_ number: Int, _ path: String, hash: String = "") -> String {
        #"{"t":"d","d":{"r":\#(number),"a":"q","b":{"p":"\#(path)","h":"\#(hash)"}}}"#
    }

    private func observe(_ server: TestServer, offer: String? = nil) throws -> TestSocket {
        let socket = try TestSocket(port: server.port)
        socket.server = server
        try socket.upgrade("/.observe?ns=test", offer: offer)
        return socket
    }

    /// The next realtime message, assembled from its chunks.
    private func message(_ socket: TestSocket) throws -> Node {
        let first = try socket.text()
        guard let count = Int(first) else { return try Node(json: first) }
        return try Node(json: (0..<count).map { _ in try socket.text() }.joined())
    }

    private func filled(_ configure: (inout ServerSettings) -> Void = { _ in }) throws -> TestServer {
        let server = try TestServer(configure)
        let writer = try server.realtime().socket
        try writer.send(RealtimeChunks.frames(put(1, "/a/text", json)))
        #expect(try message(writer).node(at: "d/r") == 1)
        return server
    }

    @Test func answers_comeInTheOrderOfAsking() throws {
        let server = try filled()
        let client = try server.realtime().socket
        try client.sendText(listen(1, "/b"))
        for (i, path) in ["/a/text", "/nothing", "/a", "/nothing"].enumerated() { try client.sendText(get(2 + i, path)) }
        try client.sendText(put(6, "/b", "7"))
        #expect(try message(client).node(at: "d/r") == 1)
        for (number, value) in [(2, .string(long)), (3, .null), (4, ["text": .string(long)]), (5, .null)] as [(Int64, Node)] {
            let answer = try message(client)
            #expect(answer.node(at: "d/r") == .int(number) && answer.node(at: "d/b/d") == value)
        }
        #expect(try message(client).node(at: "d/b/d") == 7)
        #expect(try message(client).node(at: "d/r") == 6)
    }

    @Test func listen_isSentWhatItLacks_andNothingOfWhatItHolds() throws {
        let server = try filled()
        let hash = (["text": .string(long)] as Node).hash
        for (text, isSent) in [(hash, false), ("", true), ("other", true)] {
            let client = try server.realtime().socket
            try client.sendText(listen(1, "/a", hash: text))
            if isSent { #expect(try message(client).node(at: "d/b/d/text") == .string(long)) }
            #expect(try message(client).node(at: "d/r") == 1)
        }
    }

    @Test func change_reachesEveryKindOfObserver_once() throws {
        let server = try TestServer()
        let realtime = try (0..<4).map { _ in try server.realtime().socket }
        for socket in realtime {
            try socket.sendText(listen(1, "/a"))
            #expect(try message(socket).node(at: "d/r") == 1)
        }
        let observers = try [nil, "permessage-deflate", nil].map { try observe(server, offer: $0) }
        for (i, socket) in observers.enumerated() {
            try socket.sendText(#"{"id":\#(i + 1),"op":"observe","path":"/a","events":["value"]}"#)
            _ = try socket.text()
            _ = try socket.text()
        }
        let stream = try RESTPeer(server)
        #expect(try stream.stream("/a.json?ns=test").status == 200)
        _ = try stream.event()
        let poll = try LongPollPeer(server)
        try poll.poll(listen(1, "/a"))
        let before = try poll.messages(1).count
        let writer = try server.realtime().socket
        try writer.send(RealtimeChunks.frames(put(1, "/a/text", json)))
        #expect(try message(writer).node(at: "d/r") == 1)
        try writer.sendText(put(2, "/a/n", "1"))
        #expect(try message(writer).node(at: "d/r") == 2)
        for socket in realtime {
            #expect(try message(socket).node(at: "d/b/d") == .string(long))
            #expect(try message(socket).node(at: "d/b/d") == 1)
        }
        for (i, socket) in observers.enumerated() {
            var last = try Node(json: socket.text())
            #expect(last.node(at: "sub") == .int(Int64(i + 1)) && last.node(at: "value/text") == .string(long))
            while last.node(at: "value/n").isNull { last = try Node(json: socket.text()) }
            #expect(last.node(at: "value/text") == .string(long))
        }
        #expect(try stream.event()?.contains(json) == true)
        #expect(try stream.event()?.contains(#""data":1"#) == true)
        let heard = try poll.messages(before + 2)
        #expect(heard[before].node(at: "d/b/d") == .string(long) && heard[before + 1].node(at: "d/b/d") == 1)
    }

    @Test func stream_beginsWithItsContent_orIsRefused() throws {
        for isTooBig in [false, true] {
            let server = try filled { $0.limits.engine.readBytes = isTooBig ? 200_000 : 400_000 }
            let stream = try RESTPeer(server)
            let answer = try stream.stream("/a.json?ns=test")
            #expect(answer.status == (isTooBig ? 400 : 200))
            if !isTooBig { #expect(try stream.event()?.contains(json) == true) }
        }
    }

    @Test func valueObserver_convergesToTheNewestState_inFewMessages() throws {
        let server = try filled()
        let observer = try observe(server)
        try observer.sendText(#"{"id":1,"op":"observe","path":"/a","events":["value"]}"#)
        #expect(try Node(json: observer.text()).node(at: "id") == 1)
        let writer = try server.realtime().socket
        for number in 1...300 { try writer.sendText(put(number, "/a/n", "\(number)")) }
        for number in 1...300 { #expect(try message(writer).node(at: "d/r") == .int(Int64(number))) }
        var (last, seq) = (Node.null, Node.null)
        while last.child("n") != 300 {
            let event = try Node(json: observer.text())
            if case (.int(let before), .int(let now)) = (seq, event.child("seq")) { #expect(now > before) }
            (last, seq) = (event.child("value"), event.child("seq"))
        }
        #expect(last.child("text") == .string(long))
    }

    @Test func clientsThatLeaveWhileTheyWait_leaveNothingBehind() throws {
        let server = try filled()
        for _ in 0..<40 {
            let client = try server.realtime().socket
            for number in 1...5 { try client.sendText(get(number, "/a")) }
        }
        #expect(try server.metric("vigla_backlog_bytes") { $0 == 0 })
        let client = try server.realtime().socket
        try client.sendText(get(1, "/a/text"))
        #expect(try message(client).node(at: "d/b/d") == .string(long))
    }

    @Test(arguments: [(0, true), (1, false)]) func message_overTheBoundOfCompression_isSentAsItIs(over: Int, isSmaller: Bool) throws {
        let server = try TestServer { $0.limits.deflate?.mostBytes = 10_000 }
        let socket = try observe(server, offer: "permessage-deflate")
        try socket.sendText(#"{"id":1,"op":"observe","path":"/v","events":["value"]}"#)
        _ = try socket.text()
        _ = try socket.text()
        let around = WebSocketFrame.text(Array(#"{"sub":1,"seq":1,"event":"value","value":""}"#.utf8)).count + 2
        let before = socket.bytesRead
        let writer = try observe(server)
        try writer.sendText(#"{"id":1,"op":"set","path":"/v","value":"\#(String(repeating: "x", count: 10_000 - around + over))"}"#)
        _ = try socket.text()
        #expect((socket.bytesRead - before < 1_000) == isSmaller)
    }

    // MARK: Encoding once

    @Test func write_readsTheSame_asAloneAndAsAChange() {
        let format = HubFormat()
        for value in [.null, 1, .string(long), ["text": "é", "n": 1]] as [Node] {
            var parts: (any ChangeParts)?
            let below = ViewChange(at: "a", sequence: 7, patches: [("a/b", value)])
            #expect(format.written(value, at: "a/b") == format.change(below, for: .patches(tag: nil), sharing: &parts))
            let whole = ViewChange(at: "a", sequence: 7, new: value)
            #expect(format.written(value, at: "a") == format.change(whole, for: .patches(tag: nil), sharing: &parts))
        }
    }

    @Test func events_areEncodedOnce_howeverManySubscriptionsThereAre() {
        let value: Node = ["text": .string(long), "n": 1]
        let change = ViewChange(
            at: "a", sequence: 7, new: value,
            events: [
                ChildEvent(kind: .added, key: "n", value: 1, previous: nil),
                ChildEvent(kind: .changed, key: "text", value: .string(long), previous: "n"),
            ])
        let format = HubFormat()
        let shared = format.observed(change)
        for id in 1...1000 as ClosedRange<Int64> {
            let kinds: EventKinds = id % 2 == 0 ? .value : [.added, .changed]
            let frames = format.observe(change, shared, id, kinds)
            if id > 4 { continue }
            let alone = kinds == .value
                ? ObservePush(.value(value), seq: 7).frame(sub: id)
                : ObservePush(.added(key: "n", value: 1, prev: nil), seq: 7).frame(sub: id)
                    + ObservePush(.changed(key: "text", value: .string(long), prev: "n"), seq: 7).frame(sub: id)
            #expect(frames == alone)
        }
        #expect(shared.encodings == 3, "each event once")
    }
}

/// A realtime request in the chunks that SDKs send.
private enum RealtimeChunks {
    static func frames(_ text: String) -> [UInt8] {
        let units = Array(text.utf16)
        let parts = stride(from: 0, to: units.count, by: 16_384).map {
            String(decoding: units[$0..<min(units.count, $0 + 16_384)], as: UTF16.self)
        }
        let mask = WebSocketMask(bigEndian: 0x1234_5678)
        let all = parts.count == 1 ? parts : [String(parts.count)] + parts
        return all.flatMap { WebSocketFrame.text(Array($0.utf8), mask: mask) }
    }
}
