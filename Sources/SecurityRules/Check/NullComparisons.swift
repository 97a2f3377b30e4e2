import JSONTree

/// Comparisons of an optional query field in front of an alternative. If the field is null the comparison fails, and the whole rule with it.
///
///     query.radius <= 5000 || auth != null                            fails for every query for the nearest, signed in or not
///     (query.radius != null && query.radius <= 5000) || auth != null  does not fail
struct NullComparisons {
    /// The optional fields of a query, and when each is null.
    static let fields = [
        "radius": "where only the nearest are asked for, and without near", "limit": "without a limit", "limitToFirst": "without it",
        "limitToLast": "without it",
    ]

    /// The first such comparison of each alternative except the last: its field and its offset.
    static func find(inAlternatives operands: [Expression]) -> [(field: String, offset: Int)] {
        operands.dropLast().compactMap { operand in
            var asked: Set<String> = []
            return find(operand, &asked)
        }
    }

    /// - Parameter asked: fields known to be non-null.
    private static func find(_ expression: Expression, _ asked: inout Set<String>) -> (field: String, offset: Int)? {
        switch expression.kind {
        case .comparison(.notEqual, let a, let b):
            if let field = field(a) ?? field(b), isNull(a) || isNull(b) { asked.insert(field) }
            return nil
        case .comparison(.equal, let a, let b):
            // A field that equals a non-null value is non-null.
            guard let field = field(a) ?? field(b) else { return nil }
            if case .literal(let node) = (Self.field(a) == nil ? a : b).kind, node.exists { asked.insert(field) }
            return nil
        case .comparison(_, let a, let b):
            guard let field = field(a) ?? field(b), !asked.contains(field) else { return nil }
            return (field, expression.offset)
        case .all(let operands):
            for operand in operands { if let found = find(operand, &asked) { return found } }
            return nil
        case .any(let operands):
            for operand in operands {
                var known = asked
                if let found = find(operand, &known) { return found }
            }
            return nil
        case .not(let operand):
            var known = asked
            return find(operand, &known)
        default: return nil
        }
    }

    private static func field(_ expression: Expression) -> String? {
        guard case .member(let target, let name) = expression.kind, case .variable("query") = target.kind else { return nil }
        return fields[name] == nil ? nil : name
    }

    private static func isNull(_ expression: Expression) -> Bool {
        if case .literal(let node) = expression.kind { !node.exists } else { false }
    }
}
