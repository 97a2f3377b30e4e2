import ArgumentParser
import Foundation

/// Request and answer: a C echo server, and the hub's reads and writes.
struct Requests: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Server CPU per read and write, against a bare C echo.")

    @Option(help: "What is asked, separated by commas: get, put (in memory), durable (on disk, with rules), told (that with an observer).")
    var kinds = "get,put,durable,told"
    @Option(help: "Numbers of connections, separated by commas; one request at a time on each.") var connections = "100,1000"
    @Option(help: "Bytes of the value read or written.") var size = 64
    @Option(help: "Seconds per run.") var seconds = 3.0
    @Option(help: "Runs of each server.") var runs = 3
    @Option(help: "Net loops of the hub; 0 leaves it to the hub. The C echo has one.") var loops = 0
    @Option(help: "Where the data folder of durable writes is made.") var folder = NSTemporaryDirectory()
    @Option(help: "The vigla program; without it the one beside vigla-bench.") var vigla: String?

    func validate() throws {
        guard (10...16_000).contains(size) else { throw ValidationError("--size is 10 to 16000") }
        guard seconds > 0, runs > 0 else { throw ValidationError("numbers must be above 0") }
        guard (0...256).contains(loops) else { throw ValidationError("--loops is 0 to 256") }
        guard counts.allSatisfy({ $0 > 0 }), !counts.isEmpty else { throw ValidationError("--connections: numbers") }
        guard kinds.split(separator: ",").allSatisfy({ RequestLoad.Kind(rawValue: String($0)) != nil }) else {
            throw ValidationError("--kinds: \(RequestLoad.Kind.allCases.map(\.rawValue).joined(separator: ", "))")
        }
    }

    private var counts: [Int] { connections.split(separator: ",").map { Int($0) ?? 0 } }

    func run() throws {
        raiseDescriptorLimit()
        for kind in kinds.split(separator: ",").compactMap({ RequestLoad.Kind(rawValue: String($0)) }) {
            for count in counts { try compare(kind, connections: count) }
        }
    }

    private func compare(_ kind: RequestLoad.Kind, connections: Int) throws {
        let echo = EchoLoad(connections: connections, messageBytes: size, seconds: seconds)
        let load = RequestLoad(kind: kind, connections: connections, valueBytes: size, seconds: seconds)
        let comparison = Comparison(
            title: "\(kind.rawValue), \(connections) connections, \(size) bytes", baselineName: "c echo", subjectName: "vigla", runs: runs)
        try comparison.measure {
            try echo.run(against: ServerProcess(["serve-baseline", "echo"]))
        } subject: {
            let data = URL(filePath: folder).appending(path: "vigla-bench-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: data, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: data) }
            return try load.run(against: ServerProcess(vigla ?? besideThisProgram("vigla"), options(kind, data)))
        }
    }

    private func options(_ kind: RequestLoad.Kind, _ data: URL) throws -> [String] {
        let loops = self.loops > 0 ? ["--loops", "\(self.loops)"] : []
        guard kind.isOnDisk else { return ["serve", "--memory", "--dev", "--port", "0"] + loops }
        let rules = data.appending(path: "rules.json")
        try Data(RequestLoad.rules.utf8).write(to: rules)
        return ["serve", "--data", data.appending(path: "data").path, "--rules", rules.path, "--namespace", "bench", "--port", "0"]
            + loops
    }
}
