import DispatchNet
import Glibc
import HubEngine
import JSONTree
import TestHub
import Testing
@testable import HubServer

/// Large answers to polls are encoded as they are read, and counted until then.
@Suite(.timeLimit(.minutes(30))) struct LongPollAnswerTests {
    private static let held = #"vigla_memory_held_bytes{purpose="answers"}"#

    private func put(_ server: TestServer, _ text: String) throws {
        let writer = try TestSocket(port: server.port)
        let body = "\"\(text)\""
        try writer.send("PUT /big.json?ns=test HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
        #expect(try writer.response().status == 200)
    }

    private let get = #"{"t":"d","d":{"r":1,"a":"g","b":{"p":"/big"}}}"#

    @Test func largeAnswer_comesWhole_inChunks_andCountsUntilItIsTaken() throws {
        let server = try TestServer { $0.limits.net.sendBufferBytes = 8_000 }
        let text = String(repeating: "</script> \u{2028} ä ", count: 100_000)
        try put(server, text)
        let peer = try LongPollPeer(server)
        try peer.poll(get)
        #expect(try server.metric(Self.held, becomes: { $0 > 1_000_000 }), "nobody has taken it yet")
        let messages = try peer.messages(1)
        #expect(messages.first?.node(at: "d/b/d") == .string(text))
        #expect(try server.metric(Self.held, becomes: { $0 == 0 }))
        // The session continues.
        try peer.poll(#"{"t":"d","d":{"r":2,"a":"s","b":{}}}"#)
        #expect(try peer.messages(2).count == 2)
    }

    @Test func answerThatTheBudgetHasNoRoomFor_endsTheSession_andIsNotSent() throws {
        let server = try TestServer { $0.limits.memoryBytes = 8 << 20 }
        try put(server, String(repeating: "x", count: 1_900_000))
        let peer = try LongPollPeer(server)
        let lease = server.server.memory.lease(of: try #require(server.server.network.longPolls.find(session: peer.session)).network, for: .answers)
        let carrier = try #require(server.server.network.longPolls.find(session: peer.session))
        // Simulates an encoded answer whose memory others have taken since. The memory of the PUT is released soon after its answer.
        var isTaken = false
        for _ in 0..<1_000 where !isTaken {
            isTaken = lease.become((8 << 20) - (64 << 10))
            if !isTaken { usleep(10_000) }
        }
        #expect(isTaken)
        carrier.lane.loop.execute { carrier.send([UInt8](repeating: 0x20, count: 2_000_000)) }
        while peer.closed == nil { try peer.wait() }
        #expect(peer.heard.isEmpty)
        #expect(server.server.network.longPolls.count == 0)
    }
}
