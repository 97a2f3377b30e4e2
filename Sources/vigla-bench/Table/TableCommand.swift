import ArgumentParser
import Foundation

/// The hub's budgets beside what this machine measures in one run, each as a ratio to what the machine itself takes where there is such
/// a thing. Takes about five minutes; the other commands measure one of them longer.
struct Table: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Every budget in one run: fan-out, requests, durable writes, memory, recovery, a large GET.")

    @Option(help: "Only the rows whose name contains this.") var only = ""
    @Option(help: "Seconds of each run of requests.") var seconds = 1.5
    @Option(help: "Runs of each server; the median counts.") var runs = 3
    @Option(help: "Net loops of the hub; 0 leaves it to the hub. The C servers have one.") var loops = 0
    @Option(help: "Where data folders are made; on the disk that is measured.") var folder = NSTemporaryDirectory()
    @Option(help: "The vigla program; without it the one beside vigla-bench.") var vigla: String?

    func validate() throws {
        guard seconds > 0, runs > 0 else { throw ValidationError("numbers must be above 0") }
        guard (0...256).contains(loops) else { throw ValidationError("--loops is 0 to 256") }
    }

    func run() throws {
        raiseDescriptorLimit()
        let data = URL(filePath: folder).appending(path: "vigla-bench-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: data, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: data) }
        let servers = TableServers(
            vigla: vigla ?? besideThisProgram("vigla"), folder: data, seconds: seconds, runs: runs, loops: loops)
        print(TableRow.head)
        for group in [servers.fanout, servers.requests, servers.stored, servers.redis] {
            for row in try group({ only.isEmpty || $0.contains(only) }) {
                print(row.line)
                fflush(nil)
            }
        }
    }
}

/// One budget and what was measured.
struct TableRow {
    let name: String
    let measured: String
    /// To what stands in `beside`.
    var ratio: Double?
    let asked: String
    var beside = ""

    static var head: String {
        columns("", "measured", "ratio", "asked", "beside") + "\n" + String(repeating: "-", count: 122)
    }
    var line: String { Self.columns(name, measured, ratio.map { $0.fixed(2) + " ×" } ?? "", asked, beside) }

    private static func columns(_ name: String, _ measured: String, _ ratio: String, _ asked: String, _ beside: String) -> String {
        let cells = [(name, 38), (measured, 28), (ratio, 9), (asked, 22)]
        return cells.map { $0 + String(repeating: " ", count: max(1, $1 - $0.count)) }.joined() + beside
    }
}

/// Whether a row is wanted.
typealias TableFilter = (String) -> Bool
