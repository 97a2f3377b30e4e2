import JSONTree

/// The possible results of a boolean expression under partial knowledge; empty if it always fails. A possible failure is not recorded: a
/// rule that fails is not true, and no operator turns a failure into true.
struct Outcomes: OptionSet {
    let rawValue: UInt8

    static let yes = Outcomes(rawValue: 1)
    static let no = Outcomes(rawValue: 2)
    static let both: Outcomes = [.yes, .no]

    init(rawValue: UInt8) { self.rawValue = rawValue }
    init(_ value: Bool) { self = value ? .yes : .no }
}

/// The possible results of a value over all data.
private enum Prospect {
    /// It always fails.
    case failure
    /// This value, unless evaluating it fails.
    case value(Value)
    case anything
}

/// The operand types for which an operation does not fail.
private enum Operand { case any, text, number, ordered }

/// Evaluates rules over all possible data. Expressions that read no data are evaluated as usual. For a place in a tree only its computed
/// keys are evaluated, which fail if `auth` lacks their parts. This may do more work than with the trees, so exceeding the text work limit
/// decides nothing.
extension Evaluator {
    /// Whether some data could make a rule true. O(expression)
    mutating func mayHold(_ rule: Int32) -> Bool {
        defer { dropScratch(to: 0) }
        return outcomes(rule, wanted: .yes).contains(.yes)
    }

    /// - Parameter wanted: the results that the caller needs; others may be missing.
    private mutating func outcomes(_ start: Int32, wanted: Outcomes = .both) -> Outcomes {
        var found: Outcomes = []
        var i = start
        while !found.isSuperset(of: wanted) {
            let instruction = tables.code[Int(i)]
            guard instruction.readsData else { return found.union(plainOutcome(i)) }
            switch instruction.operation {
            case .and:
                let first = outcomes(instruction.a, wanted: wanted.union(.yes))
                if first.contains(.no) { found.insert(.no) }
                guard first.contains(.yes) else { return found }
                i = instruction.b
            case .or:
                let first = outcomes(instruction.a, wanted: wanted.union(.no))
                if first.contains(.yes) { found.insert(.yes) }
                guard first.contains(.no) else { return found }
                i = instruction.b
            case .call: i = instruction.a
            case .conditional:
                let condition = outcomes(instruction.a)
                if condition == .both { found.formUnion(outcomes(instruction.b, wanted: wanted)) }
                guard !condition.isEmpty else { return found }
                i = condition == .yes ? instruction.b : instruction.c
            case .not:
                let operand = outcomes(instruction.a)
                if operand.contains(.yes) { found.insert(.no) }
                if operand.contains(.no) { found.insert(.yes) }
                return found
            default:
                let mark = scratchCount
                defer { dropScratch(to: mark) }
                return found.union(test(instruction))
            }
        }
        return found
    }

    /// The results of an expression that reads no data.
    private mutating func plainOutcome(_ i: Int32) -> Outcomes {
        let mark = scratchCount
        defer { dropScratch(to: mark) }
        do { return Outcomes(try boolean(i)) } catch { return error.reason == .tooMuchWork ? .both : [] }
    }

    /// The results of an operation that reads places or compares values.
    private mutating func test(_ instruction: Instruction) -> Outcomes {
        switch instruction.operation {
        case .equalConstant, .notEqualConstant:
            switch prospect(instruction.a) {
            case .failure: return []
            case .anything: return .both
            case .value(let value):
                return Outcomes(Operations.equal(value, tables.values[Int(instruction.b)]) == (instruction.operation == .equalConstant))
            }
        case .compare:
            let isEquality = instruction.detail == Comparison.equal.number || instruction.detail == Comparison.notEqual.number
            return fails(instruction.a, unless: isEquality ? .any : .ordered) || fails(instruction.b, unless: isEquality ? .any : .ordered)
                ? [] : .both
        case .stringTest: return fails(instruction.a, unless: .text) || fails(instruction.b, unless: .text) ? [] : .both
        case .matches: return fails(instruction.a, unless: .text) ? [] : .both
        case .exists, .hasChildren, .isKind: return placeFails(instruction.a) ? [] : .both
        case .equals, .sharesKey: return placeFails(instruction.a) || placeFails(instruction.b) ? [] : .both
        case .hasAll, .hasAny:
            if placeFails(instruction.a) { return [] }
            for step in Int(instruction.b)..<Int(instruction.b &+ instruction.c) {
                if stepsFail(tables.code[Int(tables.steps[step].index)]) { return [] }
            }
            return .both
        default: return .both
        }
    }

    // MARK: Values

    /// The caller frees the scratch strings.
    private mutating func prospect(_ i: Int32) -> Prospect {
        let instruction = tables.code[Int(i)]
        guard instruction.readsData else {
            do { return .value(try value(i)) } catch { return error.reason == .tooMuchWork ? .anything : .failure }
        }
        switch instruction.operation {
        case .val, .valOr, .childCount, .priority, .opaque: return placeFails(instruction.a) ? .failure : .anything
        case .call: return prospect(instruction.a)
        case .conditional:
            let condition = outcomes(instruction.a)
            if condition == .yes { return prospect(instruction.b) }
            if condition == .no { return prospect(instruction.c) }
            if condition.isEmpty { return .failure }
            return fails(instruction.b, unless: .any) && fails(instruction.c, unless: .any) ? .failure : .anything
        case .arithmetic:
            let operand: Operand = Arithmetic.byNumber[Int(instruction.detail)] == .add ? .ordered : .number
            return fails(instruction.a, unless: operand) || fails(instruction.b, unless: operand) ? .failure : .anything
        case .negate: return fails(instruction.a, unless: .number) ? .failure : .anything
        case .length, .recase, .fold: return fails(instruction.a, unless: .text) ? .failure : .anything
        case .dayOf: return fails(instruction.a, unless: .number) ? .failure : .anything
        case .dayIn: return fails(instruction.a, unless: .number) || fails(instruction.b, unless: .text) ? .failure : .anything
        case .dayNumber: return fails(instruction.a, unless: .any) ? .failure : .anything
        case .replace:
            let fails = fails(instruction.a, unless: .text) || fails(instruction.b, unless: .text) || fails(instruction.c, unless: .text)
            return fails ? .failure : .anything
        case .property: return fails(instruction.a, unless: .any) ? .failure : .anything
        case .propertyIndex: return fails(instruction.a, unless: .any) || fails(instruction.b, unless: .any) ? .failure : .anything
        default:
            let found = outcomes(i)
            if found.isEmpty { return .failure }
            return found == .both ? .anything : .value(.bool(found == .yes))
        }
    }

    /// Whether an operand always fails, or always makes the operation fail.
    private mutating func fails(_ i: Int32, unless operand: Operand) -> Bool {
        let mark = scratchCount
        defer { dropScratch(to: mark) }
        switch prospect(i) {
        case .failure: return true
        case .anything: return false
        case .value(let value):
            switch (operand, value) {
            case (.any, _), (.text, .text), (.number, .number), (.ordered, .text), (.ordered, .number): return false
            default: return true
            }
        }
    }

    // MARK: Places

    /// Whether the place of a snapshot always fails.
    private mutating func placeFails(_ i: Int32) -> Bool {
        let instruction = tables.code[Int(i)]
        switch instruction.operation {
        case .place, .shared: return stepsFail(instruction)
        case .below: return placeFails(instruction.a) || stepsFail(instruction)
        case .conditional:
            let condition = outcomes(instruction.a)
            if condition.contains(.yes), !placeFails(instruction.b) { return false }
            if condition.contains(.no), !placeFails(instruction.c) { return false }
            return true
        default: return placeFails(instruction.a)
        }
    }

    /// Whether a computed step always fails: all steps are evaluated, even where the tree ends above them.
    private mutating func stepsFail(_ instruction: Instruction) -> Bool {
        for i in Int(instruction.b)..<Int(instruction.b &+ instruction.c) {
            let step = tables.steps[i]
            switch step.kind {
            case .key, .capture: continue
            case .value: if fails(step.index, unless: .text) { return true }
            case .part: if fails(step.index, unless: .ordered) { return true }
            }
        }
        return false
    }
}
