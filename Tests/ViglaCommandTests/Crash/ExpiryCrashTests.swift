import Foundation
import TestSupport
import Testing

/// Nodes expire once, whenever the hub is killed.
@Suite(.timeLimit(.minutes(30))) struct ExpiryCrashTests {
    private static let rules = #"""
        {"rules":{".read":true,".write":true,
          "a":{"$x":{".expire":{"at":"data.val()","log":"log","value":"$x"}}},
          "w":{"$x":{".expire":{"at":"written + 1500","log":"log","value":"$x"}}}}}
        """#

    private func object(_ text: String) throws -> [String: Any] {
        try JSONSerialization.jsonObject(with: Data(text.utf8), options: .fragmentsAllowed) as? [String: Any] ?? [:]
    }

    @Test func killedHub_endsEachNodeOnce() async throws {
        let folder = try TemporaryFolder()
        _ = try folder.file("rules.json", Self.rules)
        func start() throws -> RunningHub {
            try RunningHub(["--port", "0", "--data", "data", "--rules", "rules.json", "--dev"], folder: folder)
        }
        var hub = try start()
        let begin = Int(Date().timeIntervalSince1970 * 1000) + 500
        let nodes = (0..<400).map { "\"k\($0)\":\(begin + $0 * 6)" }.joined(separator: ",")
        #expect(try Command.run("set", hub.url + "/a", "{\(nodes)}").code == 0)
        #expect(try Command.run("set", hub.url + "/w", "{\"u\":1,\"v\":1}").code == 0)
        // Killed three times while nodes expire.
        for _ in 0..<3 {
            try await Task.sleep(for: .milliseconds(600))
            #expect(hub.stop(SIGKILL) == SIGKILL)
            hub = try start()
        }
        let end = Date(timeIntervalSinceNow: 60)
        var left = 1
        while left > 0, Date() < end {
            try await Task.sleep(for: .milliseconds(100))
            left = try object(Command.run("get", hub.url + "/a").output).count + object(Command.run("get", hub.url + "/w").output).count
        }
        let rows = try object(Command.run("get", hub.url + "/log").output).values.compactMap { $0 as? String }
        #expect(left == 0 && rows.count == 402 && Set(rows).count == 402, "\(left) left, \(rows.count) rows of \(Set(rows).count)")
    }

    /// A node that an import replaces counts as written at the import.
    @Test func importedNode_isWrittenThen_whateverStoodThereBefore() async throws {
        let folder = try TemporaryFolder()
        _ = try folder.file("rules.json", #"""
            {"rules":{".read":true,".write":true,"w":{"$x":{".expire":{"at":"written + 2000","log":"log","value":"written"}}}}}
            """#)
        _ = try folder.file("in.json", #"{"w":{"u":2}}"#)
        func start() throws -> RunningHub {
            try RunningHub(["--port", "0", "--data", "data", "--rules", "rules.json", "--dev"], folder: folder)
        }
        var hub = try start()
        #expect(try Command.run("set", hub.url + "/w", "{\"u\":1}").code == 0)
        #expect(hub.stop() == 0)
        let imported = Int(Date().timeIntervalSince1970 * 1000)
        #expect(try Command.run("import", "data", "in.json", in: folder.url).code == 0)
        hub = try start()
        let end = Date(timeIntervalSinceNow: 60)
        var rows: [Int] = []
        while rows.isEmpty, Date() < end {
            try await Task.sleep(for: .milliseconds(100))
            rows = try object(Command.run("get", hub.url + "/log").output).values.compactMap { $0 as? Int }
        }
        #expect(rows.count == 1 && rows.allSatisfy { $0 >= imported }, "\(rows), imported at \(imported)")
    }
}
