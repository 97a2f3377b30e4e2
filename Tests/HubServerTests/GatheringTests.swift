import Dispatch
import DispatchNet
import HubEngine
@testable import HubServer
import TestHub
import Testing
import TestSupport

/// Net loops pause while many writes wait for the disk, so that requests come together.
@Suite(.timeLimit(.minutes(30))) struct GatheringTests {
    /// Two clients ask at once, in as many rounds or until the loop has paused.
    /// - Returns: how often it has.
    private func pauses(rounds: Int, op: String = "set", _ configure: (inout ServerSettings) -> Void) throws -> Int {
        let folder = try TemporaryFolder()
        let server = try TestServer { settings in
            settings.loops = 1
            settings.dataFolder = folder.path
            // The loops' own gathering is off.
            settings.limits.net.gatherUs = 0
            settings.limits.engine.crowdCommits = 2
            settings.limits.engine.crowdSlowMs = 60_000
            configure(&settings)
        }
        defer {
            server.stop()
            withExtendedLifetime(folder) {}
        }
        let loop = server.server.lanes[0].loop
        let sockets = try (0..<2).map { _ in
            let socket = try TestSocket(port: server.port)
            try socket.upgrade("/.observe?ns=test")
            return socket
        }
        for round in 1...rounds where loop.counters.gatherings == 0 {
            let (gate, held) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
            loop.execute {
                held.signal()
                gate.wait()
            }
            held.wait()
            defer { gate.signal() }
            for (i, socket) in sockets.enumerated() {
                try socket.sendText(#"{"id":\#(round),"op":"\#(op)","path":"/p\#(i)"\#(op == "set" ? ",\"value\":\(round)" : "")}"#)
            }
            gate.signal()
            for socket in sockets { #expect(try socket.text().hasPrefix(#"{"id":\#(round),"ok""#)) }
        }
        return loop.counters.gatherings
    }

    @Test func writesThatWaitForTheDisk_haveTheLoopPause() throws {
        #expect(try pauses(rounds: 1_000) { _ in } > 0)
    }

    @Test func fewWrites_aLimitOfZero_orReads_doNot() throws {
        #expect(try pauses(rounds: 100) { $0.limits.engine.crowdCommits = 3 } == 0)
        #expect(try pauses(rounds: 100) { $0.limits.engine.crowdPauseUs = 0 } == 0)
        #expect(try pauses(rounds: 100, op: "get") { _ in } == 0)
    }
}
