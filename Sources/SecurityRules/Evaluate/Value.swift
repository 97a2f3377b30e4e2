import JSONTree

/// The result of an instruction, without ownership. Numbers and booleans are stored directly, everything else as an address that outlives
/// the evaluation of the rule. It points into a tree, the program's constants, the keys of the path, or the evaluator's scratch.
enum Value {
    case null
    case bool(Bool)
    /// A number is an IEEE double, even where an integer is stored (rules contract §5.3).
    case number(Double)
    case text(TextCursor)
    /// The opaque token of a node with children.
    case object(NodeCursor)

    /// The value of a node without a priority.
    @inline(__always)
    init(_ cursor: NodeCursor) {
        switch cursor.kind {
        case .null, .prioritized: self = .null
        case .bool(let value): self = .bool(value)
        case .int(let value): self = .number(Double(value))
        case .double(let value): self = .number(value)
        case .text(let text): self = .text(text)
        case .object: self = .object(cursor)
        }
    }

    /// The value as a node, for constants and traces. NaN stays a double, unlike in any stored node.
    var node: Node {
        switch self {
        case .null: .null
        case .bool(let value): .bool(value)
        case .number(let value): .double(value)
        case .text(let text): .string(text.text)
        case .object(let cursor): cursor.node
        }
    }
}
