import Dispatch
import DispatchNet
import Glibc
import HubEngine
import JSONTree
import Synchronization
import TestHub
import Testing
@testable import HubServer

/// A long-polling session ends while its large message is read off the loop.
@Suite(.timeLimit(.minutes(30))) struct LongPollEndTests {
    private static let text = String(repeating: "x", count: 3_000)
    private static func request(_ number: Int, _ action: String, _ place: String, _ value: String) -> String {
        #"{"t":"d","d":{"r":\#(number),"a":"\#(action)","b":{"p":"/\#(place)","d":\#(value)}}}"#
    }

    private func server() throws -> TestServer {
        try TestServer {
            $0.limits.largeRequestBytes = 1_000
            $0.limits.largeRequests = 1
        }
    }

    /// The content once the session's end is stored.
    private func content(_ database: Database) -> Node {
        let found = Mutex(Node.null)
        for _ in 0..<10_000 {
            database.snapshot { root, _, _ in found.withLock { $0 = root } }
            database.queue.sync {}
            if found.withLock({ $0.child("gone").exists }) { break }
            usleep(1000)
        }
        return found.withLock { $0 }
    }

    @Test func sessionWhosePageIsLeft_hasCarriedOutWhatItHadSent() throws {
        let server = try server()
        let peer = try LongPollPeer(server)
        try peer.poll(Self.request(1, "o", "gone", "true"))
        _ = try peer.messages(1)
        let carrier = try #require(server.server.network.longPolls.find(session: peer.session))
        let gate = DispatchSemaphore(value: 0)
        server.server.memory.largeWork.run(of: carrier.network) { gate.wait() }
        try peer.poll(Self.request(2, "p", "a", "\"\(Self.text)\""), Self.request(3, "p", "b", "1"))
        while server.server.memory.largeWork.counts.waiting == 0 { usleep(1000) }
        #expect(try TestSocket(port: server.port).get("/.lp?disconn=t&\(peer.key)&ns=test").status == 200)
        while server.server.network.longPolls.find(session: peer.session) != nil { usleep(1000) }
        gate.signal()
        let stored = content(carrier.database)
        #expect(stored.child("a") == .string(Text(Self.text)) && stored.child("b") == 1 && stored.child("gone") == true)
    }

    @Test func sessionThatEndsOnItsSocket_hasCarriedOutWhatItHadSent() throws {
        let server = try server()
        let peer = try LongPollPeer(server)
        try peer.poll(Self.request(1, "o", "gone", "true"))
        _ = try peer.messages(1)
        let carrier = try #require(server.server.network.longPolls.find(session: peer.session))
        let socket = try TestSocket(port: server.port)
        try socket.upgrade("/.ws?v=5&ns=test&s=\(peer.session)")
        #expect(try socket.text() == #"{"t":"c","d":{"t":"a","d":{}}}"#)
        try socket.sendText(#"{"t":"c","d":{"t":"a","d":{}}}"#)
        try peer.poll(#"{"t":"c","d":{"t":"n","d":{}}}"#)
        while peer.closed == nil { try peer.wait() }
        let gate = DispatchSemaphore(value: 0)
        server.server.memory.largeWork.run(of: carrier.network) { gate.wait() }
        try socket.sendText(Self.request(2, "p", "a", "\"\(Self.text)\""))
        try socket.sendText(Self.request(3, "p", "b", "1"))
        while server.server.memory.largeWork.counts.waiting == 0 { usleep(1000) }
        // As when its connection breaks: while a large message is parsed, the socket is not read, so its close goes unnoticed.
        carrier.lane.loop.execute { carrier.end() }
        while server.server.network.longPolls.find(session: peer.session) != nil { usleep(1000) }
        gate.signal()
        let stored = content(carrier.database)
        #expect(stored.child("a") == .string(Text(Self.text)) && stored.child("gone") == true)
    }
}
