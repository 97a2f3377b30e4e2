import Foundation
import JSONTree
import Testing
import TestSupport

/// The program with a full disk, and once there is space again.
@Suite(.timeLimit(.minutes(30))) struct FullDiskTests {
    private static let rules = #"{"rules":{".read":true,"a":{".write":true}}}"#
    private static var isRoot: Bool { getuid() == 0 }

    /// A file system of 2 MiB that only the hub sees; the test reaches it through the hub's process.
    @Test(
        .enabled(if: isRoot && canMount, "needs root, and the right to mount")
    ) func fullFileSystem_refusesWrites_untilThereIsSpace() throws {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", Self.rules)
        try FileManager.default.createDirectory(at: folder.url.appendingPathComponent("data"), withIntermediateDirectories: true)
        let hub = try RunningHub(
            ["--port", "0", "--data", "data", "--rules", rules, "--metrics", "all"], folder: folder,
            shell: "[ -n \"$VIGLA_MOUNTED\" ] || VIGLA_MOUNTED=1 exec unshare -m --propagation private /bin/sh -c 'mount -t tmpfs -o "
                + "size=2m none data && exec \"$0\" \"$@\"' \"$0\" \"$@\";")
        let filler = "/proc/\(hub.process.processIdentifier)/root\(folder.url.path)/data/filler"
        func fill() throws {
            let descriptor = open(filler, O_WRONLY | O_CREAT | O_APPEND, 0o600)
            try #require(descriptor >= 0)
            defer { close(descriptor) }
            for size in [64 << 10, 4 << 10, 1 << 10] {
                let bytes = [UInt8](repeating: 0, count: size)
                while Glibc.write(descriptor, bytes, size) > 0 {}
            }
        }
        try refusesAndRecovers(hub, reason: "disk_full", fill: fill) { #expect(unlink(filler) == 0) }
        #expect(hub.stop() == 0)
    }

    /// A file size limit, which needs no privilege: the disk refuses for another reason.
    @Test(.enabled(if: hasPrlimit, "needs prlimit")) func fileThatMayNotGrow_refusesWrites_untilItMay_andNothingIsLost() throws {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", Self.rules)
        let arguments = ["--port", "0", "--data", "data", "--rules", rules, "--metrics", "all"]
        let hub = try RunningHub(arguments, folder: folder)
        func limit(_ bytes: String) throws {
            let result = try Command.run(["--pid", "\(hub.process.processIdentifier)", "--fsize=\(bytes)"], program: "/usr/bin/prlimit")
            #expect(result.code == 0, "\(result.error)")
        }
        let kept = try refusesAndRecovers(hub, reason: "disk_failed", fill: { try limit("4096:unlimited") }) {
            try limit("unlimited:unlimited")
        }
        // Also refused at shutdown: the next start finds exactly the acknowledged writes.
        try limit("4096:unlimited")
        let socket = try RealtimeSocket(url: hub.url)
        #expect(try socket.ask("p", "/a/late", ",\"d\":1").status == "unavailable")
        #expect(hub.stop() == 0)
        let next = try RunningHub(arguments, folder: folder)
        #expect(try RealtimeSocket(url: next.url).ask("g", "/").value == kept)
    }

    /// - Returns: the final content.
    @discardableResult
    private func refusesAndRecovers(_ hub: RunningHub, reason: String, fill: () throws -> Void, free: () throws -> Void) throws -> Node {
        let (writer, watcher, leaver) = (
            try RealtimeSocket(url: hub.url), try RealtimeSocket(url: hub.url), try RealtimeSocket(url: hub.url))
        var truth: Node = ["a": ["kept": 1]]
        #expect(try writer.ask("p", "/a/kept", ",\"d\":1").status == "ok")
        #expect(try leaver.ask("o", "/a/left", ",\"d\":true").status == "ok")
        #expect(try watcher.ask("q", "/a", ",\"h\":\"\"").status == "ok")
        #expect(try hub.page("/.health").hasSuffix("{\"status\":\"ok\"}\n"))
        try fill()
        let long = String(repeating: "x", count: 100_000)
        // Writes that still fit may be stored.
        var refusal: RealtimeSocket.Answer?
        for i in 0..<100 {
            let answer = try writer.ask("m", "/a", ",\"d\":{\"m\(i)/x\":\"\(long)\",\"n\(i)\":\(i)}")
            if answer.status == "ok" {
                truth.set(.string(Text(long)), at: try Path(parsing: "a/m\(i)/x"))
                truth.set(.int(Int64(i)), at: try Path(parsing: "a/n\(i)"))
            } else {
                refusal = answer
                break
            }
        }
        let refused = try #require(refusal, "the disk never refuses")
        #expect(
            refused.status == "unavailable" && refused.text.contains("disk") && refused.text.contains("Nothing of this write was stored"))

        // The socket stays open; reads and observers continue with the stored content.
        #expect(try writer.ask("g", "/").value == truth)
        for i in 0..<50 { #expect(try writer.ask("p", "/a/small", ",\"d\":\(i)").status == "unavailable") }
        #expect(try writer.ask("p", "/elsewhere", ",\"d\":1").status == "permission_denied")
        #expect(try writer.ask("o", "/a/later", ",\"d\":1").status == "unavailable")
        let late = try RealtimeSocket(url: hub.url)
        #expect(try late.ask("q", "/a", ",\"h\":\"\"").status == "ok")
        #expect(late.pushes.last?.value == truth.child("a"))
        let health = try hub.page("/.health")
        #expect(health.hasPrefix("HTTP/1.1 200") && health.contains("\"status\":\"degraded\",\"reason\":\"\(reason)\""))
        #expect(try hub.page("/.health/ready").hasPrefix("HTTP/1.1 503"))
        #expect(try hub.page("/.metrics").contains("vigla_degraded{namespace=\"default\"} 1\n"))
        #expect(try hub.page("/.metrics").contains("vigla_degraded_reason{namespace=\"default\",reason=\"\(reason)\"} 1\n"))
        #expect(try Command.run("health", hub.url).code == 0)
        // The disconnect writes of a client that leaves now are written later.
        _ = consume leaver

        try free()
        #expect(try becomes { try writer.ask("p", "/a/again", ",\"d\":2").status == "ok" })
        truth.set(2, at: "a/again")
        truth.set(true, at: "a/left")
        #expect(try becomes { try writer.ask("g", "/a/left").value == true })
        #expect(try writer.ask("g", "/").value == truth)
        // No observer has seen a refused write.
        _ = try watcher.ask("g", "/a/kept")
        var cache = Node.null
        for push in watcher.pushes { cache.set(push.value, at: try Path(parsing: push.path)) }
        #expect(cache == truth)
        for push in watcher.pushes { #expect(!push.path.contains("small")) }
        #expect(try hub.page("/.health").hasSuffix("{\"status\":\"ok\"}\n"))
        #expect(try hub.page("/.health/ready").hasPrefix("HTTP/1.1 200"))
        #expect(try hub.page("/.metrics").contains("vigla_degraded{namespace=\"default\"} 0\n"))
        #expect(try !hub.page("/.metrics").contains("vigla_degraded_reason{"))
        let lines = hub.error.split(separator: "\n")
        #expect(lines.count { $0.contains("writes cannot be stored") } == 1, "once, not per write")
        #expect(lines.count { $0.contains("writes are stored again") } == 1)
        return truth
    }

    private static let hasPrlimit = FileManager.default.isExecutableFile(atPath: "/usr/bin/prlimit")

    private static let canMount: Bool = {
        guard let folder = try? TemporaryFolder() else { return false }
        let command = "unshare -m --propagation private mount -t tmpfs -o size=64k none \(folder.url.path)"
        return (try? Command.run(["-c", command], program: "/bin/sh"))?.code == 0
    }()
}
