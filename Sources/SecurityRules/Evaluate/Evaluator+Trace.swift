import JSONTree

/// Collects the values of a rule's parts. Expressions have no side effects, so their parts are evaluated again: decisions without a trace
/// cost nothing extra.
extension Evaluator {
    /// Evaluates a rule and its parts for a trace.
    mutating func trace(_ kind: RuleKind, _ place: Int32, _ root: Int32, at level: Int, _ recorder: TraceRecorder) -> Bool {
        let details = program.details[Int(place)]
        let source = details.sources[kind] ?? RuleSource(text: "true", line: 1, column: 1, offset: 0)
        var outcome: RuleTrace.Outcome
        let before = textWork
        do { outcome = try boolean(root) ? .allowed : .refused } catch { outcome = .failed(error.reason, offset: Int(error.offset)) }
        dropScratch(to: 0)
        let after = textWork
        var parts: [RuleTrace.Part] = []
        if outcome != .allowed || !recorder.isFull { collect(root, 0, source, recorder, &parts, work: before) }
        // The budget is as after a decision without a trace.
        textWork = after
        recorder.record(
            RuleTrace.Step(path: Path(path(level)), pattern: details.pattern, kind: kind, source: source, outcome: outcome, parts: parts))
        return outcome == .allowed
    }

    /// Adds an instruction's part, and the parts in it that were evaluated.
    private mutating func collect(
        _ i: Int32, _ depth: Int, _ source: RuleSource, _ recorder: TraceRecorder, _ parts: inout [RuleTrace.Part], work: Int
    ) {
        guard i >= 0, parts.count < RulesLimits.traceParts else { return }
        let instruction = tables.code[Int(i)]
        func record(_ value: RuleTrace.PartValue) { parts.append(recorder.part(tables.spans[Int(i)], of: source, depth: depth, value)) }

        switch instruction.operation {
        case .constant, .yes, .no, .place, .shared, .below, .parent: break
        case .and, .or:
            record(partValue(i, work))
            // A chain is one part, whatever its number of instructions.
            var (link, next) = (instruction, i)
            while link.operation == instruction.operation {
                collect(link.a, depth + 1, source, recorder, &parts, work: work)
                guard case .bool(let value) = partValue(link.a, work), value == (link.operation == .and) else { return }
                next = link.b
                link = tables.code[Int(next)]
                // A chain in parentheses is a part of its own.
                let (span, first) = (tables.spans[Int(next)], tables.spans[Int(i)])
                if span.start != first.start || span.function != first.function { break }
            }
            collect(next, depth + 1, source, recorder, &parts, work: work)
        case .conditional:
            record(partValue(i, work))
            collect(instruction.a, depth + 1, source, recorder, &parts, work: work)
            if case .bool(let condition) = partValue(instruction.a, work) {
                collect(condition ? instruction.b : instruction.c, depth + 1, source, recorder, &parts, work: work)
            }
        case .not, .negate, .length, .recase, .fold, .dayOf, .dayNumber, .equalConstant, .notEqualConstant, .matches, .call:
            record(partValue(i, work))
            collect(instruction.a, depth + 1, source, recorder, &parts, work: work)
        case .compare, .stringTest, .arithmetic, .propertyIndex, .dayIn:
            record(partValue(i, work))
            collect(instruction.a, depth + 1, source, recorder, &parts, work: work)
            collect(instruction.b, depth + 1, source, recorder, &parts, work: work)
        case .replace:
            record(partValue(i, work))
            for operand in [instruction.a, instruction.b, instruction.c] {
                collect(operand, depth + 1, source, recorder, &parts, work: work)
            }
        default: record(partValue(i, work))
        }
    }

    /// - Parameter work: the budget when the rule began. With it, a part has the same value as during the decision, or fails no sooner.
    private mutating func partValue(_ i: Int32, _ work: Int) -> RuleTrace.PartValue {
        textWork = work
        defer { dropScratch(to: 0) }
        do {
            switch try value(i) {
            case .null: return .null
            case .bool(let value): return .bool(value)
            case .number(let value): return .number(value)
            case .text(let text): return .string(text.string)
            case .object: return .object
            }
        } catch { return .failed(error.reason) }
    }
}
