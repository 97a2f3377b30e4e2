import Dispatch
import DispatchNet
import Glibc
import HubEngine
import JSONTree
import Synchronization
import TestHub
import Testing
import TestSupport
import WireProtocols
@testable import HubServer

/// Data on its way from a socket's loop to the loop of the session that the socket has joined.
@Suite(.timeLimit(.minutes(30))) struct JoinedSocketTests {
    @Test func posted_isTooMuch_overTheLimit_untilHalfIsTaken() {
        let budget = MemoryBudget(1 << 20)
        let posted = PostedBytes(100_000, MemoryLease(MemoryShare(of: budget), for: .incoming))
        func isFine(_ count: Int) -> Bool { if case .fine = posted.add(count, isHeldElsewhere: false) { true } else { false } }
        for _ in 0..<10 { #expect(isFine(10_000)) }
        #expect(budget.used >= 100_000)
        #expect(!isFine(10_000))
        #expect(posted.isTooMuch)
        for _ in 0..<5 { #expect(!posted.remove(10_000, isHeldElsewhere: false)) }
        #expect(posted.remove(10_000, isHeldElsewhere: false), "50,000 are left")
        for _ in 0..<5 { #expect(!posted.remove(10_000, isHeldElsewhere: false)) }
        #expect(posted.bytes == 0)
        #expect(budget.used == 0)
        // Bytes held elsewhere count for the limit only.
        _ = posted.add(1 << 19, isHeldElsewhere: true)
        #expect(posted.isTooMuch)
        #expect(budget.used == 0)
        #expect(posted.remove(1 << 19, isHeldElsewhere: true))
        guard case .refused(.process) = posted.add(2 << 20, isHeldElsewhere: false) else {
            Issue.record("more than the budget has")
            return
        }
        #expect(posted.bytes == 0)
    }

    /// A socket that has joined a session of another loop.
    private func joined(_ server: TestServer) throws -> (socket: TestSocket, carrier: LongPollCarrier, joined: JoinedSocket) {
        for attempt in 0..<40 {
            let peer = try LongPollPeer(server)
            // Loops take connections in turn, so an extra connection changes whose turn it is.
            let between = attempt.isMultiple(of: 2) ? try TestSocket(port: server.port) : nil
            defer { withExtendedLifetime(between) {} }
            let socket = try TestSocket(port: server.port)
            try socket.upgrade("/.ws?v=5&ns=test&s=\(peer.session)")
            let carrier = try #require(server.server.network.longPolls.find(session: peer.session))
            nonisolated(unsafe) var found: JoinedSocket?
            for _ in 0..<2000 where found == nil { carrier.lane.loop.queue.sync { found = carrier.socket } }
            let joined = try #require(found)
            if joined.carrier.connection.loop !== carrier.lane.loop { return (socket, carrier, joined) }
        }
        throw TestSocket.Closed()
    }

    @Test func socket_isReadNoMore_whileItsSessionTakesNothing() throws {
        // No poll arrives meanwhile.
        let server = try TestServer { $0.limits.longPoll.silenceSeconds = 600 }
        let (socket, carrier, joined) = try joined(server)
        let gate = DispatchSemaphore(value: 0)
        carrier.lane.loop.execute { gate.wait() }
        let text = String(repeating: "x", count: 200_000)
        let done = DispatchSemaphore(value: 0)
        nonisolated(unsafe) let sender = socket  // its sending half; the test reads
        DispatchQueue.global().async {
            for number in 1...40 {
                try? sender.sendText(#"{"t":"d","d":{"r":\#(number),"a":"p","b":{"p":"/a/\#(number)","d":"\#(text)"}}}"#)
            }
            done.signal()
        }
        let loop = joined.carrier.connection.loop
        func isReading() -> Bool {
            let answer = Answer()
            let told = DispatchSemaphore(value: 0)
            loop.execute {
                answer.isReading.store(joined.carrier.connection.isReading, ordering: .relaxed)
                told.signal()
            }
            told.wait()
            return answer.isReading.load(ordering: .relaxed)
        }
        // It also pauses reading for a moment after each large message.
        #expect(becomes { !isReading() && joined.posted.bytes > 1 << 20 })
        // Eight megabytes are sent; the hub holds no more than the limit and one message.
        #expect(joined.posted.bytes > 1 << 20)
        #expect(joined.posted.bytes < (1 << 20) + 300_000)
        #expect(server.server.memory.budget.used(for: .incoming) > 1 << 20)
        gate.signal()
        done.wait()
        // Requests on a socket that has not taken over yet wait for the end of polling, in order.
        #expect(becomes { joined.posted.bytes == 0 && isReading() })
    }

    private final class Answer: Sendable { let isReading = Atomic(false) }
}
