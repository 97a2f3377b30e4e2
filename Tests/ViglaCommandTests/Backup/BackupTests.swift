import Foundation
import Testing
import TestSupport

/// `vigla backup` with the real program while a hub is running, and the restore.
@Suite(.timeLimit(.minutes(30))) struct BackupTests {
    private func set(_ hub: RunningHub, _ place: String, _ value: String) throws {
        let result = try Command.run("set", hub.url + place, value)
        #expect(result.code == 0, "\(result.error)")
    }

    private func get(_ hub: RunningHub, _ place: String) throws -> String {
        try Command.run("get", hub.url + place).output.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    @Test func backup_besideARunningHub_isRestoredAsItWas() throws {
        let folder = try TemporaryFolder()
        let hub = try RunningHub(["--port", "0", "--dev", "--data", "data"], folder: folder)
        try set(hub, "/a", #"{"b":1}"#)
        let made = try Command.run("backup", "--data", "data", "--to", "kept/today", in: folder.url)
        #expect(made.code == 0 && made.error.isEmpty, "\(made.error)")
        #expect(made.output.hasPrefix("data is copied to kept/today (") && made.output.contains("default up to commit 1"))
        // The hub continues, and the backup does not change.
        try set(hub, "/a", #"{"b":2}"#)
        #expect(try get(hub, "/a") == #"{"b":2}"#)
        let busy = try Command.run("backup", "--restore", "--from", "kept/today", "--data", "data", in: folder.url)
        #expect(busy.code == 1 && busy.error.contains("is in use by process \(hub.process.processIdentifier)"))
        #expect(hub.stop() == 0)

        let refused = try Command.run("backup", "--restore", "--from", "kept/today", "--data", "data", in: folder.url)
        #expect(refused.code == 1 && refused.error.contains("--replace") && refused.error.contains("was not touched"))
        let again = try RunningHub(["--port", "0", "--dev", "--data", "data"], folder: folder)
        #expect(try get(again, "/a") == #"{"b":2}"#)
        // Killed, so that a log is left behind that must not be applied to the restored file.
        try set(again, "/a", #"{"b":3}"#)
        _ = again.stop(SIGKILL)
        let restored = try Command.run("backup", "--restore", "--from", "kept/today", "--data", "data", "--replace", in: folder.url)
        #expect(restored.code == 0, "\(restored.error)")
        let back = try RunningHub(["--port", "0", "--dev", "--data", "data"], folder: folder)
        #expect(try get(back, "/a") == #"{"b":1}"#)
        #expect(back.stop() == 0)
        let left = try FileManager.default.contentsOfDirectory(atPath: folder.url.appendingPathComponent("data").path).sorted()
        #expect(left == ["accounts.sqlite", "vigla.lock", "vigla.sqlite"])
    }

    @Test func backup_afterAKill_hasWhatWasAcknowledged() throws {
        let folder = try TemporaryFolder()
        let hub = try RunningHub(["--port", "0", "--dev", "--data", "data"], folder: folder)
        for i in 1...5 { try set(hub, "/n", "\(i)") }
        _ = hub.stop(SIGKILL)
        #expect(try Command.run("backup", "--data", "data", "--to", "kept", in: folder.url).code == 0)
        let other = try RunningHub(["--port", "0", "--dev", "--data", "kept"], folder: folder)
        #expect(try get(other, "/n") == "5")
        #expect(other.stop() == 0)
    }

    @Test func backup_ofADamagedFolder_isRefusedAndLeavesTheOldOne() throws {
        let folder = try TemporaryFolder()
        let hub = try RunningHub(["--port", "0", "--dev", "--data", "data"], folder: folder)
        try set(hub, "/text", "\"" + String(repeating: "somewhere in the middle ", count: 2000) + "\"")
        #expect(hub.stop() == 0)
        #expect(try Command.run("backup", "--data", "data", "--to", "kept", in: folder.url).code == 0)
        let file = folder.url.appendingPathComponent("data/vigla.sqlite")
        let kept = try Data(contentsOf: folder.url.appendingPathComponent("kept/vigla.sqlite"))
        var bytes = try Data(contentsOf: file)
        // Every copy: former versions may remain in free space of the file.
        let text = Data("in the middle".utf8)
        #expect(bytes.range(of: text) != nil)
        while let place = bytes.range(of: text) { bytes[place.lowerBound] ^= 1 }
        try bytes.write(to: file)
        let refused = try Command.run("backup", "--data", "data", "--to", "kept", "--replace", in: folder.url)
        #expect(
            refused.code == 1 && refused.error.contains("damaged (snapshot part") && refused.error.contains("backup --restore"),
            "\(refused.error)")
        #expect(try Data(contentsOf: folder.url.appendingPathComponent("kept/vigla.sqlite")) == kept)
        #expect(try FileManager.default.contentsOfDirectory(
            atPath: folder.url.appendingPathComponent("kept").path).sorted() == ["accounts.sqlite", "vigla.lock", "vigla.sqlite"])
    }

    @Test func backup_ofWhatIsNoData_saysSo() throws {
        let folder = try TemporaryFolder()
        let missing = try Command.run("backup", "--data", "nowhere", "--to", "kept", in: folder.url)
        #expect(missing.code == 1 && missing.error.contains("nowhere/vigla.sqlite") && missing.error.contains("No such file"))
        #expect(!FileManager.default.fileExists(atPath: folder.url.appendingPathComponent("kept").path))
        _ = try folder.file("other/vigla.sqlite", String(repeating: "no database ", count: 1000))
        let other = try Command.run("backup", "--data", "other", "--to", "kept", in: folder.url)
        #expect(other.code == 1 && other.error.contains("is not a Vigla data file"))
        let onto = try Command.run("backup", "--data", "other", "--to", "other", "--replace", in: folder.url)
        #expect(onto.code == 1 && onto.error.contains("was not touched"))
        for arguments in [
            ["backup"], ["backup", "--restore"], ["backup", "--to", "a", "--from", "b"], ["backup", "--restore", "--from", "a", "--to", "b"]
        ] {
            #expect(try Command.run(arguments, in: folder.url).code == 64)
        }
    }
}
