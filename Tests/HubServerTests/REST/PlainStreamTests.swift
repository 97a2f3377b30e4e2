import Dispatch
import DispatchNet
import TestHub
import Testing
@testable import HubServer

/// Event streams over HTTP/1.0, which has no chunks.
@Suite(.timeLimit(.minutes(30))) struct PlainStreamTests {
    @Test func event_isUnwrappedOnce_forAllStreamsOfALoop() throws {
        let server = try TestServer { $0.loops = 1 }
        let lane = server.server.lanes[0]
        let streams = try (0..<20).map { _ in try TestSocket(port: server.port) }
        for stream in streams {
            try stream.send("GET /a.json?ns=test HTTP/1.0\r\nAccept: text/event-stream\r\n\r\n")
            #expect(try stream.head().status == 200)
        }
        // Each stream's initial event is its own.
        let first = "event: put\ndata: {\"path\":\"/\",\"data\":null}\n\n".utf8.count
        for stream in streams {
            var left = first
            while left > 0 { left -= try stream.discard(left) }
        }
        let writer = try TestSocket(port: server.port)
        for (number, bytes) in [1_000, 1 << 20].enumerated() {
            let json = "\"" + String(repeating: "x", count: bytes) + "\""
            try writer.send("PUT /a.json?ns=test HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(json.utf8.count)\r\n\r\n\(json)")
            #expect(try writer.response().status == 200)
            let event = "event: put\ndata: {\"path\":\"/\",\"data\":\(json)}\n\n".utf8.count
            for stream in streams {
                var left = event
                while left > 0 { left -= try stream.discard(left) }
            }
            #expect(lane.loop.queue.sync { lane.unwrapped.made } == number + 1)
        }
    }
}
