import JSONTree

extension Evaluator {
    /// The value of a boolean instruction.
    mutating func boolean(_ start: Int32) throws(Fault) -> Bool {
        var i = start
        while true {
            let instruction = tables.code[Int(i)]
            switch instruction.operation {
            case .yes: return true
            case .no: return false
            case .and:
                guard try boolean(instruction.a) else { return false }
                i = instruction.b
            case .or:
                if try boolean(instruction.a) { return true }
                i = instruction.b
            case .not: return !(try boolean(instruction.a))
            case .conditional: i = try boolean(instruction.a) ? instruction.b : instruction.c
            case .equalConstant:
                let value = try value(instruction.a)
                return Operations.equal(value, tables.constants[Int(instruction.b)])
            case .notEqualConstant:
                let value = try value(instruction.a)
                return !Operations.equal(value, tables.constants[Int(instruction.b)])
            case .compare:
                let (a, b) = (try value(instruction.a), try value(instruction.b))
                do { return try Operations.compare(Comparison.byNumber[Int(instruction.detail)], a, b) } catch { throw fault(error, i) }
            case .exists: return try node(instruction.a).exists
            case .hasChildren: return try node(instruction.a).hasChildren
            case .isKind: return Self.isKind(try node(instruction.a), instruction.detail)
            case .hasAll: return try hasAll(instruction)
            case .stringTest:
                let (a, b) = (try value(instruction.a), try value(instruction.b))
                let test = StringTest(rawValue: instruction.detail) ?? .contains
                do { return try Operations.test(test, a, b) } catch { throw fault(error, i) }
            case .matches:
                let text = try value(instruction.a)
                do { return try Operations.matches(text, tables.regexes[Int(instruction.b)]) } catch { throw fault(error, i) }
            case .queryFlag:
                guard case .bool(let flag) = query.pointee.value(QueryField.allCases[Int(instruction.detail)]) else { return false }
                return flag
            default: return false
            }
        }
    }

    func fault(_ reason: FaultReason, _ instruction: Int32) -> Fault {
        Fault(reason: reason, offset: tables.offsets[Int(instruction)])
    }

    @inline(__always)
    private static func isKind(_ node: Node, _ kind: UInt8) -> Bool {
        switch (node.leaf, kind) {
        case (.int, LeafKind.number.rawValue), (.double, LeafKind.number.rawValue): true
        case (.string, LeafKind.string.rawValue): true
        case (.bool, LeafKind.boolean.rawValue): true
        default: false
        }
    }

    /// All names are computed before any is missed, so one that is no string fails the rule whatever the others are.
    private mutating func hasAll(_ instruction: Instruction) throws(Fault) -> Bool {
        let base = try node(instruction.a)
        var all = true
        for i in Int(instruction.b)..<Int(instruction.b &+ instruction.c) {
            let test = tables.code[Int(tables.steps[i].index)]
            if !(try walk(base, test).exists) { all = false }
        }
        return all
    }
}
