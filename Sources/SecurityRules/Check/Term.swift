import JSONTree

/// A checked expression that yields a value: names are resolved, every operation is known, only dynamic types are left open.
struct Term {
    let kind: Kind
    /// Where it is in the rule's text.
    let span: Span

    indirect enum Kind {
        case constant(Node)
        case now
        /// ms of the last commit at or below the node.
        case written
        case auth
        /// The key that a wildcard at this depth of the rules is bound to; the root is depth 0.
        case capture(depth: Int)
        case property(Term, Key)
        case propertyIndex(Term, Term)
        case query(QueryField)
        /// What the query wants this place below each child to be equal to.
        case condition(Path)

        case not(Term)
        case negate(Term)
        case all([Term])
        case any([Term])
        case comparison(Comparison, Term, Term)
        case arithmetic(Arithmetic, Term, Term)
        case conditional(Term, Term, Term)

        case val(SnapshotTerm)
        /// The value of a place, or another one where there is none.
        case valOr(SnapshotTerm, Term)
        case childCount(SnapshotTerm)
        /// Both are the same with everything below them.
        case equals(SnapshotTerm, SnapshotTerm)
        /// One of the names is a child.
        case hasAny(SnapshotTerm, [Term])
        /// Both have a child of one name.
        case sharesKey(SnapshotTerm, SnapshotTerm)
        case priority(SnapshotTerm)
        case exists(SnapshotTerm)
        case hasChildren(SnapshotTerm)
        case hasAll(SnapshotTerm, [Term])
        case isKind(SnapshotTerm, LeafKind)
        /// An operand that no operation can use, where only its being non-null counts: a snapshot, method or regular
        /// expression as one branch of a conditional.
        case opaque(SnapshotTerm?)

        case length(Term)
        case stringTest(StringTest, Term, Term)
        case replace(Term, Term, Term)
        case recase(Term, toUpper: Bool)
        case matches(Term, Regex)
        case fold(Term)
        case dayOf(Term, TimeZoneTable)
        case dayNumber(Term)

        /// The body of a function, in the place of its call.
        case call(Term)
    }

    /// Whether it can only be a string.
    var isString: Bool {
        switch kind {
        case .constant(.string), .capture, .replace, .recase, .fold, .dayOf: true
        case .call(let body): body.isString
        case .arithmetic(.add, let a, let b): a.isString || b.isString
        case .conditional(_, let a, let b): a.isString && b.isString
        default: false
        }
    }
}

/// A checked expression that yields a place in one of the two trees.
indirect enum SnapshotTerm {
    case data
    case newData
    case root
    case newRoot
    case child(SnapshotTerm, Term)
    case parent(SnapshotTerm, span: Span)
    case conditional(Term, SnapshotTerm, SnapshotTerm)
}

enum LeafKind: UInt8 { case number, string, boolean }

enum StringTest: UInt8 { case contains, beginsWith, endsWith }

/// The variables of `query` (rules contract §11).
enum QueryField: String, CaseIterable {
    case orderByKey, orderByValue, orderByPriority, orderByChild, startAt, endAt, equalTo, limitToFirst, limitToLast
    /// Whether there is a circle or nearest; the metres of the circle; whichever limit.
    case near, radius, limit

    var isFlag: Bool { self == .orderByKey || self == .orderByValue || self == .orderByPriority || self == .near }
}
