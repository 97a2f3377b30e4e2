import JSONTree

extension Evaluator {
    /// The value of any instruction that yields one: a leaf, null, or an object as the opaque token.
    mutating func value(_ i: Int32) throws(Fault) -> Node {
        let instruction = tables.code[Int(i)]
        switch instruction.operation {
        case .constant: return tables.constants[Int(instruction.a)]
        case .capture: return .string(key(Int(instruction.a)).text)
        case .now: return now
        case .uid: return authUID()
        case .val: return Self.unprioritized(try node(instruction.a))
        case .auth: return auth
        case .property:
            let target = try value(instruction.a)
            return Self.unprioritized(target.child(tables.keys[Int(instruction.b)]))
        case .propertyIndex: return try property(instruction, i)
        case .queryField: return query.pointee.value(QueryField.allCases[Int(instruction.detail)])
        case .conditional: return try value(try boolean(instruction.a) ? instruction.b : instruction.c)
        case .priority: return try node(instruction.a).priority
        case .opaque:
            _ = try node(instruction.a)
            return ProgramBuilder.token
        case .arithmetic:
            let (a, b) = (try value(instruction.a), try value(instruction.b))
            do { return try Operations.arithmetic(Arithmetic.byNumber[Int(instruction.detail)], a, b) } catch { throw fault(error, i) }
        case .negate:
            let a = try value(instruction.a)
            do { return try Operations.negate(a) } catch { throw fault(error, i) }
        case .length:
            let a = try value(instruction.a)
            do { return try Operations.length(a) } catch { throw fault(error, i) }
        case .recase:
            let a = try value(instruction.a)
            do { return try Operations.recase(a, toUpper: instruction.detail == 1) } catch { throw fault(error, i) }
        case .replace:
            let (a, b, c) = (try value(instruction.a), try value(instruction.b), try value(instruction.c))
            do { return try Operations.replace(a, b, c) } catch { throw fault(error, i) }
        default: return .bool(try boolean(i))
        }
    }

    @inline(__always)
    private static func unprioritized(_ node: Node) -> Node {
        if case .prioritized(let leaf) = node { return leaf.leaf }
        return node
    }

    /// `auth.x[key]`: a property of null is null, whatever is asked for.
    private mutating func property(_ instruction: Instruction, _ i: Int32) throws(Fault) -> Node {
        let target = try value(instruction.a)
        let name = try value(instruction.b)
        guard target.hasChildren else { return .null }
        guard let text = Operations.text(name) else { throw fault(.argumentNotString, i) }
        return Self.unprioritized(target.child(Key(text)))
    }
}
