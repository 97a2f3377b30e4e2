import CBaseline
import Glibc

/// A server in a child process: started, waited for until it prints its port, measured, ended.
final class ServerProcess {
    let pid: pid_t
    let port: UInt16

    /// - Parameters:
    ///   - executable: a path; nil for this program itself.
    ///   - isQuiet: whether to drop its log and its warnings.
    init(_ executable: String?, _ arguments: [String], isQuiet: Bool = false) throws {
        let path = executable ?? "/proc/self/exe"
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw BenchError.system("pipe", errno: errno) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        defer { close(ends[0]) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
        if isQuiet { posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0) }
        var words = ([path] + arguments).map { strdup($0) } + [nil]
        defer { for word in words { free(word) } }
        var child = pid_t()
        let result = posix_spawn(&child, path, &actions, nil, &words, environ)
        close(ends[1])
        guard result == 0 else { throw BenchError.serverFailed("\(path) does not start (errno \(result))") }
        pid = child
        guard let port = Self.readyPort(ends[0]) else {
            kill(child, SIGKILL)
            waitpid(child, nil, 0)
            throw BenchError.serverFailed("\(path) \(arguments.joined(separator: " ")) ended before it was ready")
        }
        self.port = port
    }

    /// This program itself as the server.
    convenience init(_ arguments: [String]) throws { try self.init(nil, arguments) }

    deinit {
        kill(pid, SIGTERM)
        // A draining server has ten seconds.
        for _ in 0..<1000 {
            if waitpid(pid, nil, WNOHANG) != 0 { return }
            usleep(10_000)
        }
        kill(pid, SIGKILL)
        waitpid(pid, nil, 0)
    }

    /// User and system time so far, of all its threads.
    var cpuNs: UInt64 { cbaseline_cpu_ns(pid) }

    /// Its current resident memory.
    var residentBytes: Int { HeapMeter.resident(pid) }

    /// Reads lines until one contains the port: `ready PORT`, or `… ready on http://HOST:PORT …`.
    private static func readyPort(_ fd: Int32) -> UInt16? {
        var line: [UInt8] = []
        var byte: UInt8 = 0
        while read(fd, &byte, 1) == 1 {
            guard byte == 10 else {
                line.append(byte)
                continue
            }
            let words = String(decoding: line, as: UTF8.self).split(separator: " ")
            if let at = words.firstIndex(of: "ready") {
                for word in words[at...] {
                    if let port = word.split(separator: ":").last.flatMap({ UInt16($0.prefix { $0.isNumber }) }) {
                        return port
                    }
                }
            }
            line = []
        }
        return nil
    }
}
