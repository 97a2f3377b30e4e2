import JSONTree

/// Evaluates checked rules under partial knowledge: values known to be null, empty places, keys of wildcards, and the written content. The
/// rest may be anything.
struct PartialEvaluator {
    /// Values known to be null: parts of `auth` and `query`, with all below them.
    var parts: [[String]] = []
    /// Places known to be empty, with all below them.
    var places: [[String]] = []
    /// Whether the hub itself writes: `auth` is `{"provider": "hub"}`.
    var isOfHub = false
    /// The known keys of wildcards, by depth.
    var captures: [Int: String] = [:]
    /// The names of the written place, as seen from each tree, and its content after the write.
    var written: (names: [[String]], content: PartialValue)?
    /// The comparisons whose effect is examined; see `PossibleOutcomes`.
    var suspects: Set<Span> = []

    // MARK: Names

    /// `auth.token.x` as `["auth", "token", "x"]`.
    func part(_ term: Term) -> [String]? {
        switch term.kind {
        case .auth: ["auth"]
        case .query(let field): ["query", field.rawValue]
        case .condition(let path): ["query", "where", path.relativeText]
        case .property(let target, let key): part(target).map { $0 + [key.string] }
        case .propertyIndex(let target, let index): part(target).map { $0 + [name(index)] }
        case .call(let body): part(body)
        default: nil
        }
    }

    /// The keys of a place from its root; nil if they depend on a condition.
    func place(_ snapshot: SnapshotTerm) -> [String]? {
        switch snapshot {
        case .data: ["data"]
        case .newData: ["newData"]
        case .root: ["root"]
        case .newRoot: ["newRoot"]
        case .child(let parent, let name):
            place(parent).map { path in
                if case .constant(.string(let text)) = name.folded.kind { return path + text.string.split(separator: "/").map(String.init) }
                if case .capture(let depth) = name.folded.kind, let key = captures[depth] { return path + [key] }
                return path + [self.name(name)]
            }
        case .parent(let child, _): place(child).map { $0.count > 1 ? $0.dropLast() : ["parent of " + $0[0]] }
        case .conditional: nil
        }
    }

    /// A name that is equal for equal values.
    private func name(_ term: Term) -> String {
        switch term.folded.kind {
        case .constant(let node): node.json
        case .capture(let depth): "$\(depth)"
        case .call(let body): name(body)
        case .now: "now"
        case .arithmetic(let operation, let a, let b): "(\(name(a)) \(operation.rawValue) \(name(b)))"
        case .val(let snapshot): name(snapshot, "val") ?? unique(term)
        case .priority(let snapshot): name(snapshot, "priority") ?? unique(term)
        case .recase(let text, let toUpper): "\(toUpper ? "upper" : "lower")(\(name(text)))"
        case .replace(let a, let b, let c): "replace(\(name(a)),\(name(b)),\(name(c)))"
        case .fold(let text): "fold(\(name(text)))"
        default: part(term)?.joined(separator: ".") ?? unique(term)
        }
    }

    private func name(_ snapshot: SnapshotTerm, _ method: String) -> String? {
        place(snapshot).map { "\(method)(\($0.joined(separator: "/")))" }
    }

    /// A name that equals no other: for a value of which nothing is known.
    private func unique(_ term: Term) -> String { "?\(term.span.function):\(term.span.start)" }

    /// The content of a place, as far as it is known.
    private func content(_ snapshot: SnapshotTerm) -> PartialValue {
        guard let path = place(snapshot) else { return .anything }
        if places.contains(where: { path.starts(with: $0) }) { return .nothing }
        guard let written else { return .anything }
        for names in written.names {
            if path.starts(with: names) { return written.content.below(path[names.count...]) }
            // The ancestors of the written place exist: if it is removed, something else remains there.
            if names.starts(with: path) { return .object }
        }
        return .anything
    }

    // MARK: Evaluation

    func outcomes(_ term: Term) -> PossibleOutcomes {
        switch term.kind {
        case .constant(.bool(let value)): return PossibleOutcomes(value)
        case .call(let body): return outcomes(body)
        case .not(let a): return outcomes(a).choosing(.no, .yes)
        case .all(let operands): return operands.reduce(.yes) { $0.choosing(outcomes($1), .no) }
        case .any(let operands): return operands.reduce(.no) { $0.choosing(.yes, outcomes($1)) }
        case .conditional(let condition, let a, let b): return outcomes(condition).choosing(outcomes(a), outcomes(b))
        case .comparison(let comparison, let a, let b):
            let (x, y) = (value(a), value(b))
            if suspects.contains(term.span) { return compare(comparison, x, y).suspected }
            // Another `==` of two missing values does not make a suspect harmless.
            let isOfMissing = x.exists == false && y.exists == false && !a.isConstant && !b.isConstant
            return !suspects.isEmpty && comparison == .equal && isOfMissing ? .unknown : compare(comparison, x, y)
        case .exists(let place): return test(place) { $0.exists }
        case .hasChildren(let place): return test(place) { $0.hasChildren }
        case .isKind(let place, let kind): return test(place) { $0.is(kind) }
        case .hasAll(let place, let names):
            let found = names.map { content(.child(place, $0)).exists }
            return test(place) { _ in found.contains(false) ? false : found.contains(nil) ? nil : true }
        case .hasAny(let place, let names):
            let found = names.map { content(.child(place, $0)).exists }
            return test(place) { _ in found.contains(true) ? true : found.contains(nil) ? nil : false }
        case .sharesKey(let a, let b): return fails(a) || fails(b) ? .fails : isMissing(a) || isMissing(b) ? .no : .unknown
        case .equals(let a, let b): return fails(a) || fails(b) ? .fails : isMissing(a) && isMissing(b) ? .yes : .unknown
        case .stringTest(_, let a, let b): return value(a).canBeText && value(b).canBeText ? .unknown : .fails
        case .matches(let a, _): return value(a).canBeText ? .unknown : .fails
        default: return .unknown
        }
    }

    /// - Parameter answer: the result for the content of the place; nil if unknown.
    private func test(_ place: SnapshotTerm, _ answer: (PartialValue) -> Bool?) -> PossibleOutcomes {
        fails(place) ? .fails : answer(content(place)).map { PossibleOutcomes($0) } ?? .unknown
    }

    private func compare(_ comparison: Comparison, _ a: PartialValue, _ b: PartialValue) -> PossibleOutcomes {
        let isEqual: Bool
        switch (a, b) {
        case (.failure, _), (_, .failure): return .fails
        case (.nothing, let other), (let other, .nothing):
            guard comparison.isEquality else { return .fails }
            guard let exists = other.exists else { return .unknown }
            isEqual = !exists
        case (.leaf(let x), .leaf(let y)): isEqual = x == y
        case (.number, .leaf), (.leaf, .number):
            if a.is(.number) == b.is(.number) { return .unknown }
            isEqual = false
        default: return .unknown
        }
        return comparison.isEquality ? PossibleOutcomes(isEqual == (comparison == .equal)) : .unknown
    }

    func value(_ term: Term) -> PartialValue {
        switch term.folded.kind {
        case .constant(let node): return .constant(node)
        case .call(let body): return value(body)
        case .capture(let depth): return captures[depth].map { .leaf(.string(Text($0))) } ?? .something
        case .now: return .number
        case .auth, .property, .propertyIndex, .query, .condition:
            guard let part = part(term) else { return .anything }
            if isOfHub, part[0] == "auth" { return part == ["auth"] ? .something : part == ["auth", "provider"] ? .leaf("hub") : .nothing }
            return parts.contains { part.starts(with: $0) } ? .nothing : .anything
        case .val(let place): return fails(place) ? .failure : content(place)
        case .valOr(let place, let other): return fails(place) ? .failure : isMissing(place) ? value(other) : .anything
        case .childCount(let place): return fails(place) ? .failure : content(place).hasChildren == false ? .leaf(0) : .number
        case .arithmetic(_, let a, let b):
            switch (value(a), value(b)) {
            case (.nothing, _), (_, .nothing), (.failure, _), (_, .failure): return .failure
            case (.number, .number): return .number
            default: return .something
            }
        case .conditional(let condition, let a, let b):
            let condition = outcomes(condition)
            guard condition.canBe(.yes) != condition.canBe(.no) else { return .anything }
            return value(condition.canBe(.yes) ? a : b)
        case .length(let a), .recase(let a, _), .fold(let a): return value(a).canBeText ? .something : .failure
        case .replace(let a, let b, let c): return [a, b, c].allSatisfy { value($0).canBeText } ? .something : .failure
        default: return .anything
        }
    }

    private func isMissing(_ snapshot: SnapshotTerm) -> Bool { content(snapshot).exists == false }

    /// Whether a name in the path to a place is null: then the rule fails.
    private func fails(_ snapshot: SnapshotTerm) -> Bool {
        switch snapshot {
        case .data, .newData, .root, .newRoot: return false
        case .parent(let child, _): return fails(child)
        case .conditional(let condition, let a, let b):
            let condition = outcomes(condition)
            return (!condition.canBe(.yes) || fails(a)) && (!condition.canBe(.no) || fails(b))
        case .child(let parent, let name):
            if fails(parent) { return true }
            switch value(name) {
            case .nothing, .failure: return true
            default: return false
            }
        }
    }
}
