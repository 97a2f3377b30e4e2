import JSONTree

/// A checked expression.
indirect enum Checked {
    case value(Term, StaticType)
    case snapshot(SnapshotTerm)
    case query
    /// `query.where`, of which members are asked.
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

    /// The value it yields; an expression without one counts as non-null.
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

    /// Whether snapshots have it; strings have the others.
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
    /// Whether it is asked about a member of a counted set: it sees `each` and the wildcards alone.
    var isOfMember = false
    /// Which part of an `.expire` it is; nil elsewhere.
    var expiry: ExpiryScope?
    /// Whether it is asked about those who may get a row, also when the tree before the commit is not there any more.
    var isOfRow = false
    /// What `each` is; nil where it means nothing.
    var each: SnapshotTerm?
}
