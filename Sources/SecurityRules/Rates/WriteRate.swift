public import JSONTree

/// How often one user may write: a sustained rate, and a burst after a quiet period.
public struct WriteRate: Sendable, Hashable {
    /// Within `perSecondRange`; 0.1 is one write every ten seconds.
    public let perSecond: Double
    /// Within `burstRange`.
    public let burst: Int

    public static let perSecondRange = 0.001...1_000_000.0
    public static let burstRange = 1...1_000_000

    /// Nil if a value is out of range.
    public init?(perSecond: Double, burst: Int) {
        guard Self.perSecondRange.contains(perSecond), Self.burstRange.contains(burst) else { return nil }
        (self.perSecond, self.burst) = (perSecond, burst)
    }
}

extension WriteRate: CustomStringConvertible {
    public var description: String { "\(NumberText.format(perSecond)) writes a second, \(burst) at once" }
}

extension RuleSet {
    /// Whether any place has a `.rate`.
    public var hasRates: Bool { program.hasRates }

    /// Calls `body` with each budget that counts a write at a place, the outermost first. O(depth)
    /// - Parameter body: called with the budget and the depth of the node in the data that it belongs to.
    public func forEachRate(on path: Path, _ body: (WriteRate, _ depth: Int) -> Void) {
        var place: Int32 = 0
        for depth in 0...path.depth {
            guard program.tables.places[Int(place)].rates else { return }
            if let rate = program.details[Int(place)].rate { body(rate, depth) }
            guard depth < path.depth else { return }
            place = withUnsafePointer(to: path.keys[depth]) { program.tables.child(of: place, TextCursor($0)) }
            if place < 0 { return }
        }
    }

    /// The budgets that count the writes of one request, each with its number of writes, for explanations.
    func countedRates(_ locations: [Path]) -> [RuleTrace.CountedRate] {
        guard hasRates else { return [] }
        var counted: [RuleTrace.CountedRate] = []
        var numbers: [Path: Int] = [:]
        for location in locations {
            forEachRate(on: location) { rate, depth in
                let place = Path(location.keys.prefix(depth))
                if let number = numbers[place] { return counted[number].writes += 1 }
                numbers[place] = counted.count
                counted.append(RuleTrace.CountedRate(rule: "\(nearestPlace(to: place)).rate", path: place, rate: rate, writes: 1))
            }
        }
        return counted
    }
}
