import Dispatch
import DispatchNet
import Glibc
import HubEngine
import JSONTree
import TestHub
import Testing
import TestSupport
@testable import HubServer

/// Clients that read too slowly or send requests too fast, on real sockets.
@Suite(.timeLimit(.minutes(30))) struct BackPressureTests {
    private func put(_ number: Int, _ path: String, _ json: String) -> String {
        #"{"t":"d","d":{"r":\#(number),"a":"p","b":{"p":"\#(path)","d":\#(json)}}}"#
    }
    private func listen(_ number: Int, _ path: String) -> String { #"{"t":"d","d":{"r":\#(number),"a":"q","b":{"p":"\#(path)","h":""}}}"# }

    private func tight(_ settings: inout ServerSettings, softMs: Int = 30_000) {
        settings.limits.net.outboundSoftBytes = 50_000
        settings.limits.net.outboundSoftMs = softMs
        settings.limits.net.sendBufferBytes = 8_000
    }

    /// A writer and a number of readers in step, and one reader that does not read.
    private func storm(_ server: TestServer, rounds: Int, others: Int) throws -> TestSocket {
        let stalled = try server.realtime(receiveBuffer: 4096).socket
        try stalled.sendText(listen(1, "/a"))
        #expect(try stalled.text().contains(#""r":1"#))
        let readers = try (0..<others).map { _ in try server.realtime().socket }
        for reader in readers {
            try reader.sendText(listen(1, "/a"))
            #expect(try reader.text().contains(#""r":1"#))
        }
        let writer = try server.realtime().socket
        let padding = String(repeating: "x", count: 4000)
        for round in 1...rounds {
            try writer.sendText(put(round, "/a", #"{"n":\#(round),"p":"\#(padding)"}"#))
            #expect(try writer.text().contains(#""r":\#(round),"#))
            for reader in readers { #expect(try reader.text().contains(#""n":\#(round),"#), "every change, in order") }
        }
        return stalled
    }

    @Test func stalledReader_isConflated_othersGetEverything_andItConvergesWhenItReads() throws {
        let server = try TestServer { tight(&$0) }
        let stalled = try storm(server, rounds: 60, others: 50)
        #expect(try server.metric(#"vigla_suspended_clients{namespace="test"}"#) == 1)
        #expect(try server.metric(#"vigla_conflated_changes_total{namespace="test"}"#) > 5)
        #expect(try server.metric("vigla_backlog_bytes") < 120_000, "what waits is bounded")
        #expect(try server.metric("vigla_congestions_total") == 1)
        var seen = 0
        var messages = 0
        while seen < 60 {
            let text = try stalled.text()
            let number = try #require(text.firstRange(of: #""n":"#).flatMap { Int(text[$0.upperBound...].prefix { $0.isNumber }) })
            #expect(number > seen, "nothing older after newer")
            seen = number
            messages += 1
        }
        #expect(messages < 60)
        try stalled.sendText(put(2, "/b", "1"))
        #expect(try stalled.text().contains(#""r":2"#))
        #expect(try server.metric(#"vigla_suspended_clients{namespace="test"}"#) == 0)
    }

    @Test func stalledReader_isClosedAfterItsTime_withItsReason() throws {
        let server = try TestServer { tight(&$0, softMs: 300) }
        let stalled = try storm(server, rounds: 60, others: 1)
        #expect(try server.metric(#"vigla_connections_closed_total{reason="write_stalled"}"#) { $0 == 1 })
        #expect(try server.metric("vigla_backlog_bytes") == 0)
        #expect(try server.metric(#"vigla_suspended_clients{namespace="test"}"#) { $0 == 0 })
        _ = stalled
    }

    @Test func readerOverTheHardLimit_isClosed() throws {
        let server = try TestServer {
            tight(&$0)
            $0.limits.net.outboundHardBytes = 100_000
        }
        let greedy = try server.realtime(receiveBuffer: 4096).socket
        let writer = try server.realtime().socket
        try writer.sendText(put(1, "/big", "\"" + String(repeating: "x", count: 300_000) + "\""))
        _ = try writer.text()
        try greedy.sendText(#"{"t":"d","d":{"r":1,"a":"g","b":{"p":"/big","q":{}}}}"#)
        #expect(try server.metric(#"vigla_connections_closed_total{reason="write_overflow"}"#) { $0 == 1 })
    }

    @Test func longPollingReaderThatDoesNotPoll_isConflated_andConverges() throws {
        let server = try TestServer { tight(&$0) }
        let peer = try LongPollPeer(server)
        try peer.poll(listen(1, "/a"))
        let listened = try peer.messages(1).count
        let writer = try server.realtime().socket
        let padding = String(repeating: "x", count: 4000)
        for round in 1...60 {
            try writer.sendText(put(round, "/a", #"{"n":\#(round),"p":"\#(padding)"}"#))
            #expect(try writer.text().contains(#""r":\#(round),"#))
        }
        #expect(try server.metric(#"vigla_conflated_changes_total{namespace="test"}"#) > 5)
        var last: Node = .null
        while last != .int(60) {
            try peer.wait()
            last = peer.heard.last?.node(at: "d/b/d/n") ?? .null
        }
        #expect(peer.heard.count < listened + 60)
        #expect(try server.metric(#"vigla_suspended_clients{namespace="test"}"#) { $0 == 0 })
    }

    @Test func longPollingReaderThatStaysAway_isEndedAfterItsTime() throws {
        let server = try TestServer { tight(&$0, softMs: 1000) }
        let peer = try LongPollPeer(server)
        try peer.poll(listen(1, "/a"))
        _ = try peer.messages(1)
        let writer = try server.realtime().socket
        let padding = String(repeating: "x", count: 4000)
        for round in 1...20 {
            try writer.sendText(put(round, "/a", #"{"n":\#(round),"p":"\#(padding)"}"#))
            _ = try writer.text()
        }
        #expect(try server.metric("vigla_long_polling_sessions") { $0 == 0 })
    }

    @Test func clientThatAsksTooMuch_isReadNoMore_untilItIsAnswered() throws {
        let server = try TestServer { $0.limits.requestBytes = 100_000 }
        let client = try server.realtime().socket
        let database = try #require(server.server.hub.database("test"))
        let gate = DispatchSemaphore(value: 0)
        database.queue.async { gate.wait() }
        let count = 8000
        let done = DispatchSemaphore(value: 0)
        let requests = (1...count).map { put($0, "/k/\($0)", "\"" + String(repeating: "x", count: 1000) + "\"") }
        nonisolated(unsafe) let sender = client  // its sending half; the test reads
        DispatchQueue.global().async {
            for request in requests { try? sender.sendText(request) }
            done.signal()
        }
        #expect(becomes { database.counters.waitingBytes >= 100_000 })
        // It sends eight megabytes in total; the hub holds no more than the limit and a read or two.
        for _ in 0..<200 {
            #expect(database.counters.waitingBytes < 1_000_000)
            usleep(1000)
        }
        gate.signal()
        for number in 1...count { #expect(try client.text().contains(#""r":\#(number),"#)) }
        done.wait()
        #expect(database.counters.waitingBytes == 0)
    }

    @Test func smallRequests_areTakenSomeHundredsAtATime_andNoneIsLost() throws {
        let server = try TestServer()
        let client = try server.realtime().socket
        let database = try #require(server.server.hub.database("test"))
        let gate = DispatchSemaphore(value: 0)
        database.queue.async { gate.wait() }
        // An app that observes a lot starts like this: all at once.
        let count = 2000
        let requests = (1...count).map { listen($0, "/k/\($0)/" + String(repeating: "p", count: 400)) }
        let done = DispatchSemaphore(value: 0)
        nonisolated(unsafe) let sender = client  // its sending half; the test reads
        DispatchQueue.global().async {
            for request in requests { try? sender.sendText(request) }
            done.signal()
        }
        let cost = server.server.settings.limits.requestOverheadBytes + 450
        let most = server.server.settings.limits.requestBytes / cost + (128 << 10) / 450
        #expect(becomes { database.counters.waitingBytes >= 1 << 20 })
        // A million bytes are sent; the hub holds no more than the limit and one read.
        for _ in 0..<200 {
            #expect(database.counters.waitingBytes <= (most + 10) * (cost + 50))
            usleep(1000)
        }
        gate.signal()
        for number in 1...count { #expect(try client.text().contains(#""r":\#(number),"#)) }
        done.wait()
        #expect(database.counters.waitingBytes == 0)
        #expect(try server.metric(#"vigla_sessions{protocol="realtime"}"#) == 1)
    }

    @Test func fullDatabase_holdsThoseWhoAsk_andGoesOn() throws {
        let server = try TestServer { $0.limits.engine.waitingBytes = 1 }
        let clients = try (0..<3).map { _ in try server.realtime().socket }
        for client in clients { for number in 1...50 { try client.sendText(put(number, "/a", "\(number)")) } }
        for client in clients { for number in 1...50 { #expect(try client.text().contains(#""r":\#(number),"#)) } }
    }
}
