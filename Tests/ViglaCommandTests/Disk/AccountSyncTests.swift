import Foundation
import Testing
import TestSupport

/// Disk syncs of the accounts, counted by a small library preloaded before the system's. Sign-ins come by the hundred, and writes of data wait for
/// the same disk.
@Suite(.timeLimit(.minutes(30))) struct AccountSyncTests {
    private static let compiler = "/usr/bin/cc"
    private static let hasCompiler = FileManager.default.isExecutableFile(atPath: compiler)

    private static let shim = """
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        /* Writes a dot for each file of the accounts that is forced to the disk. */
        static void count(int fd) {
            char link[64], name[4096];
            snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
            ssize_t length = readlink(link, name, sizeof name - 1);
            const char *log = getenv("COUNT_SYNCS");
            if (length < 0 || !log) return;
            name[length] = 0;
            if (!strstr(name, "/accounts.sqlite")) return;
            int file = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
            if (file < 0) return;
            if (write(file, ".", 1) != 1) abort();
            close(file);
        }
        int fsync(int fd) { count(fd); return (int) syscall(SYS_fsync, fd); }
        int fdatasync(int fd) { count(fd); return (int) syscall(SYS_fdatasync, fd); }
        """

    @Test(.enabled(if: hasCompiler, "needs a C compiler")) func signIns_forceNothing_andAChangeOfPasswordDoes() throws {
        let folder = try TemporaryFolder()
        let library = folder.at("shim.so")
        let built = try Command.run(
            ["-shared", "-fPIC", "-o", library, try folder.file("shim.c", Self.shim)], environment: ["PATH": "/usr/bin:/bin"],
            program: Self.compiler)
        try #require(built.code == 0, "\(built.error)")
        _ = try folder.file("accounts.json", #"{"signing":"ES256"}"#)
        let hub = try RunningHub(
            ["--port", "0", "--data", "data", "--accounts", "accounts.json", "--log-level", "error"],
            environment: ["LD_PRELOAD": library, "COUNT_SYNCS": folder.at("syncs")], folder: folder)
        defer { #expect(hub.stop() == 0) }

        func syncs(_ work: () throws -> Void) throws -> Int {
            let before = FileManager.default.contents(atPath: folder.at("syncs"))?.count ?? 0
            try work()
            return (FileManager.default.contents(atPath: folder.at("syncs"))?.count ?? 0) - before
        }
        func call(_ name: String, _ body: String) throws -> String {
            let connection = try hub.connection()
            let head = "POST /identitytoolkit.googleapis.com/v1/accounts:\(name)?key=any HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                + "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
            try connection.write(contentsOf: Data((head + body).utf8))
            return String(decoding: try connection.readToEnd() ?? Data(), as: UTF8.self)
        }
        let ana = #"{"email":"ana@example.org","password":"correct horse","returnSecureToken":true}"#
        var answer = ""
        let ofSigningUp = try syncs { answer = try call("signUp", ana) }
        #expect(ofSigningUp > 0 && answer.hasPrefix("HTTP/1.1 200"), "\(answer)")
        let ofSignIns = try syncs {
            for _ in 0..<20 { answer = try call("signInWithPassword", ana) }
        }
        #expect(ofSignIns == 0 && answer.hasPrefix("HTTP/1.1 200"), "\(ofSignIns) of \(answer)")
        let token = try #require(answer.firstMatch(of: /"idToken":"([^"]+)"/)).1
        let ofTheChange = try syncs {
            answer = try call("update", #"{"idToken":"\#(token)","password":"another horse","returnSecureToken":true}"#)
        }
        #expect(ofTheChange > 0 && answer.hasPrefix("HTTP/1.1 200"), "\(answer)")
    }
}
