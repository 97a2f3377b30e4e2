import JSONTree

/// Finds comparisons of a rule that grants because both of their sides are missing: `root.child('owner').val() == auth.uid` is true for
/// a client that is not signed in, where there is no owner.
///
/// For each `==` whose sides can both be null, one of them a part of `auth`, the rule is evaluated with just that known: the rest may be
/// anything. Where it can still be true, it is told.
struct MissingSides {
    /// The values that are null: parts of `auth` and `query`, and all below them.
    private var parts: [[String]] = []
    /// The places where nothing is, with all below them.
    private var places: [[String]] = []

    /// The comparisons of a `.read` or `.write`.
    static func find(in rule: Term) -> [Span] {
        var found: [Span] = []
        var tried = 0
        collect(rule) { a, b, span in
            var missing = MissingSides()
            guard missing.suppose(a), missing.suppose(b), missing.parts.contains(where: { $0.first == "auth" }) else { return }
            tried += 1
            guard tried <= RulesLimits.comparisonsTried else { return }
            if missing.outcomes(rule).contains(.yes) { found.append(span) }
        }
        return found
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

    /// Supposes that a side is null; false when it cannot be.
    private mutating func suppose(_ side: Term) -> Bool {
        switch side.kind {
        case .call(let body): return suppose(body)
        case .val(let snapshot):
            guard let place = place(snapshot) else { return false }
            places.append(place)
            return true
        case .query(let field) where !field.isFlag:
            parts.append(["query", field.rawValue])
            return true
        case .condition(let path):
            parts.append(Self.part(of: path))
            return true
        default:
            guard var part = part(side), part.count > 1 else { return false }
            // These are there for everybody who is signed in.
            let isOfEveryone = part.count == 2 || (part.count == 3 && part[1] == "token" && Self.claimsOfEveryone.contains(part[2]))
            if isOfEveryone { part = ["auth"] }
            parts.append(part)
            return true
        }
    }

    private static func part(of condition: Path) -> [String] { ["query", "where", condition.relativeText] }

    private static let claimsOfEveryone: Set<String> = ["sub", "user_id", "iss", "aud", "auth_time", "iat", "exp", "firebase"]

    // MARK: Names

    /// `auth.token.x` as `["auth", "token", "x"]`.
    private func part(_ term: Term) -> [String]? {
        switch term.kind {
        case .auth: ["auth"]
        case .property(let target, let key): part(target).map { $0 + [key.string] }
        case .propertyIndex(let target, let index): part(target).map { $0 + [name(index)] }
        case .call(let body): part(body)
        default: nil
        }
    }

    /// The keys of a place from its root; nil where they depend on a condition.
    private func place(_ snapshot: SnapshotTerm) -> [String]? {
        switch snapshot {
        case .data: ["data"]
        case .newData: ["newData"]
        case .root: ["root"]
        case .newRoot: ["newRoot"]
        case .child(let parent, let name):
            place(parent).map { path in
                if case .constant(.string(let text)) = name.folded.kind { return path + text.string.split(separator: "/").map(String.init) }
                return path + [self.name(name)]
            }
        case .parent(let child, _): place(child).map { $0.count > 1 ? $0.dropLast() : ["parent of " + $0[0]] }
        case .conditional: nil
        }
    }

    /// A name that is the same for the same values.
    private func name(_ term: Term) -> String {
        switch term.folded.kind {
        case .constant(let node): node.json
        case .capture(let depth): "$\(depth)"
        case .call(let body): name(body)
        default: part(term)?.joined(separator: ".") ?? "?\(term.span.function):\(term.span.start)"
        }
    }

    private func isMissing(_ snapshot: SnapshotTerm) -> Bool {
        guard let path = place(snapshot) else { return false }
        return places.contains { path.starts(with: $0) }
    }

    // MARK: Evaluation

    private enum Known {
        case null, constant(Node), something, anything
        /// It always fails.
        case failure
    }

    /// The possible results of a boolean; empty when it always fails.
    private func outcomes(_ term: Term) -> Outcomes {
        switch term.kind {
        case .constant(.bool(let value)): return Outcomes(value)
        case .call(let body): return outcomes(body)
        case .not(let a):
            let a = outcomes(a)
            return [a.contains(.yes) ? .no : [], a.contains(.no) ? .yes : []]
        case .all(let operands): return chain(operands, goesOn: .yes, ends: .no)
        case .any(let operands): return chain(operands, goesOn: .no, ends: .yes)
        case .conditional(let condition, let a, let b):
            let condition = outcomes(condition)
            return [condition.contains(.yes) ? outcomes(a) : [], condition.contains(.no) ? outcomes(b) : []]
        case .comparison(let comparison, let a, let b): return compare(comparison, value(a), value(b))
        case .exists(let place), .hasChildren(let place), .isKind(let place, _): return test(place)
        case .hasAll(let place, let names): return names.isEmpty ? .yes : test(place)
        case .hasAny(let place, _): return test(place)
        case .sharesKey(let a, let b): return fails(a) || fails(b) ? [] : isMissing(a) || isMissing(b) ? .no : .both
        case .equals(let a, let b): return fails(a) || fails(b) ? [] : isMissing(a) && isMissing(b) ? .yes : .both
        case .stringTest(_, let a, let b): return isText(a) && isText(b) ? .both : []
        case .matches(let a, _): return isText(a) ? .both : []
        default: return .both
        }
    }

    private func chain(_ operands: [Term], goesOn: Outcomes, ends: Outcomes) -> Outcomes {
        var found: Outcomes = []
        for operand in operands {
            let next = outcomes(operand)
            if next.contains(ends) { found.insert(ends) }
            guard next.contains(goesOn) else { return found }
        }
        return found.union(goesOn)
    }

    private func test(_ place: SnapshotTerm) -> Outcomes { fails(place) ? [] : isMissing(place) ? .no : .both }

    private func compare(_ comparison: Comparison, _ a: Known, _ b: Known) -> Outcomes {
        switch (a, b) {
        case (.failure, _), (_, .failure): return []
        default: break
        }
        guard comparison == .equal || comparison == .notEqual else {
            if case .null = a { return [] }
            if case .null = b { return [] }
            return .both
        }
        let isEqual: Bool
        switch (a, b) {
        case (.null, .null): isEqual = true
        case (.null, .something), (.something, .null): isEqual = false
        case (.null, .constant(let node)), (.constant(let node), .null): isEqual = node.isNull
        case (.constant(let x), .constant(let y)): isEqual = x == y
        default: return .both
        }
        return Outcomes(isEqual == (comparison == .equal))
    }

    private func value(_ term: Term) -> Known {
        switch term.folded.kind {
        case .constant(let node): return .constant(node)
        case .call(let body): return value(body)
        case .capture, .now: return .something
        case .auth, .property, .propertyIndex:
            guard let part = part(term) else { return .anything }
            return parts.contains { part.starts(with: $0) } ? .null : .anything
        case .query(let field): return parts.contains(["query", field.rawValue]) ? .null : .anything
        case .condition(let path): return parts.contains(Self.part(of: path)) ? .null : .anything
        case .val(let place): return fails(place) ? .failure : isMissing(place) ? .null : .anything
        case .valOr(let place, let other): return fails(place) ? .failure : isMissing(place) ? value(other) : .anything
        case .childCount(let place): return fails(place) ? .failure : isMissing(place) ? .constant(0) : .something
        case .arithmetic(_, let a, let b):
            for operand in [value(a), value(b)] {
                if case .null = operand { return .failure }
                if case .failure = operand { return .failure }
            }
            return .something
        case .length(let a), .recase(let a, _), .fold(let a): return isText(a) ? .something : .failure
        case .replace(let a, let b, let c): return isText(a) && isText(b) && isText(c) ? .something : .failure
        default: return .anything
        }
    }

    /// Whether it can be a string.
    private func isText(_ term: Term) -> Bool {
        switch value(term) {
        case .null, .failure: false
        case .constant(.string), .something, .anything: true
        case .constant: false
        }
    }

    /// Whether a name on the way to a place is null: then the rule fails.
    private func fails(_ snapshot: SnapshotTerm) -> Bool {
        switch snapshot {
        case .data, .newData, .root, .newRoot: return false
        case .parent(let child, _): return fails(child)
        case .conditional(let condition, let a, let b):
            let condition = outcomes(condition)
            return (!condition.contains(.yes) || fails(a)) && (!condition.contains(.no) || fails(b))
        case .child(let parent, let name):
            if fails(parent) { return true }
            switch value(name) {
            case .null, .failure: return true
            default: return false
            }
        }
    }
}
