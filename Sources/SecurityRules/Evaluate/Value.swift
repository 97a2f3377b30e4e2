import JSONTree

/// The result of an instruction, without ownership: numbers and booleans directly, all else as an address that
/// outlives the evaluation of the rule (a tree, the program's constants, the keys of the path, the evaluator's scratch).
enum Value {
    case null
    case bool(Bool)
    /// A number is an IEEE double, also where an integer is stored (rules contract §5.3).
    case number(Double)
    case text(TextCursor)
    /// The opaque token of a node with children.
    case object(NodeCursor)

    /// A node without a priority.
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

    /// As a node of its own, for constants and traces. NaN stays a double, which no stored node is.
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
