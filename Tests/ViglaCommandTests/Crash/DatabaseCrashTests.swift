import Foundation
import Testing
import TestSupport

/// A hub that is killed while an administrator removes or creates a database has it afterwards as it was, or not at all.
@Suite(.timeLimit(.minutes(30))) struct DatabaseCrashTests {
    private static let open = #"{"rules":{".read":true,".write":true}}"#

    @Test(arguments: ["drop.before", "drop.after", "truncate", nil]) func kill9_leavesADatabaseThereOrGone(point: String?) throws {
        let folder = try TemporaryFolder()
        _ = try folder.file("open.json", Self.open)
        func start(_ point: String? = nil) throws -> RunningHub {
            try RunningHub(
                ["--port", "0", "--data", "data", "--rules", "open.json"], environment: point.map { ["VIGLA_FAULT": $0] } ?? [:],
                folder: folder)
        }
        func run(_ hub: RunningHub, _ arguments: String...) throws -> Command.Result {
            try Command.run(arguments + ["--auth-file", "data/admin-secret.txt"], in: folder.url)
        }
        var hub = try start()
        for name in ["a", "b"] {
            #expect(try run(hub, "database", "create", hub.url, name, "--rules", "open.json").code == 0)
            #expect(try run(hub, "set", "\(hub.url)/x?ns=\(name)", "1").code == 0)
        }
        #expect(try run(hub, "user", "add", "\(hub.url)?ns=a", "--uid", "ana", "--no-password").code == 0)
        // Killed, so that the next start has nothing to tidy up, which would pass a fault point.
        #expect(hub.stop(SIGKILL) == SIGKILL)
        hub = try start(point)
        let removal = try run(hub, "database", "remove", hub.url, "a", "--yes")
        if point == nil {
            #expect(removal.code == 0, "\(removal.error)")
            #expect(hub.stop(SIGKILL) == SIGKILL)
        } else {
            // At "truncate" it has answered, and is removing the rows.
            hub.process.waitUntilExit()
        }
        hub = try start()
        let names = try run(hub, "database", "list", hub.url).output
        let isThere = names.contains("a ") && names.split(separator: "\n").contains { $0.hasPrefix("a ") }
        #expect(isThere == (point == "drop.before"), "\(names)")
        #expect(try run(hub, "get", "\(hub.url)/x?ns=b").output == "1\n")
        if isThere {
            #expect(try run(hub, "get", "\(hub.url)/x?ns=a").output == "1\n")
            #expect(try run(hub, "user", "list", "\(hub.url)?ns=a").output.contains("ana"))
            return #expect(hub.stop() == 0)
        }
        #expect(!FileManager.default.fileExists(atPath: folder.at("data/accounts-a.sqlite")))
        // A new one of the name has nothing of it, and the folder passes the check of a backup.
        #expect(try run(hub, "database", "create", hub.url, "a").code == 0)
        #expect(try run(hub, "get", "\(hub.url)/x?ns=a").output == "null\n")
        #expect(!(try run(hub, "user", "list", "\(hub.url)?ns=a").output.contains("ana")))
        #expect(hub.stop() == 0)
        let backup = try Command.run("backup", "--data", "data", "--to", "copy", in: folder.url)
        #expect(backup.code == 0, "\(backup.error)")
    }
}
