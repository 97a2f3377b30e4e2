import Foundation

/// Counts the instructions of a workload with Valgrind's callgrind, in a separate process.
struct InstructionCount {
    let workload: Workload

    /// Number of differences; their median counts, so that a hub timer that falls into one of them does not matter.
    static let rounds = 5

    /// Instructions of one run, as the difference between `count` runs and twice as many.
    func perRun() throws -> Int {
        let folder = FileManager.default.temporaryDirectory.appending(path: "vigla-bench-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let output = folder.appending(path: "counts")
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "valgrind", "--tool=callgrind", "--quiet", "--callgrind-out-file=\(output.path)", "--dump-before=cbaseline_mark",
            "--compress-strings=no", "--fair-sched=yes", besideThisProgram("vigla-bench"), "workload", workload.name,
        ]
        // Hide CPU features, so that hashes and C library functions take the same paths on every machine.
        let features = ["AVX2", "AVX512VL", "AVX512BW", "BMI2", "ERMS", "FSRM", "SSSE3", "SSE4_1", "SSE4_2"]
        process.environment = [
            "PATH": ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin", "TMPDIR": folder.path,
            "SWIFT_DETERMINISTIC_HASHING": "1",
            "GLIBC_TUNABLES": "glibc.malloc.arena_max=1:glibc.cpu.hwcaps=" + features.map { "-" + $0 }.joined(separator: ","),
        ]
        let errors = Pipe()
        process.standardError = errors
        do { try process.run() } catch { throw BenchError.unexpected("valgrind does not start: \(error)") }
        let said = errors.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw BenchError.unexpected(String(decoding: said, as: UTF8.self)) }
        // The first part precedes the first mark.
        let differences = try (0..<Self.rounds).map { round in
            try Self.total(of: output.path + ".\(2 * round + 3)") - Self.total(of: output.path + ".\(2 * round + 2)")
        }
        return differences.sorted()[Self.rounds / 2] / workload.count
    }

    /// The sum in one part of callgrind's output.
    private static func total(of path: String) throws -> Int {
        let text = try String(contentsOfFile: path, encoding: .utf8)
        for line in text.split(separator: "\n").reversed() where line.hasPrefix("totals:") || line.hasPrefix("summary:") {
            if let number = line.split(separator: " ").last.flatMap({ Int($0) }) { return number }
        }
        throw BenchError.unexpected("no sum in \(path)")
    }
}
