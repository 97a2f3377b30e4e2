import JSONTree

/// A checked expression that yields a value: names and operations are resolved, and only run-time types are open.
struct Term {
    let kind: Kind
    /// Its range in the rule's text.
    let span: Span

    indirect enum Kind {
        case constant(Node)
        case now
        /// ms of the last commit at or below the node.
        case written
        /// Metres from the centre of a watch to what it has found.
        case distance
        case auth
        /// The key that a wildcard at this depth of the rules is bound to; the root is depth 0.
        case capture(depth: Int)
        case property(Term, Key)
        case propertyIndex(Term, Term)
        case query(QueryField)
        /// The value that the query's `where` requires at this path below each child.
        case condition(Path)

        case not(Term)
        case negate(Term)
        case all([Term])
        case any([Term])
        case comparison(Comparison, Term, Term)
        case arithmetic(Arithmetic, Term, Term)
        case conditional(Term, Term, Term)

        case val(SnapshotTerm)
        /// The value of a place, or the second term if the place is empty.
        case valOr(SnapshotTerm, Term)
        case childCount(SnapshotTerm)
        /// Whether two nodes are equal with everything below them.
        case equals(SnapshotTerm, SnapshotTerm)
        /// Whether one of the names is a child.
        case hasAny(SnapshotTerm, [Term])
        /// Whether two nodes share a child name.
        case sharesKey(SnapshotTerm, SnapshotTerm)
        case priority(SnapshotTerm)
        case exists(SnapshotTerm)
        case hasChildren(SnapshotTerm)
        case hasAll(SnapshotTerm, [Term])
        case isKind(SnapshotTerm, LeafKind)
        /// A snapshot, method or regular expression as a branch of a conditional: no operation accepts it, but it counts as non-null.
        case opaque(SnapshotTerm?)

        case length(Term)
        case stringTest(StringTest, Term, Term)
        case replace(Term, Term, Term)
        case recase(Term, toUpper: Bool)
        case matches(Term, Regex)
        case fold(Term)
        case dayOf(Term, TimeZoneTable)
        /// The same, with the name of a zone from data.
        case dayIn(Term, Term)
        case dayNumber(Term)

        /// The body of a function, replacing its call.
        case call(Term)
    }

    /// Calls `body` for the term and all its parts, in the order of the text.
    func forEach(_ body: (Term) -> Void) {
        body(self)
        switch kind {
        case .constant, .now, .written, .distance, .auth, .capture, .query, .condition, .opaque(nil): break
        case .not(let a), .negate(let a), .property(let a, _), .length(let a), .recase(let a, _), .matches(let a, _), .fold(let a),
            .dayOf(let a, _), .dayNumber(let a), .call(let a):
            a.forEach(body)
        case .comparison(_, let a, let b), .arithmetic(_, let a, let b), .propertyIndex(let a, let b), .stringTest(_, let a, let b),
            .dayIn(let a, let b):
            for part in [a, b] { part.forEach(body) }
        case .conditional(let a, let b, let c), .replace(let a, let b, let c): for part in [a, b, c] { part.forEach(body) }
        case .all(let parts), .any(let parts): for part in parts { part.forEach(body) }
        case .val(let place), .childCount(let place), .priority(let place), .exists(let place), .hasChildren(let place),
            .isKind(let place, _), .opaque(let place?):
            place.forEachTerm(body)
        case .equals(let a, let b), .sharesKey(let a, let b): for place in [a, b] { place.forEachTerm(body) }
        case .valOr(let place, let other):
            place.forEachTerm(body)
            other.forEach(body)
        case .hasAll(let place, let names), .hasAny(let place, let names):
            place.forEachTerm(body)
            for name in names { name.forEach(body) }
        }
    }

    var isConstant: Bool { if case .constant = folded.kind { true } else { false } }

    /// Whether its only possible type is a string.
    var isString: Bool {
        switch kind {
        case .constant(.string), .capture, .replace, .recase, .fold, .dayOf, .dayIn: true
        case .call(let body): body.isString
        case .arithmetic(.add, let a, let b): a.isString || b.isString
        case .conditional(_, let a, let b): a.isString && b.isString
        default: false
        }
    }
}

/// A checked expression that yields a place in the old or new tree.
indirect enum SnapshotTerm {
    case data
    case newData
    case root
    case newRoot
    case child(SnapshotTerm, Term)
    case parent(SnapshotTerm, span: Span)
    case conditional(Term, SnapshotTerm, SnapshotTerm)

    /// Calls `body` for all terms in it and their parts.
    func forEachTerm(_ body: (Term) -> Void) {
        switch self {
        case .data, .newData, .root, .newRoot: break
        case .child(let parent, let name):
            parent.forEachTerm(body)
            name.forEach(body)
        case .parent(let child, _): child.forEachTerm(body)
        case .conditional(let condition, let a, let b):
            condition.forEach(body)
            for place in [a, b] { place.forEachTerm(body) }
        }
    }
}

enum LeafKind: UInt8 { case number, string, boolean }

enum StringTest: UInt8 { case contains, beginsWith, endsWith }

/// The variables of `query` (rules contract §11).
enum QueryField: String, CaseIterable {
    case orderByKey, orderByValue, orderByPriority, orderByChild, startAt, endAt, equalTo, limitToFirst, limitToLast
    /// Whether the query has a circle or asks for the nearest; the radius of the circle, or of one around its region, in metres; the kind of
    /// its region; the limit from either end.
    case near, radius, within, limit

    var isFlag: Bool { self == .orderByKey || self == .orderByValue || self == .orderByPriority || self == .near }
}
