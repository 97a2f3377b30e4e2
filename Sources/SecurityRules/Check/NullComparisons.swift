/// Finds comparisons of an optional query field in front of an alternative. If the field is null the comparison fails, and the whole rule
/// with it.
///
///     query.radius <= 5000 || auth != null                            fails for every query for the nearest, signed in or not
///     (query.radius != null && query.radius <= 5000) || auth != null  does not fail
enum NullComparisons {
    /// The optional fields of a query, and when each is null.
    static let fields: [QueryField: String] = [
        .radius: "where only the nearest are asked for, and without near and within", .limit: "without a limit",
        .limitToFirst: "without it", .limitToLast: "without it",
    ]

    /// A field that makes an alternative fail, and the first of its comparisons there.
    struct Finding {
        let field: QueryField
        let comparison: Span
        let alternative: Span
    }

    /// The findings in each alternative except the last, in the rule and in each function that it calls. At most `comparisonsTried` of them are
    /// evaluated.
    static func find(in rule: Term) -> [Finding] {
        var found: [Finding] = []
        var left = RulesLimits.comparisonsTried
        rule.forEach { term in
            guard left > 0, case .any(let operands) = term.kind else { return }
            for operand in operands.dropLast() {
                for (field, comparisons) in compared(in: operand).sorted(by: { $0.value[0].start < $1.value[0].start }) where left > 0 {
                    left -= 1
                    let known = PartialEvaluator(parts: [["query", field.rawValue]], suspects: Set(comparisons))
                    guard known.outcomes(operand).suspectsDecide(.fails) else { continue }
                    found.append(Finding(field: field, comparison: comparisons[0], alternative: operand.span))
                }
            }
        }
        return found
    }

    /// The comparisons that fail if a field is null, in the order of the text.
    private static func compared(in operand: Term) -> [QueryField: [Span]] {
        var found: [QueryField: [Span]] = [:]
        operand.forEach { term in
            guard case .comparison(let comparison, let a, let b) = term.kind, !comparison.isEquality else { return }
            for case .query(let field) in [a.kind, b.kind] where fields[field] != nil { found[field, default: []].append(term.span) }
        }
        return found
    }
}
