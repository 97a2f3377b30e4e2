import Dispatch
@testable import DispatchNet
@testable import HubEngine
import Synchronization
import TestHub
import Testing
import TestSupport
import WireProtocols
@testable import HubServer

/// How much database output is handed to the connections of a loop per turn.
@Suite(.timeLimit(.minutes(30))) struct OutputTurnTests {
    /// One output: its sender, number and bytes, and the number of loop turns before it.
    private struct Sent: Equatable {
        var by: Int
        var number: Int
        var bytes: Int
        var turn: Int
    }

    private final class Book: Sendable {
        let all = Mutex<[Sent]>([])
        /// Requested drains, each with the number of outputs before.
        let drains = Mutex<[(by: Int, sent: Int)]>([])
        /// Closes, each with the number of outputs before.
        let closes = Mutex<[(by: Int, sent: Int)]>([])
    }

    /// Copies its output to the loop's book, as a connection does to its socket.
    private final class BookingCarrier: Carrier {
        private let name: Int
        private let loop: EventLoop
        private let book: Book
        let peer = SocketAddress(bytes: .init(high: 127, low: 0), scope: 0, port: 1, isIPv6: false)

        init(_ name: Int, _ loop: EventLoop, _ book: Book) { (self.name, self.loop, self.book) = (name, loop, book) }

        func send(_ frames: [UInt8]) {
            _ = loop.stage(frames)
            record(frames)
        }
        func send(_ staged: StagedFrame, _ frames: [UInt8]) { record(frames) }
        private func record(_ frames: [UInt8]) {
            book.all.withLock { $0.append(Sent(by: name, number: Int(frames[0]), bytes: frames.count, turn: loop.counters.turns)) }
        }
        var isTurnFull: Bool { false }
        func close(_ code: UInt16, _ reason: String) {
            let sent = book.all.withLock { all in all.count { $0.by == name } }
            book.closes.withLock { $0.append((name, sent)) }
        }
        func dismiss() {}
        func holdInput(_ isHeld: Bool) {}
        func holdWhileReading(_ isHeld: Bool) {}
        func countSent(with counter: ByteCounter?) {}
        func reportDrain() {
            let sent = book.all.withLock { all in all.count { $0.by == name } }
            book.drains.withLock { $0.append((name, sent)) }
        }
    }

    private static let turnBytes = 100_000

    /// Delivers to sessions of one loop.
    /// - Returns: their output, once that is `count` frames.
    private func sent(
        sessions: Int, count: Int, _ make: ([Session]) -> [Delivery], then: ([Session], LoopSessions) -> Void = { _, _ in }
    ) throws -> (all: [Sent], drains: [(by: Int, sent: Int)]) {
        let server = try TestServer {
            $0.loops = 1
            $0.limits.net.turnBytes = Self.turnBytes
        }
        // The first connection opens the database.
        try TestSocket(port: server.port).upgrade("/.observe?ns=test")
        let (lane, book) = (server.server.lanes[0], Book())
        let database = try #require(server.server.hub.database("test"))
        let made = lane.loop.queue.sync {
            (0..<sessions).map { name in
                Session(BookingCarrier(name, lane.loop, book), lane: 0, database: database, server: server.server, dialect: .observe)
            }
        }
        let gate = DispatchSemaphore(value: 0)
        lane.loop.execute { gate.wait() }
        lane.deliver(make(made))
        then(made, lane)
        gate.signal()
        for _ in 0..<20_000 where book.all.withLock({ $0.count }) < count { lane.loop.queue.sync {} }
        // The queues end after their last frame.
        for _ in 0..<20 { lane.loop.queue.sync {} }
        lane.loop.queue.sync { for session in made { #expect(session.outputQueue == nil) } }
        return (book.all.withLock { $0 }, book.drains.withLock { $0 })
    }

    private func frame(_ number: Int, _ bytes: Int) -> [UInt8] { [UInt8](repeating: UInt8(number), count: bytes) }

    /// The bytes of each turn.
    private func turns(_ sent: [Sent]) -> [Int] {
        Dictionary(grouping: sent, by: \.turn).sorted { $0.key < $1.key }.map { $0.value.reduce(0) { $0 + $1.bytes } }
    }

    @Test func muchForOneClient_isHandedOutInTurns_inOrder_andOthersPass() throws {
        let (all, drains) = try sent(sessions: 2, count: 103) { sessions in
            (0..<100).map { .one(sessions[0], frame($0, 30_000)) } + [.probe(sessions[0])]
                + [.one(sessions[1], frame(1, 100)), .one(sessions[1], frame(2, 100))] + [.one(sessions[0], frame(100, 50))]
        }
        #expect(all.filter { $0.by == 0 }.map(\.number) == Array(0...100))
        #expect(turns(all).allSatisfy { $0 <= Self.turnBytes + 30_000 + 200 }, "\(turns(all))")
        let others = all.filter { $0.by == 1 }
        #expect(others.map(\.number) == [1, 2] && others.allSatisfy { $0.turn == all[0].turn }, "small answers are not held up")
        #expect(drains.map(\.sent) == [101], "behind all that was sent before")
    }

    @Test func whatFitsIntoATurn_isHandedOutAtOnce() throws {
        let (all, _) = try sent(sessions: 1, count: 3) { sessions in (0..<3).map { .one(sessions[0], frame($0, 33_000)) } }
        #expect(Set(all.map(\.turn)).count == 1)
    }

    @Test func clientsWithMuchToTake_haveTheirTurnsOneAfterTheOther() throws {
        let (all, _) = try sent(sessions: 3, count: 120) { sessions in
            sessions.flatMap { session in (0..<40).map { Delivery.one(session, frame($0, 30_000)) } }
        }
        #expect(turns(all).allSatisfy { $0 <= Self.turnBytes + 30_000 })
        for session in 0..<3 { #expect(all.filter { $0.by == session }.map(\.number) == Array(0..<40)) }
        let behind = try #require(all.firstIndex { $0.by == 2 && $0.number == 10 })
        let before = try #require(all.firstIndex { $0.by == 0 && $0.number == 20 })
        #expect(behind < before, "the last one does not wait for all of the first")
    }

    @Test func framesThatWereEncodedBesideTheQueue_areHandedOutInTurns_too() throws {
        let deferred = (0..<60).map { _ in DeferredBytes(0) }
        let (all, _) = try sent(sessions: 1, count: 60, { sessions in deferred.map { .later([sessions[0]], $0) } }, then: { _, lane in
            // The first one comes last: all others are then ready behind it.
            lane.loop.execute { [self] in
                for (number, one) in deferred.enumerated().reversed() { one.fill(DeferredBytes.Outcome(frame(number, 30_000))) }
            }
        })
        #expect(all.map(\.number) == Array(0..<60))
        #expect(turns(all).allSatisfy { $0 <= Self.turnBytes + 30_000 }, "\(turns(all))")
    }

    @Test func frameOfMany_isCopiedOnce_andNotHeldUp() throws {
        let (all, _) = try sent(sessions: 50, count: 150) { sessions in (0..<3).map { .many(sessions, frame($0, 60_000)) } }
        #expect(Set(all.map(\.turn)).count == 1)
        for session in 0..<50 { #expect(all.filter { $0.by == session }.map(\.number) == [0, 1, 2]) }
    }

    @Test func sessionThatEnds_whileItsOutputWaits_leavesTheOthers() throws {
        let (all, _) = try sent(sessions: 2, count: 44, { sessions in
            sessions.flatMap { session in (0..<40).map { Delivery.one(session, frame($0, 30_000)) } }
        }, then: { sessions, lane in
            let first = sessions[0]
            lane.loop.execute { first.ended() }
        })
        #expect(all.count { $0.by == 0 } == 4)
        #expect(all.filter { $0.by == 1 }.map(\.number) == Array(0..<40))
    }

    private static let broken = Array("{broken".utf8)

    /// A peer that breaks the protocol still gets the answers to its earlier requests.
    @Test func closeForABrokenMessage_comesBehindWhatWaitsForATurn() throws {
        let server = try TestServer {
            $0.loops = 1
            $0.limits.net.turnBytes = Self.turnBytes
        }
        try TestSocket(port: server.port).upgrade("/.observe?ns=test")
        let (lane, book) = (server.server.lanes[0], Book())
        let database = try #require(server.server.hub.database("test"))
        let session = lane.loop.queue.sync {
            RealtimeSession(
                BookingCarrier(0, lane.loop, book), id: "s", host: "h", replacing: nil, lane: 0, database: database, server: server.server)
        }
        let (gate, done) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        lane.loop.execute { gate.wait() }
        lane.deliver((0..<40).map { .one(session, frame($0, 30_000)) })
        lane.loop.execute {
            Self.broken.withUnsafeBytes { session.received(text: $0) }
            done.signal()
        }
        gate.signal()
        done.wait()
        // Its hello, and the deliveries.
        #expect(book.closes.withLock { $0.map(\.sent) } == [41])
        lane.loop.queue.sync { session.ended() }
    }

    /// The same for a frame that is no protocol message at all, on a socket.
    @Test func closeForABinaryFrame_comesBehindWhatWaitsForATurn() throws {
        let server = try TestServer {
            $0.loops = 1
            $0.limits.net.turnBytes = Self.turnBytes
        }
        let socket = try TestSocket(port: server.port)
        try socket.upgrade("/.observe?ns=test")
        try socket.sendText("{\"id\":0,\"op\":\"set\",\"path\":\"/a\",\"value\":\"\(String(repeating: "x", count: 30_000))\"}")
        #expect(try socket.text().contains("\"ok\""))
        let database = try #require(server.server.hub.database("test"))
        let lane = server.server.lanes[0]
        let databaseGate = DispatchSemaphore(value: 0)
        // Blocks the loop after its current work.
        // - Returns: a semaphore for its arrival, and one to release it.
        func held() -> (isThere: DispatchSemaphore, proceed: DispatchSemaphore) {
            let (isThere, proceed) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
            lane.loop.execute {
                isThere.signal()
                proceed.wait()
            }
            return (isThere, proceed)
        }
        // All requests are read before the first answer, and all answers are ready before the loop continues. They are less than `outboundSoftBytes`:
        // more would not be kept for a peer that is being closed.
        database.queue.async { databaseGate.wait() }
        for id in 1...30 { try socket.sendText("{\"id\":\(id),\"op\":\"get\",\"path\":\"/a\"}") }
        #expect(becomes { database.inboxDepth == 30 })
        let before = held()
        before.isThere.wait()
        databaseGate.signal()
        // They may take several turns of the queue.
        let isAnswered = DispatchSemaphore(value: 0)
        database.snapshot(behindRequests: true) { _, _, _ in isAnswered.signal() }
        isAnswered.wait()
        // The frame is read when the answers have been handed to the session.
        let behind = held()
        before.proceed.signal()
        behind.isThere.wait()
        try socket.send(WebSocketFrame.binary([1], mask: WebSocketMask(bigEndian: 1)))
        behind.proceed.signal()
        for id in 1...30 { #expect(try socket.text().hasPrefix("{\"id\":\(id),\"ok\"")) }
    }
}
