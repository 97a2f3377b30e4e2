import HubServer
import Journal
import Logging
import Scheduling
import SecurityRules
import TestHub
import Testing
import TestSupport

/// What strangers can cause to be logged.
@Suite(.timeLimit(.minutes(30))) struct LogLinesTests {
    @Test func unknownNamespaces_areLoggedTenTimes_howeverOftenTheyAreAskedFor() throws {
        let lines = LineLog(.info) { "\($0.message)" }
        var settings = ServerSettings()
        settings.port = 0
        settings.loops = 1
        settings.rules = .allowAll
        let server = try Server(settings, scheduler: .system(), logger: lines.logger) { MemoryStorage() }
        defer { server.stop {} }
        let before = lines.all.count
        let socket = try TestSocket(port: server.port)
        for i in 0..<300 { #expect(try socket.get("/x.json?ns=nothing\(i)").status == 404) }
        let written = lines.all.dropFirst(before)
        #expect(written.count == 10 && written.allSatisfy { $0 == "unknown namespace" }, "\(written.count)")
    }
}
