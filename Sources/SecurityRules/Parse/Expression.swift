import JSONTree

/// An expression as it was written; parentheses are gone, `===` is `==`.
struct Expression {
    let kind: Kind
    /// UTF-8 offset of its first byte in the rule's text.
    let offset: Int
    /// Height of the tree below, bounded so that everything that recurses over it is safe.
    let height: Int

    static let maxHeight = 256

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

enum Comparison: String {
    case equal = "=="
    case notEqual = "!="
    case less = "<"
    case lessOrEqual = "<="
    case greater = ">"
    case greaterOrEqual = ">="
}

enum Arithmetic: String {
    case add = "+"
    case subtract = "-"
    case multiply = "*"
    case divide = "/"
    case remainder = "%"
}
