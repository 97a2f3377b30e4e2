import JSONTree

/// A checked expression.
indirect enum Checked {
    case value(Term, StaticType)
    case snapshot(SnapshotTerm)
    case query
    /// `query.where`, whose members are conditions.
    case conditions
    case regex(Regex)
    case array([Checked])
    case method(Method, of: Checked)

    var type: StaticType {
        switch self {
        case .value(_, let type): type
        case .snapshot: .snapshot
        case .query, .conditions: .query
        case .regex: .regex
        case .array: .array
        case .method: .method
        }
    }

    /// The term it yields; an expression without a value yields an opaque, non-null term.
    func term(at span: Span) -> Term {
        switch self {
        case .value(let term, _): term
        case .snapshot(let snapshot): Term(kind: .opaque(snapshot), span: span)
        case .query, .conditions, .regex, .array, .method: Term(kind: .opaque(nil), span: span)
        }
    }
}

/// Methods of snapshots and strings.
enum Method: String, CaseIterable {
    case val, exists, child, parent, hasChild, hasChildren, getPriority, isNumber, isString, isBoolean, childCount, equals, hasAny
    case contains, beginsWith, endsWith, replace, toLowerCase, toUpperCase, matches, fold

    /// The methods of snapshots and strings.
    static func names(ofSnapshot: Bool) -> [String] {
        allCases.filter { $0.isOfSnapshot == ofSnapshot }.map(\.rawValue) + (ofSnapshot ? [] : ["length"])
    }

    /// Whether it is a method of snapshots; the others are methods of strings.
    var isOfSnapshot: Bool {
        switch self {
        case .val, .exists, .child, .parent, .hasChild, .hasChildren, .getPriority, .isNumber, .isString, .isBoolean, .childCount,
            .equals, .hasAny:
            true
        default: false
        }
    }
}

/// The names that an expression can use at its rule node.
struct Scope {
    let kind: RuleKind
    /// Wildcards in force, by name with the `$`, and the depth of the rule node that declares each.
    var captures: [String: Int]
    /// Whether the expression is a filter over members of a counted set: it sees only `each` and the wildcards.
    var isSetMemberFilter = false
    /// The part of an `.expire` that the expression belongs to; nil elsewhere.
    var expiry: ExpiryScope?
    /// Whether the expression decides who receives an inbox row. It may run after the tree before the commit is gone.
    var isRowFilter = false
    /// The meaning of `each`; nil where `each` is not available.
    var each: SnapshotTerm?
    /// What an expression of a `.watch` sees; nil elsewhere.
    var watch: WatchScope?
}
