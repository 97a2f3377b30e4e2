import Foundation
import Glibc
import JSONTree
import Testing
import TestSupport
import WireProtocols

/// An observer reconnects to a hub that was killed: it starts from scratch with all acknowledged content, whatever numbers the commits have.
@Suite(.timeLimit(.minutes(30))) struct ResumeCrashTests {
    /// The observe protocol, one message after the other.
    private final class Socket {
        private let connection: FileHandle
        private var unread: [UInt8] = []

        init(_ hub: RunningHub) throws {
            connection = try hub.connection()
            try connection.write(contentsOf: Data(
                WebSocketHandshake.request(host: "localhost", target: "/.observe", key: "dGhlIHNhbXBsZSBub25jZQ==", deflate: nil)))
            while let byte = try connection.read(upToCount: 1)?.first {
                unread.append(byte)
                if unread.suffix(4) == [13, 10, 13, 10] { break }
            }
        }

        func ask(_ text: String, _ answers: Int) throws -> [Node] {
            try connection.write(contentsOf: Data(WebSocketFrame.text(Array(text.utf8), mask: WebSocketMask(bigEndian: 7))))
            return try (0..<answers).map { _ in try next() }
        }

        private func bytes(_ count: Int) throws -> [UInt8] {
            var found: [UInt8] = []
            while found.count < count, let more = try connection.read(upToCount: count - found.count), !more.isEmpty { found += more }
            return found
        }

        private func next() throws -> Node {
            let head = try bytes(2)
            try #require(head.count == 2)
            var length = Int(head[1])
            if length == 126 { length = try bytes(2).reduce(0) { $0 << 8 | Int($1) } }
            if length == 127 { length = try bytes(8).reduce(0) { $0 << 8 | Int($1) } }
            return try Node(json: String(decoding: bytes(length), as: UTF8.self))
        }
    }

    @Test(arguments: [["--data", "data"], ["--memory"]]) func kill9_letsObserversBeginAnew(storage: [String]) throws {
        let folder = try TemporaryFolder()
        func start() throws -> RunningHub { try RunningHub(["--port", "0", "--dev", "--log-level", "error"] + storage, folder: folder) }
        let hub = try start()
        let observe = #""op":"observe","path":"/a","events":["added","removed","ready"]"#
        let first = try Socket(hub)
        let started = try first.ask(#"{"id":1,\#(observe),"since":null}"#, 2)
        guard case .string(let epoch) = started[0].node(at: "ok/epoch") else { return #expect(Bool(false), "\(started)") }
        for number in 1...5 { _ = try first.ask(#"{"id":2,"op":"set","path":"/a/k\#(number)","value":\#(number)}"#, 2) }
        #expect(hub.stop(SIGKILL) == SIGKILL)

        let again = try start()
        let second = try Socket(again)
        // As many commits as before, and more: by its number alone, the position would seem to be known.
        for number in 1...9 { _ = try second.ask(#"{"id":2,"op":"set","path":"/b/k\#(number)","value":\#(number)}"#, 1) }
        let kept = storage == ["--memory"] ? 0 : 5
        let told = try second.ask(#"{"id":3,\#(observe),"since":{"epoch":"\#(epoch.string)","seq":3}}"#, 2 + kept)
        #expect(told[0].node(at: "ok/reset") == true, "\(told)")
        #expect(told.dropFirst().dropLast().map { $0.child("key") } == (0..<kept).map { .string(Text("k\($0 + 1)")) }, "\(told)")
        #expect(told.last?.child("event") == "ready")
        // The epoch stays the same while the hub runs.
        guard case .string(let now) = told[0].node(at: "ok/epoch") else { return #expect(Bool(false), "\(told)") }
        let third = try Socket(again)
        _ = try second.ask(#"{"id":4,"op":"remove","path":"/a"}"#, kept + 1)
        let sequence = try #require(told.last?.child("seq")).json
        let missed = try third.ask(#"{"id":1,\#(observe),"since":{"epoch":"\#(now.string)","seq":\#(sequence)}}"#, 2 + kept)
        #expect(!missed[0].node(at: "ok/reset").exists && missed.dropFirst().dropLast().allSatisfy { $0.child("event") == "removed" })
        #expect(missed.last?.child("event") == "ready")
    }
}
