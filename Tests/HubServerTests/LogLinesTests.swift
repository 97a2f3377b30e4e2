import HubServer
import Logging
import SecurityRules
import Synchronization
import Testing

/// What strangers can have written to the log.
@Suite struct LogLinesTests {
    private final class Lines: Sendable {
        private let lines = Mutex<[String]>([])
        func add(_ line: String) { lines.withLock { $0.append(line) } }
        var all: [String] { lines.withLock { $0 } }
    }

    private struct Recorder: LogHandler {
        let lines: Lines
        var logLevel = Logger.Level.info
        var metadata: Logger.Metadata = [:]
        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }
        func log(event: LogEvent) { lines.add("\(event.message)") }
    }

    @Test func unknownNamespaces_areLoggedTenTimes_howeverOftenTheyAreAskedFor() throws {
        let lines = Lines()
        var settings = ServerSettings()
        settings.port = 0
        settings.loops = 1
        settings.rules = .allowAll
        let server = try Server(settings, logger: Logger(label: "test") { _ in Recorder(lines: lines) })
        defer { server.stop {} }
        let before = lines.all.count
        let socket = try TestSocket(port: server.port)
        for i in 0..<300 { #expect(try socket.get("/x.json?ns=nothing\(i)").status == 404) }
        let written = lines.all.dropFirst(before)
        #expect(written.count == 10 && written.allSatisfy { $0 == "unknown namespace" }, "\(written.count)")
    }
}
