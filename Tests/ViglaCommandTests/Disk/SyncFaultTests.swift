import Foundation
import JSONTree
import Testing
import TestSupport

/// The disk accepts writes and then fails to sync them: the write is refused, and the next start must find what the answer said. A small preloaded
/// library makes the disk fail.
@Suite(.timeLimit(.minutes(30))) struct SyncFaultTests {
    private static let rules = #"{"rules":{".read":true,".write":true}}"#
    private static let compiler = "/usr/bin/cc"
    private static let hasCompiler = FileManager.default.isExecutableFile(atPath: compiler)

    private static let shim = """
        #define _GNU_SOURCE
        #include <errno.h>
        #include <stdlib.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        /* Fails once for each file of the one name, and while a file of the other is there. */
        static int fails(void) {
            const char *once = getenv("FAIL_SYNC_ONCE"), *always = getenv("FAIL_SYNC");
            if ((once && unlink(once) == 0) || (always && access(always, F_OK) == 0)) { errno = EIO; return 1; }
            return 0;
        }
        int fsync(int fd) { return fails() ? -1 : (int) syscall(SYS_fsync, fd); }
        int fdatasync(int fd) { return fails() ? -1 : (int) syscall(SYS_fdatasync, fd); }
        """

    private struct Bench {
        let folder: TemporaryFolder
        let hub: RunningHub
        let arguments: [String]
        func fail(_ name: String) {
            _ = FileManager.default.createFile(atPath: folder.url.appendingPathComponent(name).path, contents: nil)
        }
        func mend() throws { try FileManager.default.removeItem(at: folder.url.appendingPathComponent("always")) }
        /// Restarts after a kill, with a working disk.
        func found() throws -> Node {
            #expect(hub.stop(SIGKILL) == SIGKILL)
            let next = try RunningHub(arguments, folder: folder)
            defer { #expect(next.stop() == 0) }
            return try RealtimeSocket(url: next.url).ask("g", "/").value
        }
    }

    private func bench() throws -> Bench {
        let folder = try TemporaryFolder()
        let rules = try folder.file("rules.json", Self.rules)
        let library = folder.url.appendingPathComponent("shim.so").path
        let built = try Command.run(
            ["-shared", "-fPIC", "-o", library, try folder.file("shim.c", Self.shim)], environment: ["PATH": "/usr/bin:/bin"],
            program: Self.compiler)
        try #require(built.code == 0, "\(built.error)")
        let arguments = ["--port", "0", "--data", "data", "--rules", rules, "--log-level", "error"]
        let environment = [
            "LD_PRELOAD": library, "FAIL_SYNC_ONCE": folder.url.appendingPathComponent("once").path,
            "FAIL_SYNC": folder.url.appendingPathComponent("always").path,
        ]
        return Bench(folder: folder, hub: try RunningHub(arguments, environment: environment, folder: folder), arguments: arguments)
    }

    @Test(.enabled(if: hasCompiler, "needs a C compiler")) func write_thatIsNotForced_isGone_whenTheAnswerSaysSo() throws {
        for size in [1, 100_000, 3_000_000] {
            let bench = try bench()
            let socket = try RealtimeSocket(url: bench.hub.url)
            #expect(try socket.ask("p", "/kept", ",\"d\":1").status == "ok")
            bench.fail("once")
            let answer = try socket.ask("p", "/lost", ",\"d\":\"\(String(repeating: "x", count: size))\"")
            #expect(answer.status == "unavailable" && answer.text.contains("Nothing of this write was stored"), "\(answer.text)")
            #expect(try socket.ask("g", "/lost").value.isNull)
            #expect(try bench.found() == ["kept": 1], "\(size) bytes")
        }
    }

    @Test(
        .enabled(if: hasCompiler, "needs a C compiler")
    ) func write_thatCannotBeTakenBackForCertain_isAnsweredSo_andGoneAfterAKill() throws {
        for size in [1, 100_000] {
            let bench = try bench()
            let socket = try RealtimeSocket(url: bench.hub.url)
            #expect(try socket.ask("p", "/kept", ",\"d\":1").status == "ok")
            bench.fail("always")
            let answer = try socket.ask("p", "/lost", ",\"d\":\"\(String(repeating: "x", count: size))\"")
            #expect(answer.status == "unavailable" && answer.text.contains("it is not known whether"), "\(answer.text)")
            #expect(try socket.ask("g", "/lost").value.isNull)
            // This write was not attempted.
            let later = try socket.ask("p", "/later", ",\"d\":1")
            #expect(later.status == "unavailable" && later.text.contains("Nothing of this write was stored"), "\(later.text)")
            #expect(try bench.hub.page("/.health").contains("\"reason\":\"disk_failed\""))
            #expect(try bench.found() == ["kept": 1], "\(size) bytes")
        }
    }

    @Test(.enabled(if: hasCompiler, "needs a C compiler")) func writes_goOn_whenTheDiskWorksAgain_andNothingRefusedComesBack() throws {
        let bench = try bench()
        let socket = try RealtimeSocket(url: bench.hub.url)
        var truth: Node = ["kept": 1]
        #expect(try socket.ask("p", "/kept", ",\"d\":1").status == "ok")
        for round in 0..<3 {
            bench.fail("always")
            #expect(
                try socket.ask("p", "/lost", ",\"d\":\"\(String(repeating: "x", count: 50_000 >> (4 * round)))\"").status == "unavailable")
            try bench.mend()
            #expect(try becomes { try socket.ask("p", "/again", ",\"d\":\(round)").status == "ok" })
            truth.set(.int(Int64(round)), at: "again")
            #expect(try socket.ask("g", "/").value == truth)
        }
        #expect(try bench.found() == truth)
    }
}
