import JSONTree

/// A parsed expression; parentheses are removed, `===` is `==`.
struct Expression {
    let kind: Kind
    let span: Span
    /// The height of the expression tree, bounded so that recursion over it is safe.
    let height: Int

    static let maxHeight = RulesLimits.expressionHeight

    var offset: Int { Int(span.offset) }

    indirect enum Kind {
        /// null, a boolean, a number or a string.
        case literal(Node)
        case regex(pattern: String, ignoresCase: Bool)
        case variable(String)
        case not(Expression)
        case negate(Expression)
        /// `&&` or `||` over two or more operands, so that a long chain is not a deep tree.
        case all([Expression])
        case any([Expression])
        case comparison(Comparison, Expression, Expression)
        case arithmetic(Arithmetic, Expression, Expression)
        case conditional(Expression, Expression, Expression)
        /// `target.name`, or `target['name']` with a literal.
        case member(Expression, String)
        case index(Expression, Expression)
        case call(Expression, [Expression])
        case array([Expression])
    }
}

/// The range of an expression in its rule's text, in bytes of UTF-8.
struct Span: Hashable {
    /// Its first byte after opening parentheses: the position of its faults.
    let offset: Int32
    /// The whole range, including parentheses.
    let start: Int32
    let end: Int32
    /// The index of the function whose text contains it; -1 for the rule's own text.
    var function: Int32 = -1

    static let none = Span(offset: 0, start: 0, end: 0)
}

enum Comparison: String {
    case equal = "=="
    case notEqual = "!="
    case less = "<"
    case lessOrEqual = "<="
    case greater = ">"
    case greaterOrEqual = ">="

    var isEquality: Bool { self == .equal || self == .notEqual }
}

enum Arithmetic: String {
    case add = "+"
    case subtract = "-"
    case multiply = "*"
    case divide = "/"
    case remainder = "%"
}
