import CSpawn
package import Foundation
import Glibc
import Synchronization

/// A child process by `posix_spawn`, with the API of Foundation's `Process`. That one reads beyond its buffer if the tests have more than about 1,350
/// descriptors open (it copies whole entries of /proc/self/fd).
package final class ChildProcess: Sendable {
    package struct NotStarted: Error { package let error: String }

    /// The destination of a stream of the child.
    package enum Stream: Sendable {
        /// The same as the tests'.
        case inherited
        case null
        case handle(FileHandle)
    }

    package let processIdentifier: Int32
    /// The status of `waitpid`, once it has been collected.
    private let status = Mutex<Int32?>(nil)

    /// Starts the process. It gets only its three streams as descriptors, and no blocked or ignored signals.
    /// - Parameter environment: the complete environment; nil for the tests' own.
    /// - Throws: `NotStarted`.
    package init(
        _ program: String, _ arguments: [String], environment: [String: String]? = nil, in directory: URL? = nil,
        input: Stream = .inherited, output: Stream = .inherited, error: Stream = .inherited
    ) throws {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (target, stream) in [(Int32(0), input), (1, output), (2, error)] {
            switch stream {
            case .inherited: break
            case .null: posix_spawn_file_actions_addopen(&actions, target, "/dev/null", O_RDWR, 0)
            case .handle(let handle): posix_spawn_file_actions_adddup2(&actions, handle.fileDescriptor, target)
            }
        }
        spawn_actions_add_isolation(&actions, directory?.path)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        sigfillset(&signals)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK))
        let values = environment ?? ProcessInfo.processInfo.environment
        var pid = pid_t()
        let code = Self.withWords([program] + arguments) { words in
            Self.withWords(values.map { "\($0)=\($1)" }) { posix_spawn(&pid, program, &actions, &attributes, words, $0) }
        }
        guard code == 0 else { throw NotStarted(error: "\(program): \(String(cString: strerror(code)))") }
        processIdentifier = pid
    }

    /// Whether the process is still running.
    package var isRunning: Bool { reap(WNOHANG) == nil }

    /// The exit code, or the number of the signal that ended it. After its end.
    package var terminationStatus: Int32 {
        guard let status = reap(WNOHANG) else { return -1 }
        return wasKilled ? status & 0x7F : (status >> 8) & 0xFF
    }

    /// Whether a signal ended it. After its end.
    package var wasKilled: Bool { (reap(WNOHANG) ?? 0) & 0x7F != 0 }

    package func waitUntilExit() {
        // Without the lock, and without collecting the status, so that other threads may check and signal meanwhile.
        var info = siginfo_t()
        while status.withLock({ $0 }) == nil {
            if waitid(P_PID, id_t(processIdentifier), &info, WEXITED | WNOWAIT) == 0 || errno != EINTR { _ = reap(0) }
        }
    }

    package func terminate() { kill(processIdentifier, SIGTERM) }

    private func reap(_ flags: Int32) -> Int32? {
        status.withLock { known in
            if let known { return known }
            var status = Int32(0)
            let found = waitpid(processIdentifier, &status, flags)
            // Without a child there is nothing more to wait for.
            if found == processIdentifier || (found < 0 && errno == ECHILD) { known = status }
            return known
        }
    }

    /// The words as C strings, terminated by a null pointer.
    private static func withWords<Result>(_ words: [String], _ body: ([UnsafeMutablePointer<CChar>?]) -> Result) -> Result {
        let copies = words.map { strdup($0) } + [nil]
        defer { copies.forEach { free($0) } }
        return body(copies)
    }
}
