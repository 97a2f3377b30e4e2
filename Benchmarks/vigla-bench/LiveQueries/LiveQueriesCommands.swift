import ArgumentParser

/// Near queries over many points, and a point that moves under many live circles.
struct NearBench: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "near", abstract: "CPU of near queries and of moving points, against scans of all points.")

    @Option(help: "Points.") var points = 1_000_000
    @Option(help: "Edge of the square on which they lie, in km.") var kilometres = 300
    @Option(help: "Queries and moves that are measured.") var queries = 2_000
    @Option(help: "Live circles that contain the moving point.") var circles = 2_000
    @Option(help: "Live circles that are far from it.") var distant = 100_000

    func validate() throws {
        guard (100...10_000_000).contains(points), (20...points).contains(queries), kilometres > 0, circles > 0, distant > 0 else {
            throw ValidationError("at least 100 points, 20 queries and no more than points, and all other numbers above 0")
        }
    }

    func run() throws {
        let measurement = NearMeasurement(
            points: points, kilometres: Double(kilometres), queries: queries, circles: circles, distant: distant)
        try measurement.run { print($0) }
        try EngineMeasurement(writes: queries).circles(overlapping: circles, distant: distant) { print($0) }
    }
}

/// A write under many live queries of different constants.
struct QueriesBench: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "queries", abstract: "CPU of a write under many live queries, against asking each of them.")

    @Option(help: "Live queries.") var queries = 10_000
    @Option(help: "Children of the place.") var children = 20_000
    @Option(help: "Writes that are measured.") var writes = 2_000

    func validate() throws {
        guard queries > 0, children >= queries, writes >= 50 else {
            throw ValidationError("at least as many children as queries, and 50 writes")
        }
    }

    func run() throws {
        try QueriesMeasurement(queries: queries, children: children, writes: writes).run { print($0) }
        try EngineMeasurement(writes: writes).constants(queries: queries, children: children) { print($0) }
    }
}
