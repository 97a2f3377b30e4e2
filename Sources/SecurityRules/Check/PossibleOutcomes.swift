import JSONTree

/// The possible results of a rule under partial knowledge: values known to be null, empty places, keys of wildcards, and the written
/// content. The rest may be anything.
struct PossibleOutcomes {
    /// Values known to be null: parts of `auth` and `query`, with all below them.
    var parts: [[String]] = []
    /// Places known to be empty, with all below them.
    var places: [[String]] = []
    /// Whether the hub itself writes: `auth` is `{"provider": "hub"}`.
    var isOfHub = false
    /// The known keys of wildcards, by depth.
    var captures: [Int: String] = [:]
    /// The names of the written place, as seen from each tree, and its content after the write.
    var written: (names: [[String]], content: WrittenContent)?

    // MARK: Names

    static func part(of condition: Path) -> [String] { ["query", "where", condition.relativeText] }

    /// `auth.token.x` as `["auth", "token", "x"]`.
    func part(_ term: Term) -> [String]? {
        switch term.kind {
        case .auth: ["auth"]
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
        case .query(let field): "query.\(field.rawValue)"
        case .condition(let path): Self.part(of: path).joined(separator: ".")
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
    private func content(_ snapshot: SnapshotTerm) -> WrittenContent {
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

    private func isMissing(_ snapshot: SnapshotTerm) -> Bool { if case .nothing = content(snapshot) { true } else { false } }

    // MARK: Evaluation

    enum Known {
        case null, constant(Node), number, something, anything
        /// Evaluating it always fails.
        case failure
    }

    /// The possible results of a boolean; empty when it always fails.
    func outcomes(_ term: Term) -> Outcomes {
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
        case .exists(let place): return test(place) { $0.exists }
        case .hasChildren(let place): return test(place) { $0.hasChildren }
        case .isKind(let place, let kind): return test(place) { $0.is(kind) }
        case .hasAll(let place, let names): return names.isEmpty ? .yes : all(names, of: place)
        case .hasAny(let place, let names): return any(names, of: place)
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

    /// - Parameter answer: the result for the content of the place; nil if unknown.
    private func test(_ place: SnapshotTerm, _ answer: (WrittenContent) -> Bool?) -> Outcomes {
        fails(place) ? [] : answer(content(place)).map { Outcomes($0) } ?? .both
    }

    private func all(_ names: [Term], of place: SnapshotTerm) -> Outcomes {
        if fails(place) { return [] }
        let found = names.map { content(.child(place, $0)).exists }
        return found.contains(false) ? .no : found.contains(nil) ? .both : .yes
    }

    private func any(_ names: [Term], of place: SnapshotTerm) -> Outcomes {
        if fails(place) { return [] }
        let found = names.map { content(.child(place, $0)).exists }
        return found.contains(true) ? .yes : found.contains(nil) ? .both : .no
    }

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
        case (.null, .something), (.something, .null), (.null, .number), (.number, .null): isEqual = false
        case (.number, .constant(let node)), (.constant(let node), .number):
            switch node {
            case .int, .double: return .both
            default: isEqual = false
            }
        case (.null, .constant(let node)), (.constant(let node), .null): isEqual = node.isNull
        case (.constant(let x), .constant(let y)): isEqual = x == y
        default: return .both
        }
        return Outcomes(isEqual == (comparison == .equal))
    }

    func value(_ term: Term) -> Known {
        switch term.folded.kind {
        case .constant(let node): return .constant(node)
        case .call(let body): return value(body)
        case .capture(let depth): return captures[depth].map { .constant(.string(Text($0))) } ?? .something
        case .now: return .number
        case .auth, .property, .propertyIndex:
            guard let part = part(term) else { return .anything }
            if isOfHub { return part == ["auth"] ? .something : part == ["auth", "provider"] ? .constant("hub") : .null }
            return parts.contains { part.starts(with: $0) } ? .null : .anything
        case .query(let field): return parts.contains(["query", field.rawValue]) ? .null : .anything
        case .condition(let path): return parts.contains(Self.part(of: path)) ? .null : .anything
        case .val(let place): return fails(place) ? .failure : content(place).value
        case .valOr(let place, let other): return fails(place) ? .failure : isMissing(place) ? value(other) : .anything
        case .childCount(let place): return fails(place) ? .failure : content(place).hasChildren == false ? .constant(0) : .number
        case .arithmetic(_, let a, let b):
            for operand in [value(a), value(b)] {
                if case .null = operand { return .failure }
                if case .failure = operand { return .failure }
            }
            if case .number = value(a), case .number = value(b) { return .number }
            return .something
        case .conditional(let condition, let a, let b):
            let condition = outcomes(condition)
            if condition == .yes { return value(a) }
            if condition == .no { return value(b) }
            return .anything
        case .length(let a), .recase(let a, _), .fold(let a): return isText(a) ? .something : .failure
        case .replace(let a, let b, let c): return isText(a) && isText(b) && isText(c) ? .something : .failure
        default: return .anything
        }
    }

    /// Whether it can be a string.
    private func isText(_ term: Term) -> Bool {
        switch value(term) {
        case .null, .failure, .number: false
        case .constant(.string), .something, .anything: true
        case .constant: false
        }
    }

    /// Whether a name in the path to a place is null: then the rule fails.
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
