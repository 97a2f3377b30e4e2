import ArgumentParser
import Foundation

/// The hub's budgets and this machine's figures in one run, as a ratio to the machine's own cost where that exists.
/// Takes about five minutes; the other commands measure one of them for longer.
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

/// One budget and its measured value.
struct TableRow {
    let name: String
    let measured: String
    /// The ratio to the figure in `beside`.
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

/// Whether to measure a row.
typealias TableFilter = (String) -> Bool
