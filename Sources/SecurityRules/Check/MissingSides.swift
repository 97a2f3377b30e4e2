import JSONTree

/// Finds comparisons that make a rule grant because both sides are null. Without an owner, `root.child('owner').val() == auth.uid` is true
/// for a client that is not signed in.
///
/// For each `==` whose sides can both be null, one of them a part of `auth`, the rule is evaluated knowing only that. The rest may be
/// anything. It is reported if the rule can then be true because of it: another branch that grants anyway, or never, makes it harmless.
enum MissingSides {
    /// The reported comparisons of a `.read` or `.write`.
    static func find(in rule: Term) -> [Span] {
        var found: [Span] = []
        var tried = 0
        rule.forEach { term in
            guard case .comparison(.equal, let a, let b) = term.kind else { return }
            var known = PartialEvaluator()
            guard known.suppose(a), known.suppose(b), known.parts.contains(where: { $0.first == "auth" }) else { return }
            tried += 1
            guard tried <= RulesLimits.comparisonsTried, known.outcomes(rule).canBe(.yes) else { return }
            known.suspects = [term.span]
            if known.outcomes(rule).suspectsDecide(.yes) { found.append(term.span) }
        }
        return found
    }

    fileprivate static let claimsOfEveryone: Set<String> = ["sub", "user_id", "iss", "aud", "auth_time", "iat", "exp", "firebase"]
}

extension PartialEvaluator {
    /// Assumes that a term is null; false if it cannot be.
    fileprivate mutating func suppose(_ term: Term) -> Bool {
        switch term.kind {
        case .call(let body): return suppose(body)
        case .val(let snapshot):
            guard let place = place(snapshot) else { return false }
            places.append(place)
            return true
        case .query(let field) where field.isFlag: return false
        default:
            guard let part = part(term), part.count > 1 else { return false }
            // Every signed-in user has these, so a null one means that `auth` is null.
            let isOfEveryone = part.count == 2 || (part.count == 3 && part[1] == "token" && MissingSides.claimsOfEveryone.contains(part[2]))
            parts.append(part[0] == "auth" && isOfEveryone ? ["auth"] : part)
            return true
        }
    }
}
