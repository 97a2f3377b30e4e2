import JSONTree

extension Term {
    /// The term with its outermost operation evaluated, if all operands are constant and it does not fail. A failing one must fail at run
    /// time, and only when reached. Operands are folded first.
    var folded: Term {
        guard let node = constantValue else { return self }
        return Term(kind: .constant(node), span: span)
    }

    /// The value, if it is constant.
    private var constantValue: Node? {
        switch kind {
        case .constant(let node): return node
        case .not(let operand):
            guard case .bool(let value)? = operand.constantValue else { return nil }
            return .bool(!value)
        case .negate(let operand):
            guard let x = operand.constantValue else { return nil }
            return withValues(x, .null) { x, _ in if case .number(let x) = x { .double(-x) } else { nil } }
        case .comparison(let comparison, let a, let b):
            guard let x = a.constantValue, let y = b.constantValue else { return nil }
            return withValues(x, y) { x, y in (try? Operations.compare(comparison, x, y)).map { .bool($0) } }
        case .arithmetic(let operation, let a, let b):
            guard let x = a.constantValue, let y = b.constantValue else { return nil }
            return withValues(x, y) { x, y in
                if case .number(let x) = x, case .number(let y) = y { return .double(Operations.arithmetic(operation, x, y)) }
                // Long texts are joined at run time: calls may repeat them any number of times.
                guard operation == .add, let text = try? Operations.join(x, y), text.utf8Count <= 1024 else { return nil }
                return .string(text)
            }
        case .all(let operands): return constant(operands, decidedBy: false)
        case .any(let operands): return constant(operands, decidedBy: true)
        case .conditional(let condition, let a, let b):
            guard case .bool(let value)? = condition.constantValue else { return nil }
            return (value ? a : b).constantValue
        case .call(let body): return body.constantValue
        default: return nil
        }
    }

    private func withValues(_ x: Node, _ y: Node, _ body: (Value, Value) -> Node?) -> Node? {
        withUnsafePointer(to: x) { x in withUnsafePointer(to: y) { y in body(Value(NodeCursor(x)), Value(NodeCursor(y))) } }
    }

    private func constant(_ operands: [Term], decidedBy decisive: Bool) -> Node? {
        for operand in operands {
            guard case .bool(let value)? = operand.constantValue else { return nil }
            if value == decisive { return .bool(decisive) }
        }
        return .bool(!decisive)
    }

    /// The parts of a chain of `+` that joins strings from its first or second operand; nil when it may add numbers.
    var joinedParts: [Term]? {
        guard case .arithmetic(.add, let a, let b) = kind else { return nil }
        if let parts = a.joinedParts { return parts + [b.folded] }
        guard a.isString || b.isString else { return nil }
        return [a.folded, b.folded]
    }
}

extension Comparison {
    var number: UInt8 {
        switch self {
        case .equal: 0
        case .notEqual: 1
        case .less: 2
        case .lessOrEqual: 3
        case .greater: 4
        case .greaterOrEqual: 5
        }
    }

    static let byNumber: [Comparison] = [.equal, .notEqual, .less, .lessOrEqual, .greater, .greaterOrEqual]
}

extension Arithmetic {
    var number: UInt8 {
        switch self {
        case .add: 0
        case .subtract: 1
        case .multiply: 2
        case .divide: 3
        case .remainder: 4
        }
    }

    static let byNumber: [Arithmetic] = [.add, .subtract, .multiply, .divide, .remainder]
}

extension QueryField {
    var number: UInt8 { UInt8(QueryField.allCases.firstIndex(of: self) ?? 0) }
}
