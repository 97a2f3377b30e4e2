/// What an expression looks at, beside what all places of one operation have in common: `auth`, `now`, the query, and both trees from
/// their root. Of places at which all of that is the same it need be asked once.
struct Reach {
    /// A bit for each depth: of wildcards whose key it sees, and of places in either tree from which it looks down.
    var keys: UInt64 = 0
    var old: UInt64 = 0
    var new: UInt64 = 0
    /// Whether it goes up from a place that is known when it runs only.
    var isOpen = false

    mutating func add(_ other: Reach) {
        keys |= other.keys
        old |= other.old
        new |= other.new
        isOpen = isOpen || other.isOpen
    }

    /// Whether it looks at nothing between the root and a place on the way to which it is asked: only at that, below it, and from the root.
    func isWithin(_ depth: Int) -> Bool { !isOpen && (old | new) & Self.above(depth) == 0 }

    /// Whether it looks at the old tree at or below such a place.
    var seesOld: Bool { old != 0 }

    /// The depths between the root and this one.
    private static func above(_ depth: Int) -> UInt64 { (1 << UInt64(depth)) - 1 }
}

extension ProgramBuilder {
    /// The reach of an instruction whose operands have theirs.
    func reach(_ instruction: Instruction) -> Reach {
        var reach = Reach()
        func add(_ operands: Int32...) { for operand in operands { reach.add(reaches[Int(operand)]) } }
        switch instruction.operation {
        case .no, .yes, .queryFlag, .constant, .now, .written, .auth, .uid, .queryField, .queryCondition: break
        case .capture: reach.keys = 1 << UInt64(instruction.a)
        case .place:
            if instruction.a > 0 {
                let depth: UInt64 = 1 << UInt64(instruction.a)
                if instruction.detail == Tree.old.rawValue { reach.old = depth } else { reach.new = depth }
            }
            addSteps(of: instruction, to: &reach)
        // Paths are shared when all is lowered.
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
        case .and, .or, .compare, .stringTest, .propertyIndex, .arithmetic, .equals, .sharesKey, .valOr:
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
