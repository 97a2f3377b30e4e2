import Histogram

/// The result of one run.
struct Sample {
    /// Deliveries or requests.
    let count: Int
    let wallNs: UInt64
    /// The server's user and system time.
    let cpuNs: UInt64
    let latencies: Histogram<UInt64>
    /// Bytes of the frames received.
    let payloadBytes: Int

    var cpuMicros: Double { Double(cpuNs) / 1000 / Double(max(1, count)) }
    var perSecond: Double { Double(count) / (Double(max(1, wallNs)) / 1e9) }

    var line: String {
        let p = [50.0, 99, 99.9].map { Double(latencies.valueAtPercentile($0)) / 1000 }
        return "cpu \(cpuMicros.fixed(3)) µs each, \(Int(perSecond)) /s, "
            + "p50 \(p[0].fixed(0)) p99 \(p[1].fixed(0)) p99.9 \(p[2].fixed(0)) max "
            + "\((Double(latencies.max) / 1000).fixed(0)) µs"
    }
}

/// Alternating runs of a baseline and a subject, and the ratio of their medians.
struct Comparison {
    let title: String
    let baselineName: String
    let subjectName: String
    let runs: Int

    /// Alternates the order in each pair, so that neither always runs on a warm machine.
    func measure(baseline: () throws -> Sample, subject: () throws -> Sample) throws {
        print("\(title)")
        var baselines: [Double] = []
        var subjects: [Double] = []
        for run in 1...max(1, runs) {
            func one(_ name: String, _ body: () throws -> Sample, _ into: inout [Double]) throws {
                let sample = try body()
                into.append(sample.cpuMicros)
                print("  \(run) \(name): \(sample.line)")
            }
            if run % 2 == 1 {
                try one(baselineName, baseline, &baselines)
                try one(subjectName, subject, &subjects)
            } else {
                try one(subjectName, subject, &subjects)
                try one(baselineName, baseline, &baselines)
            }
        }
        let (b, s) = (baselines.median, subjects.median)
        print("  median cpu: \(baselineName) \(b.fixed(3)) µs, \(subjectName) \(s.fixed(3)) µs, ratio \((s / b).fixed(3))")
    }
}

extension [Double] {
    var median: Double {
        let ordered = sorted()
        guard !ordered.isEmpty else { return .nan }
        let middle = ordered.count / 2
        return ordered.count % 2 == 1 ? ordered[middle] : (ordered[middle - 1] + ordered[middle]) / 2
    }
}

extension String {
    /// The text, right-aligned in a column.
    func padded(_ width: Int) -> String { String(repeating: " ", count: max(0, width - count)) + self }
}

extension Double {
    func fixed(_ places: Int) -> String {
        guard isFinite else { return "\(self)" }
        let scale = (0..<places).reduce(1.0) { product, _ in product * 10 }
        let whole = Int64((self * scale).rounded())
        guard places > 0 else { return "\(whole)" }
        let fraction = String(abs(whole) % Int64(scale))
        let zeros = String(repeating: "0", count: places - fraction.count)
        return "\(whole < 0 ? "-" : "")\(abs(whole) / Int64(scale)).\(zeros)\(fraction)"
    }
}
