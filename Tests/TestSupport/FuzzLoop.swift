import Glibc
package import Testing

/// Runs a fuzz test. Every input has its own seed, counted up, so that each can be repeated alone.
///
/// In the suite it runs a number of inputs from seed 1, so every run is the same. Environment variables:
///
///     VIGLA_FUZZ_SEED=42       the first seed
///     VIGLA_FUZZ_COUNT=1       the number of inputs
///     VIGLA_FUZZ_SECONDS=600   a duration instead of a number, from a seed that no earlier run had (`make fuzz`)
///
/// An input that breaks an invariant is printed with its seed, and ends the loop. In a run by time, `.build/fuzz/NAME.seed` holds the seed of the
/// current input, in case it ends the process.
package struct FuzzLoop {
    private let name: String
    private let count: Int
    private let seconds: Int?
    private let first: UInt64

    /// - Parameter count: inputs in the suite.
    package init(_ name: String, count: Int) {
        self.name = name
        self.count = Self.environment("VIGLA_FUZZ_COUNT") ?? count
        seconds = Self.environment("VIGLA_FUZZ_SECONDS")
        first = Self.environment("VIGLA_FUZZ_SEED").map { UInt64(max(0, $0)) } ?? (seconds == nil ? 1 : UInt64(max(0, time(nil))) << 20)
    }

    /// Whether it runs by time.
    package var isLong: Bool { seconds != nil }

    /// - Parameters:
    ///   - what: a text added to the last line of a long run.
    ///   - check: describes the broken invariant of a seed's input; nil if every invariant held.
    /// - Returns: the number of inputs without a fault.
    @discardableResult
    package func run(saying what: () -> String = { "" }, _ check: (_ seed: UInt64) throws -> String?) rethrows -> Int {
        let end = seconds.map { Self.now() + $0 * 1000 }
        let trace = isLong ? SeedTrace(name) : nil
        var done = 0
        while end.map({ Self.now() < $0 }) ?? (done < count) {
            let seed = first &+ UInt64(done)
            trace?.record(seed)
            if let fault = try check(seed) {
                Issue.record("\(name), VIGLA_FUZZ_SEED=\(seed): \(fault)")
                return done
            }
            done += 1
        }
        if isLong { print("fuzz \(name): \(done) inputs from seed \(first)\(what())") }
        return done
    }

    /// A whole number of the environment.
    package static func environment(_ variable: String) -> Int? { getenv(variable).flatMap { Int(String(cString: $0)) } }

    /// ms of the monotonic clock.
    private static func now() -> Int {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return time.tv_sec * 1000 + time.tv_nsec / 1_000_000
    }
}

extension TimeLimitTrait.Duration {
    /// For a suite of fuzz tests: the 30 minutes of every suite, plus the duration of each of its tests. All tests of a run start at once and wait
    /// for threads, so the limit has to exceed a run on a slow machine.
    package static var fuzzing: Self { .minutes(30 + (FuzzLoop.environment("VIGLA_FUZZ_SECONDS") ?? 0) / 60) }
}

/// The seed of the current input, in a memory-mapped file: it survives the end of the process.
private final class SeedTrace {
    private static let length = 21
    private let digits: UnsafeMutableRawPointer?

    init(_ name: String) {
        let root = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/")
        let folder = root + "/.build/fuzz"
        mkdir(folder, 0o755)
        let fd = open("\(folder)/\(name).seed", O_RDWR | O_CREAT | O_TRUNC, 0o644)
        guard fd >= 0, ftruncate(fd, Self.length) == 0 else {
            digits = nil
            return
        }
        let mapped = mmap(nil, Self.length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
        digits = mapped == MAP_FAILED ? nil : mapped
        close(fd)
    }

    deinit { if let digits { munmap(digits, Self.length) } }

    func record(_ seed: UInt64) {
        guard let digits else { return }
        var rest = seed
        for at in (0..<Self.length - 1).reversed() {
            digits.storeBytes(of: UInt8(ascii: "0") + UInt8(rest % 10), toByteOffset: at, as: UInt8.self)
            rest /= 10
        }
        digits.storeBytes(of: 10, toByteOffset: Self.length - 1, as: UInt8.self)
    }
}
