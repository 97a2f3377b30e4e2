/// The inputs of an expression, apart from those that all places of one operation share: `auth`, `now`, the query, and both trees from the
/// root. Places with equal inputs are evaluated once.
struct Reach {
    /// One bit for each depth: of wildcards whose key it reads, and of nodes in the old and new tree from which it reads downwards.
    var keys: UInt64 = 0
    var old: UInt64 = 0
    var new: UInt64 = 0
    /// Whether it goes up with `parent()` from a place known only at run time.
    var isOpen = false

    mutating func add(_ other: Reach) {
        keys |= other.keys
        old |= other.old
        new |= other.new
        isOpen = isOpen || other.isOpen
    }

    /// Whether it reads nothing strictly between the root and a node at this depth: only that node, those below it, and paths from the root.
    func isWithin(_ depth: Int) -> Bool { !isOpen && (old | new) & Self.above(depth) == 0 }

    /// Whether it reads the old tree at or below such a node.
    var seesOld: Bool { old != 0 }

    /// The bits of the depths above this one.
    private static func above(_ depth: Int) -> UInt64 { (1 << UInt64(depth)) - 1 }
}

extension ProgramBuilder {
    /// The reach of an instruction, from the reaches of its operands.
    func reach(_ instruction: Instruction) -> Reach {
        var reach = Reach()
        func add(_ operands: Int32...) { for operand in operands { reach.add(reaches[Int(operand)]) } }
        switch instruction.operation {
        case .no, .yes, .queryFlag, .constant, .now, .written, .distance, .auth, .uid, .queryField, .queryCondition: break
        case .capture: reach.keys = 1 << UInt64(instruction.a)
        case .place:
            if instruction.a > 0 {
                let depth: UInt64 = 1 << UInt64(instruction.a)
                if instruction.detail == Tree.old.rawValue { reach.old = depth } else { reach.new = depth }
            }
            addSteps(of: instruction, to: &reach)
        // Paths are shared only after everything is lowered, so this does not occur yet.
        case .shared: reach.isOpen = true
        case .below, .hasAll, .hasAny:
            add(instruction.a)
            addSteps(of: instruction, to: &reach)
        case .parent:
            add(instruction.a)
            reach.isOpen = true
        case .not, .equalConstant, .notEqualConstant, .matches, .property, .negate, .length, .recase, .fold, .dayNumber, .dayOf, .call,
            .exists, .hasChildren, .isKind, .val, .childCount, .priority, .opaque:
            add(instruction.a)
        case .and, .or, .compare, .stringTest, .propertyIndex, .arithmetic, .dayIn, .equals, .sharesKey, .valOr:
            add(instruction.a, instruction.b)
        case .replace, .conditional: add(instruction.a, instruction.b, instruction.c)
        }
        return reach
    }

    private func addSteps(of instruction: Instruction, to reach: inout Reach) {
        for step in steps[Int(instruction.b)..<Int(instruction.b + instruction.c)] {
            switch step.kind {
            case .key: break
            case .capture: reach.keys |= 1 << UInt64(step.index)
            case .value, .part: reach.add(reaches[Int(step.index)])
            }
        }
    }
}
