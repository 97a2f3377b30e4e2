import ArgumentParser

/// The memory of stored data and idle connections, compared with the JSON text and with the tree's own figures.
struct Memory: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Bytes for a stored leaf, for a byte of a large body and for an idle connection.")

    @Option(help: "Leaves of each kind.") var leaves = 1_000_000
    @Option(help: "MB of the body [1,1,…].") var megabytes = 10
    @Option(help: "Idle WebSocket connections; 0 leaves them out.") var connections = 10_000
    @Option(help: "The vigla program; without it the one beside vigla-bench.") var vigla: String?

    func validate() throws {
        guard (1_000...10_000_000).contains(leaves), (1...1_000).contains(megabytes) else { throw ValidationError("see --help") }
        guard connections == 0 || IdleLoad.range.contains(connections) else {
            throw ValidationError("--connections is 0 or \(IdleLoad.range.lowerBound) to \(IdleLoad.range.upperBound)")
        }
    }

    func run() throws {
        print("bytes for a leaf                    JSON  allocated  counted  resident")
        for fields in [1, 5, 20] {
            try show("records of \(fields) field\(fields == 1 ? "" : "s")", per: leaves / fields * fields) {
                KeptValue.records(leaves / fields, fields: fields)
            }
        }
        try show("\(leaves) integers, in order", per: leaves) { KeptValue.scalars(leaves, isAscending: true) }
        try show("\(leaves) integers, in any order", per: leaves) { KeptValue.scalars(leaves, isAscending: false) }
        print("bytes for a byte of the body")
        let highest = try show("[1,1,…] of \(megabytes) MB", per: megabytes * 1_000_000) { KeptValue.ones(bytes: megabytes * 1_000_000) }
        print("  while it is read the process grows by \(highest.fixed(2))")
        guard connections > 0 else { return }
        raiseDescriptorLimit()
        let load = IdleLoad(connections: connections)
        print("KB resident for an idle connection, \(connections) of them")
        for subject in IdleLoad.subjects(vigla) {
            let kilobytes = try load.kilobytes(subject.start(), subject.target)
            print("  \(subject.name): \(kilobytes.fixed(2))")
        }
    }

    /// - Returns: the process' peak growth, divided by `count`.
    @discardableResult
    private func show(_ title: String, per count: Int, _ json: () -> [UInt8]) throws -> Double {
        let kept = try KeptValue(reading: json())
        let figures = [(kept.jsonBytes, 7), (kept.allocated, 11), (kept.counted, 9), (kept.resident, 10)].map { bytes, width in
            (Double(bytes) / Double(count)).fixed(2).padded(width)
        }
        print("  \(title)" + String(repeating: " ", count: max(0, 31 - title.count)) + figures.joined())
        return Double(kept.highest) / Double(count)
    }
}
