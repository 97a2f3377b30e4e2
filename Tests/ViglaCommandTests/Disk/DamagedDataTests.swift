import Foundation
import JSONTree
import Testing
import TestSupport

/// A data folder that the program cannot use: it exits with a code and a text that says what to do, and changes nothing. It never serves other
/// content than was stored.
@Suite(.timeLimit(.minutes(30))) struct DamagedDataTests {
    private func fails(_ folder: TemporaryFolder, code: Int32 = 1, _ texts: String...) throws {
        let result = try Command.run(["serve", "--port", "0", "--data", "data"], in: folder.url)
        #expect(result.code == code && result.output.isEmpty)
        for text in texts { #expect(result.error.contains(text), "\(result.error)") }
    }

    @Test func secondProcess_isToldWhoHasTheFolder() throws {
        let folder = try TemporaryFolder()
        let hub = try RunningHub(["--port", "0", "--data", "data"], folder: folder)
        try fails(folder, "in use by process \(hub.process.processIdentifier)", "Stop that server or choose another folder with --data")
        #expect(hub.stop(SIGKILL) == SIGKILL)
        let next = try RunningHub(["--port", "0", "--data", "data"], folder: folder)
        #expect(next.stop() == 0, "a killed process holds nothing")
    }

    @Test(.enabled(if: getuid() != 0 || canMount, "root may write everywhere, and may not mount here"))
    func readOnlyFolder_isNamed_andWhatToDo() throws {
        let folder = try TemporaryFolder()
        let data = folder.url.appendingPathComponent("data").path
        try FileManager.default.createDirectory(atPath: data, withIntermediateDirectories: true)
        if getuid() != 0 {
            chmod(data, 0o500)
            try fails(folder, code: 78, "data may not be written by this user", "choose another folder")
            chmod(data, 0o700)
        } else {
            let program = Command.folder.appendingPathComponent("vigla").path
            let command = "mount -t tmpfs -o ro none data && exec \(program) serve --port 0 --data data"
            let result = try Command.run(
                ["-c", "exec unshare -m --propagation private /bin/sh -c '\(command)'"], in: folder.url, program: "/bin/sh")
            #expect(result.code == 78)
            #expect(
                result.error.contains("data is on a file system that is mounted read-only")
                && result.error.contains("choose another folder"))
        }
    }

    @Test func fileOfSomethingElse_andFileThatIsNone_areRefused() throws {
        let folder = try TemporaryFolder()
        _ = try folder.file("data/vigla.sqlite", String(repeating: "not a database\n", count: 1000))
        try fails(folder, "not a Vigla data file", "Choose another folder")
        let other = try TemporaryFolder()
        try FileManager.default.createDirectory(
            at: other.url.appendingPathComponent("data/vigla.sqlite"), withIntermediateDirectories: true)
        try fails(other, "data/vigla.sqlite", "Check that")
    }

    /// Stored data with one bit flipped, or its end cut off, at many places: the start finds the stored content, or refuses. An unchecked checksum
    /// would sooner or later serve wrong content.
    @Test func flippedBitsAndLostEnds_areFound_orHarmless() throws {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", #"{"rules":{".read":true,".write":true}}"#)
        let arguments = ["--port", "0", "--data", "data", "--rules", rules, "--log-level", "error"]
        // A snapshot and rows after it.
        let first = try RunningHub(arguments, folder: folder)
        var socket = try RealtimeSocket(url: first.url)
        for i in 0..<40 {
            #expect(try socket.ask(
                "p", "/a/k\(i)", ",\"d\":{\"text\":\"\(String(repeating: "abc\(i)", count: 60))\",\"n\":\(i)}").status == "ok")
        }
        #expect(first.stop() == 0)
        let second = try RunningHub(arguments, folder: folder)
        socket = try RealtimeSocket(url: second.url)
        for i in 0..<20 { #expect(try socket.ask("p", "/b/k\(i)", ",\"d\":\"\(String(repeating: "def\(i)", count: 60))\"").status == "ok") }
        let truth = try socket.ask("g", "/").value
        #expect(second.stop(SIGKILL) == SIGKILL)
        let data = folder.url.appendingPathComponent("data")
        let names = try FileManager.default.contentsOfDirectory(atPath: data.path).filter { $0 != "vigla.lock" && !$0.hasSuffix("-shm") }
        let files = try names.map { (name: $0, bytes: try Data(contentsOf: data.appendingPathComponent($0))) }.filter { !$0.bytes.isEmpty }
        var (refused, harmless) = (0, 0)
        for i in 0..<24 {
            for file in try FileManager.default.contentsOfDirectory(atPath: data.path) {
                try FileManager.default.removeItem(at: data.appendingPathComponent(file))
            }
            for file in files { try file.bytes.write(to: data.appendingPathComponent(file.name)) }
            // The first damage is never harmless: it hits the snapshot, wherever in the file that is.
            let database = try #require(files.first { $0.name == "vigla.sqlite" })
            let (name, bytes) = i == 0 ? database : files[i % files.count]
            var damaged = bytes
            if i == 0 {
                while let place = damaged.range(of: Data("abc7abc7".utf8)) { damaged[place.lowerBound] ^= 1 }
            } else if i % 4 == 3 {
                damaged = bytes.prefix(Int.random(in: 0..<bytes.count))
            } else {
                damaged[Int.random(in: 0..<bytes.count)] ^= 1 << UInt8.random(in: 0..<8)
            }
            try damaged.write(to: data.appendingPathComponent(name))
            do {
                let hub = try RunningHub(arguments, folder: folder)
                guard let found = try? RealtimeSocket(url: hub.url).ask("g", "/").value else {
                    Issue.record("\(name), \(i): no answer: \(hub.error)")
                    return
                }
                #expect(found == truth, "\(name), \(i)")
                harmless += 1
                #expect(hub.stop(SIGKILL) == SIGKILL)
            } catch let error as RunningHub.NotReady {
                #expect(error.error.contains("data could not be opened") && (
                    error.error.contains("damaged") || error.error.contains("not a Vigla data file")
                    || error.error.contains("Use the version that wrote it")), "\(error.error)")
                refused += 1
            }
        }
        #expect(refused > 0, "\(harmless) harmless")
    }

    /// One bit of SQLite's log is flipped after a kill: SQLite silently drops everything after it.
    @Test func flippedBit_inTheLog_afterAKill_isRefused_unlessTheLossIsAccepted() throws {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", #"{"rules":{".read":true,".write":true}}"#)
        let arguments = ["--port", "0", "--data", "data", "--rules", rules]
        let data = folder.url.appendingPathComponent("data")
        let hub = try RunningHub(arguments, folder: folder)
        let socket = try RealtimeSocket(url: hub.url)
        for i in 0..<50 { #expect(try socket.ask("p", "/a/k\(i)", ",\"d\":\(i)").status == "ok") }
        #expect(hub.stop(SIGKILL) == SIGKILL)
        let names = ["vigla.sqlite", "vigla.sqlite-wal", "vigla.mark"]
        let files = try names.map { try Data(contentsOf: data.appendingPathComponent($0)) }
        func count(_ hub: RunningHub) throws -> Int {
            let found = try RealtimeSocket(url: hub.url).ask("g", "/a").value
            let count = found.childCount
            #expect((0..<count).allSatisfy { found.child(Key("k\($0)")) == .int(Int64($0)) })
            return count
        }
        var refused = 0
        for round in 0..<10 {
            for (name, bytes) in zip(names, files) {
                var bytes = bytes
                if name.hasSuffix("-wal"), round > 0 {
                    // After its last commit it is empty.
                    let end = try #require(bytes.lastIndex { $0 != 0 })
                    bytes[Int.random(in: 0..<end)] ^= 1 << UInt8.random(in: 0..<8)
                }
                try bytes.write(to: data.appendingPathComponent(name))
            }
            do {
                let hub = try RunningHub(arguments, folder: folder)
                #expect(try count(hub) == 50)
                #expect(hub.stop(SIGKILL) == SIGKILL)
            } catch let error as RunningHub.NotReady {
                refused += 1
                #expect(
                    error.error.contains("vigla.sqlite-wal is damaged: it is sound") && error.error.contains("vigla serve --accept-loss"),
                    "\(error.error)")
                #expect(try Command.run(["export", "data", "out.json"], in: folder.url).code == 1)
                #expect(try Command.run(["backup", "--data", "data", "--to", "copy"], in: folder.url).code == 1)
                let hub: RunningHub
                if round % 2 == 0 {
                    hub = try RunningHub(arguments + ["--accept-loss"], folder: folder)
                } else {
                    hub = try RunningHub(arguments, environment: ["VIGLA_ACCEPT_LOSS": "true"], folder: folder)
                }
                let left = try count(hub)
                #expect(left < 50 && hub.error.contains("the data was damaged"), "\(hub.error)")
                if let named = error.error.firstMatch(of: /sound up to commit ([0-9]+) of namespace default/)?.output.1 {
                    #expect(Int(named).map { $0 == left } == true)
                }
                #expect(hub.stop(SIGKILL) == SIGKILL)
                let next = try RunningHub(arguments, folder: folder)
                #expect(try count(next) == left)
                #expect(next.stop() == 0)
            }
        }
        #expect(refused > 5)
    }

    private static let canMount: Bool = {
        guard let folder = try? TemporaryFolder() else { return false }
        let command = "unshare -m --propagation private mount -t tmpfs -o size=64k none \(folder.url.path)"
        return (try? Command.run(["-c", command], program: "/bin/sh"))?.code == 0
    }()
}
