public import JSONTree

/// Why an operation was allowed or refused: every rule that was asked, in order. For logs and explanations; never for
/// ordinary clients (rules contract §12).
public struct RuleTrace: Sendable, CustomStringConvertible {
    public struct Step: Sendable, Hashable {
        /// The place in the data at which the rule was asked.
        public let path: Path
        /// The rule node, with its wildcards' names.
        public let pattern: Path
        public let kind: RuleKind
        public let source: RuleSource
        public let outcome: Outcome
    }

    public enum Outcome: Sendable, Hashable {
        case allowed
        case refused
        /// The expression failed; the offset counts UTF-8 bytes of its text.
        case failed(FaultReason, offset: Int)
    }

    public enum Operation: Sendable, Hashable {
        case read(Path)
        case write([Path])
    }

    public let operation: Operation
    public let isAllowed: Bool
    public let steps: [Step]

    /// The rule that decided a refusal, if one did: a `.validate` that was not true. Without one no rule granted.
    public var refusal: Step? { isAllowed ? nil : steps.last { $0.kind == .validate && $0.outcome != .allowed } }

    /// The reference's form: one line per rule with its text and result, then the verdict.
    public var description: String {
        var text: String
        let verb: String
        switch operation {
        case .read(let path):
            (text, verb) = ("Attempt to read \(path)\n", "Read")
        case .write(let paths):
            (text, verb) = ("Attempt to write \(paths.map(\.description).joined(separator: ", "))\n", "Write")
        }
        for step in steps {
            text += "    \(step.path):\(step.kind.rawValue): \"\(step.source.text)\" (\(step.source.line):\(step.source.column))\n"
            switch step.outcome {
            case .allowed: text += "      => true\n"
            case .refused: text += "      => false\n"
            case .failed(let reason, let offset): text += "      => failed at \(offset): \(reason)\n"
            }
        }
        if !isAllowed {
            text += refusal == nil ? "\nNo .\(verb.lowercased()) rule allowed the operation.\n" : "\nValidation failed.\n"
        }
        return text + "\(verb) was \(isAllowed ? "allowed" : "denied")."
    }
}

/// Collects the steps of one evaluation.
final class TraceRecorder {
    private(set) var steps: [RuleTrace.Step] = []

    func note(_ kind: RuleKind, _ details: PlaceDetails, _ keys: [Key], _ outcome: RuleTrace.Outcome) {
        let source = details.sources[kind] ?? RuleSource(text: "true", line: 1, column: 1)
        steps.append(RuleTrace.Step(path: Path(keys), pattern: details.pattern, kind: kind, source: source, outcome: outcome))
    }
}
