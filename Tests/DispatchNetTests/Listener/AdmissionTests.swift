import Glibc
import Testing
import TestSupport
@testable import DispatchNet

/// The admission of connections: every limit from both sides.
@Suite(.timeLimit(.minutes(30))) struct AdmissionTests {
    private static let second: UInt64 = 1_000_000_000
    /// Any time after the start of the clock.
    private static let start = 1000 * second

    private func book(_ change: (inout AdmissionLimits) -> Void) -> AdmissionBook {
        var limits = AdmissionLimits()
        change(&limits)
        return AdmissionBook(limits)
    }

    private func address(_ text: String) throws -> SocketAddress {
        try #require(try SocketAddress.resolve(text, port: 1000, numericOnly: true).first)
    }

    @Test func total_countsEverybody_andFreesWhoLeaves() throws {
        var book = book { $0.connections = 2 }
        let (one, two, local) = (try address("10.0.0.1"), try address("2001:db8::1"), try address("127.0.0.1"))
        #expect(book.admit(one, nowNs: Self.start) == nil)
        #expect(book.admit(local, nowNs: Self.start) == nil)
        #expect(book.admit(two, nowNs: Self.start) == .total)
        book.leave(local, nowNs: Self.start)
        #expect(book.admit(two, nowNs: Self.start) == nil)
        #expect(book.connections == 2 && book.refusals == [.total: 1])
    }

    @Test func perAddress_isOneIPv4Address_orOneIPv6NetworkOf64Bits() throws {
        var book = book { $0.connectionsPerAddress = 2 }
        for text in ["10.0.0.1", "10.0.0.2", "2001:db8:0:1::1", "2001:db8:0:2::1"] {
            #expect(book.admit(try address(text), nowNs: Self.start) == nil)
            #expect(book.admit(try address(text), nowNs: Self.start) == nil)
            #expect(book.admit(try address(text), nowNs: Self.start) == .address)
        }
        #expect(book.admit(try address("2001:db8:0:1:ffff::9"), nowNs: Self.start) == .address, "the same network")
        book.leave(try address("2001:db8:0:1:abcd::3"), nowNs: Self.start)
        #expect(book.admit(try address("2001:db8:0:1:ffff::9"), nowNs: Self.start) == nil)
    }

    /// A provider's customer may have 65,536 networks.
    @Test func wideNetwork_hasFourTimesTheShareOfAnAddress() throws {
        var book = book { $0.connectionsPerAddress = 2 }
        func admitted(_ prefix: String) throws -> Int {
            try (0..<20).count { book.admit(try address("\(prefix):\(String($0, radix: 16))::1"), nowNs: Self.start) == nil }
        }
        #expect(try admitted("2001:db8:1") == 8 && admitted("2001:db8:2") == 8)
        book.leave(try address("2001:db8:1:3::1"), nowNs: Self.start)
        #expect(book.admit(try address("2001:db8:1:15::1"), nowNs: Self.start) == nil)
        #expect(book.admit(try address("2001:db8:1:16::1"), nowNs: Self.start) == .address)
        #expect(book.admit(try address("10.0.0.1"), nowNs: Self.start) == nil)
    }

    @Test func loopback_isSparedThePerAddressLimits_unlessCounted() throws {
        for (counts, expected) in [(false, nil), (true, Refusal.address)] as [(Bool, Refusal?)] {
            for text in ["127.0.0.1", "::1"] {
                var book = book { $0.connectionsPerAddress = 1; $0.countsLoopback = counts }
                #expect(book.admit(try address(text), nowNs: Self.start) == nil)
                #expect(book.admit(try address(text), nowNs: Self.start) == expected)
            }
        }
    }

    @Test func addressRate_isABurst_thenSoManyASecond() throws {
        var book = book { $0.acceptsPerSecondPerAddress = 10; $0.acceptBurstPerAddress = 3 }
        let (one, other) = (try address("10.0.0.1"), try address("10.0.0.2"))
        for _ in 0..<3 { #expect(book.admit(one, nowNs: Self.start) == nil) }
        #expect(book.admit(one, nowNs: Self.start) == .addressRate)
        #expect(book.admit(other, nowNs: Self.start) == nil)
        #expect(book.admit(one, nowNs: Self.start + Self.second / 10 - 1) == .addressRate)
        #expect(book.admit(one, nowNs: Self.start + Self.second / 10) == nil)
        #expect(book.admit(one, nowNs: Self.start + Self.second / 10) == .addressRate)
        #expect(book.connections == 5 && book.refusals == [.addressRate: 3])
    }

    @Test func acceptRate_letsTheQueueWait() throws {
        var book = book { $0.acceptsPerSecond = 100; $0.acceptBurst = 2 }
        let one = try address("127.0.0.1")
        #expect(book.waitMs(nowNs: Self.start) == nil)
        _ = book.admit(one, nowNs: Self.start)
        #expect(book.waitMs(nowNs: Self.start) == nil)
        _ = book.admit(one, nowNs: Self.start)
        #expect(book.waitMs(nowNs: Self.start) == 10)
        #expect(book.waitMs(nowNs: Self.start + Self.second / 100) == nil)
    }

    @Test func addressesThatAreGone_areForgotten() throws {
        var book = book { $0.acceptBurstPerAddress = 1; $0.acceptsPerSecondPerAddress = 1000; $0.acceptBurst = 1_000_000 }
        for i in 0..<20_000 {
            let one = try address("10.\(i >> 16).\(i >> 8 & 255).\(i & 255)")
            let now = Self.start + UInt64(i) * Self.second / 100
            #expect(book.admit(one, nowNs: now) == nil)
            book.leave(one, nowNs: now)
        }
        #expect(book.known < 2100 && book.connections == 0)
    }

    @Test func refusedPeer_isClosedAtOnce_andOneMoreIsTakenWhenOneLeaves() throws {
        var limits = AdmissionLimits()
        limits.connectionsPerAddress = 2
        limits.countsLoopback = true
        let admission = Admission(limits)
        let server = try TestServer(admission: admission)
        let first = TestPeer(port: server.port)
        let second = TestPeer(port: server.port)
        for peer in [first, second] {
            peer.write([7])
            #expect(peer.read(1) == [7])
        }
        let third = TestPeer(port: server.port)
        third.write([7])
        #expect(third.read(1).isEmpty)
        #expect(admission.refusals == [.address: 1] && admission.connections == 2)
        first.finishWriting()
        #expect(first.readsEnd())
        #expect(server.ends.next() == .peerClosed)
        _ = server.counters()
        let fourth = TestPeer(port: server.port)
        fourth.write([8])
        #expect(fourth.read(1) == [8])
    }

    @Test func acceptRateOverTheLimit_delaysButTakesEverybody() throws {
        var limits = AdmissionLimits()
        limits.acceptsPerSecond = 200
        limits.acceptBurst = 1
        let server = try TestServer(admission: Admission(limits))
        let peers = (0..<10).map { _ in TestPeer(port: server.port) }
        for peer in peers {
            peer.write([7])
            #expect(peer.read(1) == [7])
        }
    }

    @Test func withoutDescriptors_newPeersAreSentAway_andLaterOnesTaken() async {
        // In a separate process: the limit is the process's.
        await #expect(processExitsWith: .success) {
            let admission = Admission(AdmissionLimits())
            let server = try TestServer(admission: admission)
            let first = TestPeer(port: server.port)
            first.write([1])
            try #require(first.read(1) == [1])
            let waiting = (0..<8).map { _ in socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0) }
            var taken: [Int32] = []
            var limit = rlimit(rlim_cur: 256, rlim_max: 256)
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            while true {
                let fd = open("/dev/null", O_RDONLY)
                if fd < 0 { break }
                taken.append(fd)
            }
            for fd in waiting { try #require(Loopback.connect(fd, port: server.port)) }
            for fd in waiting {
                var byte: UInt8 = 0
                try #require(recv(fd, &byte, 1, 0) <= 0)
            }
            try #require(admission.refusals[.descriptors] == 8)
            first.write([2])
            try #require(first.read(1) == [2])
            for fd in taken { close(fd) }
            for fd in waiting { close(fd) }
            let late = TestPeer(port: server.port)
            late.write([3])
            try #require(late.read(1) == [3])
        }
    }
}
