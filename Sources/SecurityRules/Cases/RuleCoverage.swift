public import JSONTree

/// Which rules of a file were evaluated, and whether each was both true and false at least once.
public struct RuleCoverage: Sendable {
    public struct Rule: Sendable {
        /// The rule node with its wildcards' names.
        public let pattern: Path
        public let kind: RuleKind
        public let source: RuleSource
        /// How often the rule was true, and how often false or failing.
        public internal(set) var trueCount = 0
        public internal(set) var falseCount = 0
        /// Whether one evaluation covers the rule: the constants `true` and `false` have one result.
        let isConstant: Bool

        /// Such as `/users/$uid.read`.
        public var name: String { RuleCoverage.name(pattern, kind) }

        /// Whether the cases declare the rule as never false.
        let isNeverFalse: Bool

        /// Whether every possible result occurred.
        public var isCovered: Bool {
            if isNeverFalse { return trueCount > 0 && falseCount == 0 }
            return isConstant ? trueCount + falseCount > 0 : trueCount > 0 && falseCount > 0
        }

        /// The result that no case covers; nil when covered.
        public var gap: String? {
            if isCovered { return nil }
            if trueCount + falseCount == 0 { return "never asked" }
            if isNeverFalse, falseCount > 0 { return "declared as never false, and was not true" }
            return trueCount == 0 ? "never true" : "never false"
        }
    }

    /// In the order of the file.
    public private(set) var rules: [Rule]
    /// Rules that the cases declare as never false but that the file does not contain.
    public let unknown: [String]
    private var numbers: [String: Int] = [:]

    public var coveredCount: Int { rules.filter(\.isCovered).count }
    public var isComplete: Bool { rules.allSatisfy(\.isCovered) && unknown.isEmpty }

    init(_ set: RuleSet, neverFalse: [String] = []) {
        let declared = Set(neverFalse)
        let found = set.program.details.flatMap { place in
            place.sources.map { kind, source in
                Rule(
                    pattern: place.pattern, kind: kind, source: source, isConstant: ["true", "false"].contains(source.text),
                    isNeverFalse: declared.contains(Self.name(place.pattern, kind)))
            }
        }
        rules = found.sorted { ($0.source.offset, $0.kind.rawValue) < ($1.source.offset, $1.kind.rawValue) }
        unknown = declared.subtracting(rules.map(\.name)).sorted()
        for (i, rule) in rules.enumerated() { numbers[rule.name] = i }
    }

    static func name(_ pattern: Path, _ kind: RuleKind) -> String { "\(pattern)\(kind.rawValue)" }

    mutating func record(_ trace: RuleTrace) {
        for step in trace.steps { record(step.pattern, step.kind, step.outcome == .allowed) }
    }

    private mutating func record(_ pattern: Path, _ kind: RuleKind, _ value: Bool) {
        guard let number = numbers[Self.name(pattern, kind)] else { return }
        if value { rules[number].trueCount += 1 } else { rules[number].falseCount += 1 }
    }
}

extension RuleSet {
    /// The rules of the file in its order, with their places.
    public var rules: [RuleCoverage.Rule] { RuleCoverage(self).rules }
}
