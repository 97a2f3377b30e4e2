import JSONTree

/// Puts expressions of one sentence into words, and keeps what it quotes.
///
/// A rule whose expression fails is not true, so "a or b" in words would be wrong where a comes first and fails: the sentence then says so
/// (`isOrdered`). Negations are moved inwards, which keeps the order of evaluation.
final class RuleWords {
    let context: WordsContext
    let functions: SummaryFunctions
    private(set) var quotes: [String] = []
    /// Whether a part before an "or" can fail, which refuses all that stands behind it.
    private(set) var isOrdered = false
    /// The text of the expression being put into words.
    private var source: [UInt8] = []
    private var steps = 0
    /// Bounds the time for one sentence: beyond it the rest is quoted. Nested values are visited more than once.
    private static let mostSteps = 20_000

    init(_ context: WordsContext, functions: SummaryFunctions) {
        (self.context, self.functions) = (context, functions)
    }

    static let orderNote = " Decided from left to right: a comparison that fails, such as one of a text with a number, refuses."

    // MARK: Entry points

    /// A condition; the whole expression if it cannot be parsed.
    func phrase(_ text: String) -> Phrase {
        source = Array(text.utf8)
        guard let expression = try? ExpressionParser.parse(text) else { return .quote(quote(text), ofCaller: true) }
        var known = Known()
        return phrase(expression, &known).phrase
    }

    func phrase(_ rule: SourceRule) -> Phrase {
        switch rule.text {
        case .constant(let value): value ? .all([]) : .any([])
        case .expression(let string): phrase(string.value)
        }
    }

    /// A value: "the stored `author`", "now", or the quoted expression.
    func value(_ text: String) -> String {
        source = Array(text.utf8)
        guard let expression = try? ExpressionParser.parse(text) else { return quote(text) }
        return operand(expression, Known())?.text ?? quote(expression)
    }

    /// The expression of a function: words if they quote nothing, else the expression.
    func meaning(of body: LocatedString) -> String {
        source = Array(body.value.utf8)
        guard let expression = try? ExpressionParser.parse(body.value) else { return quote(body.value) }
        var known = Known()
        let phrase = phrase(expression, &known).phrase
        switch phrase {
        case .all(let parts) where parts.isEmpty: return "always"
        case .any(let parts) where parts.isEmpty: return "never"
        default: if quotes.isEmpty, !isOrdered { return phrase.clause() }
        }
        quotes = []
        return quote(expression)
    }

    // MARK: Quotes

    /// An expression as it stands in the file, in one line.
    func quote(_ expression: Expression) -> String {
        let (start, end) = (Int(expression.span.start), min(Int(expression.span.end), source.count))
        return quote(start < end ? String(decoding: source[start..<end], as: UTF8.self) : "")
    }

    func quote(_ text: String) -> String {
        var line = ""
        var space = ""
        // Only runs with a line break: a text of an expression has none.
        for character in text {
            if character.isWhitespace { space.append(character) } else {
                line += space.contains(where: \.isNewline) ? " " : space
                (space, line) = ("", line + String(character))
            }
        }
        while line.first?.isWhitespace == true { line.removeFirst() }
        quotes.append(line)
        return "`\(line)`"
    }

    /// Whether there is time for another value.
    func takeStep() -> Bool {
        steps += 1
        return steps <= Self.mostSteps
    }

    /// Words, or nil without the quotes that the attempt has made.
    func attempt(_ body: () -> Words?) -> Words? {
        let count = quotes.count
        let words = body()
        if words == nil { quotes.removeSubrange(count...) }
        return words
    }

    private func quoted(_ expression: Expression, _ isNegated: Bool) -> (phrase: Phrase, mayFail: Bool) {
        let text = quote(expression)
        let isOfCaller = functions.mentions("auth", in: expression)
        return (.quote(isNegated ? "not \(text)" : text, ofCaller: isOfCaller), true)
    }

    // MARK: Conditions

    /// What earlier parts of a conjunction have established.
    struct Known {
        /// Whether the caller is signed in: by a part before this one, or by one of the conjunction at all.
        var isSignedIn = false
        var willBeSignedIn = false
        /// Places that hold a text, and those that hold a number, by `key(_:)`.
        var texts: Set<String> = []
        var numbers: Set<String> = []
    }

    static func key(_ reference: PlaceReference) -> String { "\(reference.tree):\(reference.path)" }

    /// - Parameter known: gains what follows from the expression being true.
    func phrase(_ expression: Expression, _ known: inout Known, not isNegated: Bool = false) -> (phrase: Phrase, mayFail: Bool) {
        switch expression.kind {
        case .literal(.bool(let flag)): return (flag != isNegated ? .all([]) : .any([]), false)
        case .not(let operand): return phrase(operand, &known, not: !isNegated)
        case .all(let parts): return isNegated ? any(parts, known, not: true) : all(parts, &known, not: false)
        case .any(let parts): return isNegated ? all(parts, &known, not: true) : any(parts, known, not: false)
        case .conditional(let condition, let yes, let no) where !condition.isConditional && takeStep():
            var (one, other) = (known, known)
            let (a, b) = (phrase(condition, &one), phrase(condition, &other, not: true))
            let (c, d) = (phrase(yes, &one, not: isNegated), phrase(no, &other, not: isNegated))
            let isSimple = [a, c, d].allSatisfy { if case .quote = $0.phrase { false } else { true } }
            guard isSimple else { return quoted(expression, isNegated) }
            let mayFail = a.mayFail || c.mayFail || d.mayFail
            if mayFail { isOrdered = true }
            return (.any([Self.conjunction([a.phrase, c.phrase]), Self.conjunction([b.phrase, d.phrase])]), mayFail)
        case .comparison(let comparison, let a, let b):
            return compare(isNegated ? comparison.negated : comparison, a, b, &known) ?? quoted(expression, isNegated)
        case .call(let callee, let arguments):
            return call(expression, callee, arguments, &known, not: isNegated) ?? quoted(expression, isNegated)
        default:
            return queryFlag(expression, not: isNegated) ?? quoted(expression, isNegated)
        }
    }

    private func all(_ parts: [Expression], _ known: inout Known, not isNegated: Bool) -> (phrase: Phrase, mayFail: Bool) {
        if parts.contains(where: { requiresUser($0, not: isNegated) }) { known.willBeSignedIn = true }
        var phrases: [Phrase] = []
        var mayFail = false
        var skipped: Set<Int> = []
        for (i, part) in parts.enumerated() where !skipped.contains(i) {
            if !isNegated, let (clause, other) = becoming(parts, at: i, known) {
                skipped.insert(other)
                phrases.append(clause)
                continue
            }
            let (phrase, canFail) = phrase(part, &known, not: isNegated)
            if case .any(let none) = phrase, none.isEmpty { return (.any([]), false) }
            phrases.append(phrase)
            mayFail = mayFail || canFail
        }
        return (Self.conjunction(phrases), mayFail)
    }

    private func any(_ parts: [Expression], _ known: Known, not isNegated: Bool) -> (phrase: Phrase, mayFail: Bool) {
        var phrases: [Phrase] = []
        var mayFail = false
        for part in parts {
            var inner = known
            let (phrase, canFail) = phrase(part, &inner, not: isNegated)
            if case .any(let parts) = phrase {
                phrases += parts
            } else {
                if mayFail { isOrdered = true }
                phrases.append(phrase)
                // Nothing behind it matters.
                if case .all(let parts) = phrase, parts.isEmpty, !mayFail { return (.all([]), false) }
            }
            mayFail = mayFail || canFail
        }
        return (phrases.count == 1 ? phrases[0] : .any(phrases), mayFail)
    }

    private static func conjunction(_ phrases: [Phrase]) -> Phrase {
        let flat = phrases.flatMap { phrase -> [Phrase] in if case .all(let parts) = phrase { parts } else { [phrase] } }
        return flat.count == 1 ? flat[0] : .all(flat)
    }

    /// Two parts that together say that a value was not there before: `new == x && old != x`. Only where something follows from a change.
    private func becoming(_ parts: [Expression], at i: Int, _ known: Known) -> (Phrase, Int)? {
        guard context.role == .change, let (new, value) = equality(parts[i], .equal, known), new.tree == .new else { return nil }
        for (j, part) in parts.enumerated() where j != i {
            guard let (old, other) = equality(part, .notEqual, known), old.tree == .old, old.parts == new.parts, other == value else {
                continue
            }
            return (.becomes(subject: context.name(new), value: value), j)
        }
        return nil
    }

    private func equality(_ expression: Expression, _ wanted: Comparison, _ known: Known) -> (PlaceReference, String)? {
        guard case .comparison(wanted, let a, let b) = expression.kind, let place = valuePlace(a, known),
            let value = operand(b, known), value.isLiteral, !value.isNull
        else { return nil }
        return (place, value.text)
    }

    /// Whether an expression is true only for a signed-in caller.
    func requiresUser(_ expression: Expression, not isNegated: Bool = false) -> Bool {
        switch expression.kind {
        case .not(let operand): return requiresUser(operand, not: !isNegated)
        case .all(let parts): return isNegated ? parts.allSatisfy { requiresUser($0, not: true) } : parts.contains { requiresUser($0) }
        case .any(let parts): return isNegated ? parts.contains { requiresUser($0, not: true) } : parts.allSatisfy { requiresUser($0) }
        case .comparison(let comparison, let a, let b):
            let isEqual = (isNegated ? comparison.negated : comparison) == .equal
            let isUnequal = (isNegated ? comparison.negated : comparison) == .notEqual
            for (side, other) in [(a, b), (b, a)] where Self.isOfCaller(side) {
                if case .literal(.null) = other.kind { return isUnequal }
                switch other.kind {
                case .literal: return isEqual
                case .variable(let name) where name.hasPrefix("$"): return isEqual
                default: return false
                }
            }
            return false
        case .call(let callee, _):
            guard !isNegated, case .variable(let name) = callee.kind else { return false }
            return functions.facts(of: name)?.requiresUser ?? false
        default: return false
        }
    }

    /// Whether an expression is `auth`, or a member of it.
    private static func isOfCaller(_ expression: Expression) -> Bool {
        switch expression.kind {
        case .variable("auth"): true
        case .member(let target, _): isOfCaller(target)
        default: false
        }
    }
}

extension Comparison {
    /// The comparison that is true where this one is false.
    var negated: Comparison {
        switch self {
        case .equal: .notEqual
        case .notEqual: .equal
        case .less: .greaterOrEqual
        case .lessOrEqual: .greater
        case .greater: .lessOrEqual
        case .greaterOrEqual: .less
        }
    }

    /// The comparison with its sides exchanged.
    var flipped: Comparison {
        switch self {
        case .equal, .notEqual: self
        case .less: .greater
        case .lessOrEqual: .greaterOrEqual
        case .greater: .less
        case .greaterOrEqual: .lessOrEqual
        }
    }
}

extension Expression {
    /// Whether a part is a `?:`: conditions are put into words twice.
    fileprivate var isConditional: Bool {
        var found = false
        forEach { if case .conditional = $0.kind { found = true } }
        return found
    }
}
