import JSONTree

/// Finds comparisons that make a rule grant because both sides are null. Without an owner, `root.child('owner').val() == auth.uid` is true
/// for a client that is not signed in.
///
/// For each `==` whose sides can both be null, one of them a part of `auth`, the rule is evaluated knowing only that. The rest may be
/// anything. It is reported if the rule can then be true because of it: another branch that grants anyway, or never, makes it harmless.
struct MissingSides {
    private var known = PossibleOutcomes()

    /// The reported comparisons of a `.read` or `.write`.
    static func find(in rule: Term) -> [Span] {
        var found: [Span] = []
        var tried = 0
        collect(rule) { a, b, span in
            var missing = MissingSides()
            guard missing.suppose(a), missing.suppose(b), missing.known.parts.contains(where: { $0.first == "auth" }) else { return }
            tried += 1
            guard tried <= RulesLimits.comparisonsTried else { return }
            if missing.known.outcomes(rule).contains(.yes), missing.decides(rule, span) { found.append(span) }
        }
        return found
    }

    /// Whether the result of a term can depend on this comparison, which is true.
    private func decides(_ term: Term, _ span: Span) -> Bool {
        switch term.kind {
        case .comparison: return term.span == span
        case .call(let body): return decides(body, span)
        case .all(let operands):
            return operands.indices.contains { i in
                decides(operands[i], span) && operands.indices.allSatisfy { $0 == i || known.outcomes(operands[$0]).contains(.yes) }
            }
        case .any(let operands):
            return operands.indices.contains { i in
                decides(operands[i], span) && operands.indices.allSatisfy { $0 == i || !grants(operands[$0]) }
            }
        case .conditional(let condition, let a, let b):
            let outcomes = known.outcomes(condition)
            return decides(condition, span) || outcomes.contains(.yes) && decides(a, span) || outcomes.contains(.no) && decides(b, span)
        // Where it is true, this is false.
        default: return false
        }
    }

    /// Whether a branch grants anyway, and not only because both sides of its own `==` are null.
    private func grants(_ operand: Term) -> Bool {
        switch operand.kind {
        case .comparison(.equal, let a, let b):
            var other = MissingSides()
            return !(other.suppose(a) && other.suppose(b)) && known.outcomes(operand) == .yes
        case .call(let body): return grants(body)
        default: return known.outcomes(operand) == .yes
        }
    }

    /// Calls `body` for each `==` with its sides.
    private static func collect(_ term: Term, _ body: (Term, Term, Span) -> Void) {
        switch term.kind {
        case .comparison(.equal, let a, let b): body(a, b, term.span)
        case .not(let a), .call(let a): collect(a, body)
        case .all(let operands), .any(let operands): for operand in operands { collect(operand, body) }
        case .conditional(let a, let b, let c): for part in [a, b, c] { collect(part, body) }
        default: return
        }
    }

    /// Assumes that a side is null; false when it cannot be.
    private mutating func suppose(_ side: Term) -> Bool {
        switch side.kind {
        case .call(let body): return suppose(body)
        case .val(let snapshot):
            guard let place = known.place(snapshot) else { return false }
            known.places.append(place)
            return true
        case .query(let field) where !field.isFlag:
            known.parts.append(["query", field.rawValue])
            return true
        case .condition(let path):
            known.parts.append(PossibleOutcomes.part(of: path))
            return true
        default:
            guard var part = known.part(side), part.count > 1 else { return false }
            // Every signed-in user has these claims, so a null one means that `auth` is null.
            let isOfEveryone = part.count == 2 || (part.count == 3 && part[1] == "token" && Self.claimsOfEveryone.contains(part[2]))
            if isOfEveryone { part = ["auth"] }
            known.parts.append(part)
            return true
        }
    }

    private static let claimsOfEveryone: Set<String> = ["sub", "user_id", "iss", "aud", "auth_time", "iat", "exp", "firebase"]
}
