import ArgumentParser
import Foundation

/// Compares the instructions of fixed workloads with the last accepted figures.
struct Instructions: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Instructions of fixed workloads, counted by callgrind, beside accepted ones; fails when one has risen by more than 5 %.")

    @Option(help: "The file with the accepted figures.") var figures = "Benchmarks/vigla-bench/Instructions/figures.txt"
    @Option(help: "Only the workloads whose name contains this.") var only = ""
    @Flag(help: "Writes what is counted into the file.") var accept = false

    /// Maximum increase of a figure in per cent.
    private static let tolerance = 5.0

    func run() throws {
        let accepted = try Self.read(figures)
        var counted = accepted
        var (isOver, isUnder) = (false, false)
        print("instructions           accepted       now   ratio")
        for workload in Workload.all where only.isEmpty || workload.name.contains(only) {
            let count = try InstructionCount(workload: workload).perRun()
            let before = accepted[workload.name]
            let ratio = before.map { Double(count) / Double($0) }
            // A workload without an accepted figure counts as over the limit.
            let percent = ratio.map { ($0 - 1) * 100 } ?? .infinity
            isOver = isOver || percent > Self.tolerance
            isUnder = isUnder || percent < -Self.tolerance
            let name = workload.name + String(repeating: " ", count: max(0, 21 - workload.name.count))
            let mark = percent > Self.tolerance ? "  ← more" : percent < -Self.tolerance ? "  less" : ""
            let figures = (before.map { "\($0)" } ?? "–").padded(10) + "\(count)".padded(10)
            print(name + figures + (ratio?.fixed(3) ?? "new").padded(8) + mark)
            counted[workload.name] = count
        }
        if accept { return try Self.write(counted, to: figures) }
        if isUnder { print("What costs less stays so if the new figures are accepted: make bench-check ACCEPT=1") }
        guard isOver else { return }
        print("More than \(Self.tolerance.fixed(0)) % more instructions than accepted. If that is meant, make bench-check ACCEPT=1")
        print("writes the new figures into \(figures), which belongs into the same commit.")
        throw ExitCode.failure
    }

    /// Lines of a name and a number; `#` begins a comment.
    private static func read(_ path: String) throws -> [String: Int] {
        guard FileManager.default.fileExists(atPath: path) else { return [:] }
        var figures: [String: Int] = [:]
        for line in try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n") where !line.hasPrefix("#") {
            let words = line.split(separator: " ")
            guard words.count == 2, let number = Int(words[1]) else { throw ValidationError("\(path): \(line)") }
            figures[String(words[0])] = number
        }
        return figures
    }

    private static func write(_ figures: [String: Int], to path: String) throws {
        let lines = Workload.all.compactMap { workload in figures[workload.name].map { "\(workload.name) \($0)" } }
        let head = """
            # Instructions of one run of each workload of `make bench-check`, on x86-64.
            # `make bench-check ACCEPT=1` writes this file.

            """
        try (head + lines.joined(separator: "\n") + "\n").write(toFile: path, atomically: true, encoding: .utf8)
    }
}
