import Dispatch
import Glibc
import HubEngine
import Synchronization
import TestHub
import Testing
import TestSupport
@testable import DispatchNet
@testable import HubServer

/// The memory budget for clients and its shares.
@Suite(.timeLimit(.minutes(30))) struct MemoryLimitTests {
    @Test func budget_isAQuarter_withinItsBounds() {
        #expect(MemoryLimit.budget(ofLimit: 512 << 20) == 256 << 20)
        #expect(MemoryLimit.budget(ofLimit: 1 << 30) == 256 << 20)
        #expect(MemoryLimit.budget(ofLimit: 2 << 30) == 512 << 20)
        #expect(MemoryLimit.budget(ofLimit: 4 << 30) == 1 << 30)
        #expect(MemoryLimit.budget(ofLimit: 64 << 30) == 1 << 30)
        #expect((256 << 20...1 << 30).contains(ServerLimits().memoryBytes))
    }

    @Test func groupLimits_areThoseOfTheGroupAndAbove_ofEitherVersion() {
        let files = [
            "/sys/fs/cgroup/memory.max": "max\n", "/sys/fs/cgroup/a/memory.max": "3000000\n", "/sys/fs/cgroup/a/b/memory.max": "max\n",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "/sys/fs/cgroup/memory/x/memory.limit_in_bytes": "5000\n",
        ]
        #expect(MemoryLimit.groupLimits("0::/a/b\n") { files[$0] } == [3_000_000])
        #expect(MemoryLimit.groupLimits("0::/\n") { files[$0] } == [])
        #expect(MemoryLimit.groupLimits("5:cpu:/q\n4:pids,memory:/x\n") { files[$0] } == [5000, 9_223_372_036_854_771_712])
        #expect(MemoryLimit.groupLimits("odd\n::\n") { files[$0] } == [])
    }

    @Test func slowReaders_haveHalfAsMuch() {
        var limits = ServerLimits()
        limits.memoryBytes = 1 << 30
        #expect(limits.transport(isFilling: true).outboundTotalBytes == 512 << 20)
        limits.memoryBytes = 1 << 20
        #expect(limits.transport(isFilling: true).outboundTotalBytes == 64 << 20, "what one reader may have")
        limits.outboundBytes = 1 << 30
        #expect(limits.transport(isFilling: true).outboundTotalBytes == 1 << 30)
        limits.outboundBytes = 1 << 20
        #expect(limits.transport(isFilling: true).outboundTotalBytes == 64 << 20)
    }

    @Test func loops_areFilled_whereTheirNumberIsLeftToTheServer() throws {
        var limits = ServerLimits()
        #expect(limits.transport(isFilling: true).connectionsPerLoop == 1_000)
        limits.connectionsPerLoop = 3
        #expect(limits.transport(isFilling: true).connectionsPerLoop == 3)
        #expect(limits.transport(isFilling: false).connectionsPerLoop == 0)
        for (loops, expected) in [(0, 3), (2, 0)] {
            let server = try TestServer {
                $0.loops = loops
                $0.limits.connectionsPerLoop = 3
            }
            #expect(server.server.lanes[0].loop.settings.connectionsPerLoop == expected)
            server.stop()
        }
    }

    private func address(_ text: String) throws -> SocketAddress {
        try #require(try SocketAddress.resolve(text, port: 1000, numericOnly: true).first)
    }

    @Test func shares_areOfANetwork_andThisMachineHasAll() throws {
        var limits = ServerLimits()
        limits.memoryBytes = 1000
        let memory = ServerMemory(limits)
        #expect(memory.addressBytes == 500)
        #expect(memory.share(of: try address("10.0.0.1")).limit == 500)
        #expect(memory.share(of: try address("2001:db8::1")) === memory.share(of: try address("2001:db8::2")))
        #expect(memory.share(of: try address("2001:db8::1")) !== memory.share(of: try address("2001:db8:0:1::1")))
        #expect(memory.share(of: try address("127.0.0.1")).limit == .max)
        limits.addressMemoryBytes = 100
        limits.admission.countsLoopback = true
        #expect(ServerMemory(limits).share(of: try address("127.0.0.1")).limit == 100)
    }

    /// A customer of a provider with 65,536 networks of 64 bits leaves others a quarter.
    @Test func shares_ofAWideNetwork_areBoundedTogether() throws {
        var limits = ServerLimits()
        limits.memoryBytes = 1000
        let memory = ServerMemory(limits)
        func reserve(_ text: String, _ bytes: Int) throws -> MemoryShare.Refusal? {
            memory.share(of: try address(text)).reserve(bytes, for: .incoming)
        }
        #expect(try reserve("2001:db8:0:1::1", 500) == nil && reserve("2001:db8:0:2::1", 250) == nil)
        #expect(try reserve("2001:db8:0:3::1", 1) == .share)
        #expect(try reserve("2001:db8:1:3::1", 100) == nil && reserve("10.0.0.1", 150) == nil)
        #expect(try reserve("10.0.0.1", 1) == .process)
        memory.share(of: try address("2001:db8:0:1::1")).release(200, from: .incoming)
        #expect(try reserve("2001:db8:0:3::1", 200) == nil)
        #expect(try reserve("2001:db8:0:3::1", 1) == .share)
        limits.addressMemoryBytes = 100
        #expect(ServerMemory(limits).wideBytes == 400)
    }

    @Test func shares_thatNobodyHolds_areForgotten_othersStay() throws {
        let memory = ServerMemory(ServerLimits())
        let kept = memory.share(of: try address("10.9.9.9"))
        for i in 0..<5000 { _ = memory.share(of: try address("10.0.\(i / 250).\(i % 250)")) }
        #expect(memory.known <= 1025)
        #expect(memory.share(of: try address("10.9.9.9")) === kept)
    }

    // MARK: Turns

    /// Numbers of running and waiting works.
    private func counts(_ work: LargeWork) -> [Int] { [work.counts.running, work.counts.waiting] }

    private func work(_ change: (inout ServerLimits) -> Void) -> LargeWork {
        var limits = ServerLimits()
        change(&limits)
        return LargeWork(limits)
    }

    @Test func largeWork_ofOneAddress_leavesThreadsToOthers() throws {
        let work = work { ($0.largeRequests, $0.largeRequestsOfAddress) = (3, 2) }
        let (greedy, other) = (try address("10.0.0.1"), try address("10.0.0.2"))
        let gate = DispatchSemaphore(value: 0)
        for _ in 0..<20 { work.run(of: greedy) { gate.wait() } }
        #expect(counts(work) == [2, 18])
        let done = DispatchSemaphore(value: 0)
        work.run(of: other) { done.signal() }
        #expect(done.wait(timeout: .now() + 20) == .success, "nobody waits behind an address that has enough")
        for _ in 0..<20 { gate.signal() }
        #expect(becomes { counts(work) == [0, 0] })
    }

    @Test func largeWork_takesTurns_inOrder() throws {
        let work = work { ($0.largeRequests, $0.largeRequestsOfAddress) = (1, 1) }
        let (a, b) = (try address("10.0.0.1"), try address("10.0.0.2"))
        let gate = DispatchSemaphore(value: 0)
        let log = Mutex<[String]>([])
        work.run(of: a) { gate.wait() }
        for i in 1...3 { work.run(of: a) { log.withLock { $0.append("a\(i)") } } }
        for i in 1...2 { work.run(of: b) { log.withLock { $0.append("b\(i)") } } }
        gate.signal()
        #expect(becomes { counts(work) == [0, 0] })
        #expect(log.withLock { $0 } == ["a1", "b1", "a2", "b2", "a3"])
    }

    private final class Held: Sendable {
        private let gone: DispatchSemaphore
        init(_ gone: DispatchSemaphore) { self.gone = gone }
        deinit { gone.signal() }
    }

    @Test func largeWork_keepsNothing_ofWhatIsDone_whileTheAddressHasMore() throws {
        let work = work { ($0.largeRequests, $0.largeRequestsOfAddress) = (1, 1) }
        let (gate, gone) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let address = try address("10.0.0.1")
        work.run(of: address) { gate.wait() }
        for _ in 0..<3 {
            let held = Held(gone)
            work.run(of: address) { withExtendedLifetime(held) { gate.wait() } }
        }
        for _ in 0..<2 { gate.signal() }
        #expect(gone.wait(timeout: .now() + 20) == .success, "one of them is done, and two wait")
        for _ in 0..<2 { gate.signal() }
        while counts(work) != [0, 0] { usleep(1000) }
    }

    // MARK: Behind proxies

    @Test func requestsThroughAKnownProxy_countForTheirClients() throws {
        let proxies = try TrustedProxies(["127.0.0.1"])
        let server = try TestServer { $0.trustedProxies = proxies }
        let held = #"vigla_memory_held_bytes{purpose="incoming"}"#
        var peers: [TestSocket] = []
        for (i, client) in ["198.51.100.7", "::ffff:198.51.100.7", "198.51.100.8"].enumerated() {
            let peer = try TestSocket(port: server.port)
            let fields = "Host: localhost:9000\r\nX-Forwarded-For: \(client)\r\nContent-Length: 300000\r\n\r\n"
            try peer.send("PUT /a.json?ns=test HTTP/1.1\r\n" + fields + String(repeating: " ", count: 100_000))
            peers.append(peer)
            #expect(try server.metric(held, becomes: { $0 == (i + 1) * 2 << 16 }))
        }
        #expect(server.server.memory.share(of: try address("198.51.100.7")).used == 4 << 16)
        #expect(server.server.memory.share(of: try address("198.51.100.8")).used == 2 << 16)
        #expect(server.server.memory.share(of: try address("127.0.0.1")).used == 0)
    }

    @Test func requestsThroughAnUnknownProxy_countForIt() throws {
        let server = try TestServer()
        let peer = try TestSocket(port: server.port)
        let fields = "Host: localhost:9000\r\nX-Forwarded-For: 198.51.100.7\r\nContent-Length: 300000\r\n\r\n"
        try peer.send("PUT /a.json?ns=test HTTP/1.1\r\n" + fields + String(repeating: " ", count: 100_000))
        #expect(try server.metric(#"vigla_memory_held_bytes{purpose="incoming"}"#, becomes: { $0 == 2 << 16 }))
        #expect(server.server.memory.share(of: try address("127.0.0.1")).used == 2 << 16)
    }

    @Test func largeWork_ofThisMachine_mayHaveAllThreads() throws {
        let work = work { ($0.largeRequests, $0.largeRequestsOfAddress) = (3, 1) }
        let gate = DispatchSemaphore(value: 0)
        for _ in 0..<5 { work.run(of: try address("127.0.0.1")) { gate.wait() } }
        #expect(counts(work) == [3, 2])
        for _ in 0..<5 { gate.signal() }
    }

    // MARK: Pace

    @Test func pace_demandsSoManyBytes_inEachStretch() {
        var pace = MessagePace()
        func isTooSlow(_ message: UInt32, _ bytes: Int, _ seconds: Int) -> Bool {
            pace.isTooSlow(message, bytes, seconds: seconds, stretch: 30, demand: 300)
        }
        #expect(!isTooSlow(1, 10, 100))
        #expect(!isTooSlow(1, 309, 129))
        #expect(isTooSlow(1, 309, 130), "299 bytes in 30 seconds")
        #expect(!isTooSlow(1, 310, 130), "300")
        #expect(!isTooSlow(1, 609, 159))
        #expect(isTooSlow(1, 609, 160))
        #expect(!isTooSlow(2, 609, 160), "another message")
        pace.reset()
        #expect(!isTooSlow(2, 609, 1000))
    }
}
