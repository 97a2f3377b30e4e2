/// Finds comparisons of an optional query field in front of an alternative. If the field is null the comparison fails, and the whole rule
/// with it.
///
///     query.radius <= 5000 || auth != null                            fails for every query for the nearest, signed in or not
///     (query.radius != null && query.radius <= 5000) || auth != null  does not fail
enum NullComparisons {
    /// The optional fields of a query, and when each is null.
    static let fields: [QueryField: String] = [
        .radius: "where only the nearest are asked for, and without near", .limit: "without a limit", .limitToFirst: "without it",
        .limitToLast: "without it",
    ]

    /// The first such comparison of each alternative except the last, in the rule and in each function that it calls; and its field.
    static func find(in rule: Term) -> [(field: QueryField, comparison: Span)] {
        var found: [(QueryField, Span)] = []
        rule.forEach { term in
            guard case .any(let operands) = term.kind else { return }
            for operand in operands.dropLast() { found += find(inAlternative: operand) }
        }
        return found
    }

    private static func find(inAlternative operand: Term) -> [(QueryField, Span)] {
        var found: [(field: QueryField, comparison: Span)] = []
        var tried = 0
        operand.forEach { term in
            guard case .comparison(let comparison, let a, let b) = term.kind, !comparison.isEquality else { return }
            for case .query(let field) in [a.kind, b.kind] where fields[field] != nil {
                guard !found.contains(where: { $0.comparison.function == term.span.function }) else { return }
                tried += 1
                guard tried <= RulesLimits.comparisonsTried else { return }
                let known = PartialEvaluator(parts: [["query", field.rawValue]], suspect: term.span)
                if known.outcomes(operand).suspectDecides(.fails) { found.append((field, term.span)) }
            }
        }
        return found
    }
}
