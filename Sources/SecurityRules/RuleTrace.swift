public import JSONTree

/// Why an operation was allowed or refused: every evaluated rule, in order, with the values of its parts. A pure value for logs and
/// explanations; never sent to ordinary clients (rules contract §12).
public struct RuleTrace: Sendable, CustomStringConvertible {
    public struct Step: Sendable, Hashable {
        /// The place in the data at which the rule was evaluated.
        public let path: Path
        /// The rule node, with its wildcards' names.
        public let pattern: Path
        public let kind: RuleKind
        public let source: RuleSource
        public let outcome: Outcome
        /// The values of the rule's sub-expressions, outer ones before inner ones. Excludes literals and parts that `&&`, `||` and `?:` skipped.
        public let parts: [Part]
    }

    public enum Outcome: Sendable, Hashable {
        case allowed
        case refused
        /// The expression failed; the offset counts UTF-8 bytes of its text.
        case failed(FaultReason, offset: Int)
    }

    /// One sub-expression.
    public struct Part: Sendable, Hashable {
        /// Its source text.
        public let text: String
        /// Where it begins in the rules file; 1-based, columns in UTF-16 code units.
        public let line: Int
        public let column: Int
        /// The number of parts that contain it.
        public let depth: Int
        public let value: PartValue
    }

    /// The value of a sub-expression.
    public enum PartValue: Sendable, Hashable {
        case null
        case bool(Bool)
        case number(Double)
        case string(String)
        /// A node with children: an opaque token in expressions.
        case object
        case failed(FaultReason)
    }

    public enum Operation: Sendable, Hashable {
        case read(Path)
        /// A count of the children of a place, or of those that a query selects.
        case count(Path)
        case write([Path])
    }

    /// A `.rate` that counts a write, with the number of writes in the request.
    public struct CountedRate: Sendable, Hashable {
        /// The rule's name, such as `/rooms/$room.rate`, and the place in the data.
        public let rule: String
        public let path: Path
        public let rate: WriteRate
        public internal(set) var writes: Int

        /// Whether the request exceeds the burst, so that it is refused at any time.
        public var exceedsBurst: Bool { writes > rate.burst }
    }

    /// The most steps of a trace: a wide write evaluates thousands of rules. The last step is always included.
    public static let maxSteps = RulesLimits.traceSteps

    public let operation: Operation
    public private(set) var isAllowed: Bool
    public private(set) var steps: [Step]
    /// The consequences of an allowed write.
    public private(set) var follows: [SystemWrite] = []
    /// What leaves the hub because of the write.
    public private(set) var deliveries: [RuleDelivery] = []
    /// The hits of watches among them, as if nothing had been found before.
    public private(set) var hits: [WatchHit] = []
    /// The hits whose rows follow in commits of their own.
    public private(set) var continuedHits: [WatchPair] = []
    /// The consequence that a `.validate` refuses, which refuses the whole write.
    public private(set) var refusedWrite: SystemWrite?
    /// Inbox rows that follow in commits of their own.
    public private(set) var continued: [ContinuedRows] = []
    /// Removals with too many consequences for one commit.
    public private(set) var continuedRemovals: ContinuedRemovals?
    /// The bound of `.count` that this caller without an account violates.
    public private(set) var unmet: String?
    /// Nodes at, above and below the written places with an expiry time; at most the first 100.
    public private(set) var expiring: [ExpiringNode] = []
    /// The `.count` that sets the bound, such as `/cafes.count`.
    private let unmetRule: String?
    /// Why the consequences are impossible, so that the write is refused.
    public private(set) var fault: ConsequenceFault?

    /// The budgets that count the write. Their current level is not included.
    public private(set) var rates: [CountedRate] = []

    init(operation: Operation, isAllowed: Bool, steps: [Step], unmet: String? = nil, unmetRule: String? = nil) {
        (self.operation, self.isAllowed, self.steps) = (operation, isAllowed, steps)
        (self.unmet, self.unmetRule) = (unmet, unmetRule)
    }

    /// Adds the consequences of the write.
    mutating func add(_ found: Consequences, _ validation: [Step], areAdmitted: Bool) {
        deliveries = found.deliveries
        (follows, hits, continuedHits) = (found.writes, found.hits, found.continuedHits)
        (continued, continuedRemovals) = (found.continued.map(\.rows), found.continuedRemovals)
        steps += validation
        isAllowed = areAdmitted
        guard let refused = refusal?.path else { return }
        // The refusing rule may be at, below or above the written place.
        refusedWrite = follows.first { $0.path.contains(refused) } ?? follows.first { refused.contains($0.path) }
    }

    mutating func add(_ expiring: [ExpiringNode]) { self.expiring = expiring }

    mutating func add(_ fault: ConsequenceFault) {
        self.fault = fault
        isAllowed = false
    }

    /// Adds the budgets that count the write.
    mutating func add(_ rates: [CountedRate]) {
        self.rates = rates
        if rates.contains(where: \.exceedsBurst) { isAllowed = false }
    }

    /// The kind of rule that had to grant the operation.
    public var grantingKind: RuleKind {
        switch operation {
        case .read: .read
        case .count: unmet != nil || steps.contains { $0.kind == .count } ? .count : .read
        case .write: .write
        }
    }

    /// The rule that decided a refusal: a `.validate` that was not true. Nil when no rule granted.
    public var refusal: Step? { isAllowed ? nil : steps.last { $0.kind == .validate && $0.outcome != .allowed } }

    /// The rule that refused, in the order that `reason` uses: a bound of `.count`, a `.rate`, a consequence, a `.validate`. Otherwise the
    /// kind that had to grant.
    public var refuser: String {
        if let unmetRule { return unmetRule }
        if let rate = rates.first(where: \.exceedsBurst) { return rate.rule }
        if let fault { return fault.rule }
        return refusal.map { "\($0.pattern)\($0.kind.rawValue)" } ?? grantingKind.rawValue
    }

    /// The verdict as a sentence.
    public var reason: String {
        if let unmet { return unmet }
        let kind = grantingKind
        let verb =
            switch operation {
            case .read: "read"
            case .count: "count"
            case .write: "write"
            }
        if let rate = rates.first(where: \.exceedsBurst) {
            return "\(rate.rule) lets \(rate.rate.burst) writes through at once, and this is \(rate.writes)."
        }
        if let fault { return "\(fault)." }
        if let refusal { return "\(refusal.pattern)\(refusal.kind.rawValue) is not true\(follower)." }
        if isAllowed { return "Allowed." }
        let asked = steps.contains { $0.kind == kind }
        if kind == .count { return "The .count rule of the place is not true." }
        return asked ? "No \(kind.rawValue) rule on the way to the place allowed the "
            + "\(verb)." : "There is no \(kind.rawValue) rule on the way to the place."
    }

    /// The end of the sentence that names the refused consequence.
    private var follower: String { refusedWrite.map { " for \($0.path), which follows by \($0.rule)" } ?? "" }

    /// The reference's format: one line per rule with its text and result, then the verdict.
    public var description: String {
        var text: String
        let verb: String
        switch operation {
        case .read(let path):
            (text, verb) = ("Attempt to read \(path)\n", "Read")
        case .count(let path):
            (text, verb) = ("Attempt to count \(path)\n", "Count")
        case .write(let paths):
            (text, verb) = ("Attempt to write \(paths.map(\.description).joined(separator: ", "))\n", "Write")
        }
        for step in steps { text += step.description }
        for write in follows { text += "    then \(write.path): \(write.value.json) by \(write.rule)\n" }
        for delivery in deliveries { text += "    then sends \(delivery.summary.json) by \(delivery.rule)\n" }
        for rows in continued { text += "    then rows \(rows.places): \(rows.value.json), in commits of their own, by \(rows.rule)\n" }
        if !continuedHits.isEmpty { text += "    then \(continuedHits.count) rows of watches, in commits of their own\n" }
        for path in continuedRemovals?.places ?? [] {
            text += "    then what follows from the removal of \(path), in commits of their own\n"
        }
        for path in continuedRemovals?.shownTargets ?? [] { text += "    then the removal of \(path), in commits of their own\n" }
        for rate in rates { text += "    counts as \(rate.writes) at \(rate.path) by \(rate.rule): \(rate.rate)\n" }
        for node in expiring { text += "    \(node.path) expires at \(node.at) by \(node.rule)\n" }
        if let unmet {
            text += "\n\(unmet)\n"
        } else if let rate = rates.first(where: \.exceedsBurst) {
            text += "\n\(rate.rule) lets \(rate.rate.burst) writes through at once, and this is \(rate.writes).\n"
        } else if let fault {
            text += "\n\(fault).\n"
        } else if !isAllowed {
            text += refusal == nil ? "\nNo \(grantingKind.rawValue) rule allowed the operation.\n" : "\nValidation failed\(follower).\n"
        }
        return text + "\(verb) was \(isAllowed ? "allowed" : "denied")."
    }
}

extension RuleTrace.Step: CustomStringConvertible {
    /// The rule's place, text and result, then its parts, one on a line.
    public var description: String {
        var text = "    \(path):\(kind.rawValue): \"\(source.text)\" (\(source.line):\(source.column))\n"
        switch outcome {
        case .allowed: text += "      => true\n"
        case .refused: text += "      => false\n"
        case .failed(let reason, let offset): text += "      => failed at \(offset): \(reason)\n"
        }
        for part in parts { text += "        " + String(repeating: "  ", count: part.depth) + part.description + "\n" }
        return text
    }
}

extension RuleTrace.Part: CustomStringConvertible {
    /// `text = value (line:column)`, on one line.
    public var description: String {
        "\(text.split { $0.isWhitespace }.joined(separator: " ")) = \(value) (\(line):\(column))"
    }
}

extension RuleTrace.PartValue: CustomStringConvertible {
    /// Strings are cut at 100 characters.
    public var description: String {
        switch self {
        case .null: return "null"
        case .bool(let value): return "\(value)"
        case .number(let value): return NumberText.format(value)
        case .string(let text):
            let cut = text.prefix(100)
            return "\"\(cut)\"" + (cut.endIndex < text.endIndex ? "…" : "")
        case .object: return "(object)"
        case .failed(let reason): return "failed: \(reason)"
        }
    }
}

/// Collects the steps of one evaluation.
final class TraceRecorder {
    private(set) var steps: [RuleTrace.Step] = []
    /// The rules file, for finding lines and columns.
    private lazy var text = RulesText(source)
    private let source: String
    private let functions: [(name: String, source: RuleSource)]

    init(_ rules: RuleSet) { (source, functions) = (rules.text, rules.program.functions) }

    /// Whether each further step replaces the last one: then parts of allowing steps are no longer recorded.
    var isFull: Bool { steps.count >= RuleTrace.maxSteps }

    func record(_ step: RuleTrace.Step) {
        if steps.count == RuleTrace.maxSteps { steps.removeLast() }
        steps.append(step)
    }

    /// The part of a rule's or a function's text that a span covers.
    func part(_ span: Span, of rule: RuleSource, depth: Int, _ value: RuleTrace.PartValue) -> RuleTrace.Part {
        let rule = span.function < 0 ? rule : functions[Int(span.function)].source
        let bytes = Array(rule.text.utf8)
        let (start, end) = (max(0, min(Int(span.start), bytes.count)), max(0, min(Int(span.end), bytes.count)))
        let string = LocatedString(value: rule.text, quote: rule.offset)
        let (line, column) = text.position(at: text.offset(in: string, at: start))
        let words = String(decoding: bytes[start..<max(start, end)], as: UTF8.self)
        return RuleTrace.Part(text: words, line: line, column: column, depth: depth, value: value)
    }
}
