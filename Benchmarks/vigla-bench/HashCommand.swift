import ArgumentParser
import CLinux
import Glibc
import JSONTree

/// The cost of the contract's hash of a value (§4.5), compared with parsing the same value from JSON. Only the ratio is comparable between
/// machines.
struct HashBench: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "hash", abstract: "CPU per hashed node, against reading the same JSON.")

    @Option(help: "Records of five fields in a value.") var records = 1_000
    @Option(help: "Values per run.") var values = 20
    @Option(help: "Runs; the median counts.") var runs = 7

    func validate() throws {
        guard records > 0, values > 0, runs > 0 else { throw ValidationError("numbers must be above 0") }
    }

    func run() throws {
        let fields = (0..<records).map {
            #""r\#($0)":{"name":"Ana \#($0)","latitude":37.\#(100_000 + $0),"longitude":23.735,"#
                + #""timestamp":\#(1_790_000_000_000 + $0),"handled":false}"#
        }
        let json = "{\(fields.joined(separator: ","))}"
        let nodes = Double(values * (1 + 6 * records))
        var (reads, hashes, texts): ([Double], [Double], Set<String>) = ([], [], [])
        for _ in 0..<runs {
            // A value keeps its hash, so each is hashed once.
            var trees: [Node] = []
            let start = Self.cpu()
            for _ in 0..<values { trees.append(try Node(json: json)) }
            let read = Self.cpu()
            for tree in trees { texts.insert(tree.hash) }
            let hashed = Self.cpu()
            reads.append((read - start) / nodes)
            hashes.append((hashed - read) / nodes)
        }
        guard texts.count == 1 else { throw BenchError.unexpected("the same value has \(texts.count) hashes") }
        print("value of \(1 + 6 * records) nodes (median CPU of \(runs) runs)")
        print("  reading JSON: \(reads.median.fixed(1)) ns per node")
        print("  hashing: \(hashes.median.fixed(1)) ns per node, \((hashes.median / reads.median).fixed(2)) × reading")
    }

    /// CPU time of the process in nanoseconds.
    private static func cpu() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
    }
}
