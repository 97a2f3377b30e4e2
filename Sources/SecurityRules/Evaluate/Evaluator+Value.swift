import JSONTree

extension Evaluator {
    /// The value of any instruction that yields one: a leaf, null, or an object as the opaque token.
    mutating func value(_ i: Int32) throws(Fault) -> Value {
        let instruction = tables.code[Int(i)]
        switch instruction.operation {
        case .constant: return tables.values[Int(instruction.a)]
        case .capture: return .text(key(Int(instruction.a)))
        case .now: return .number(now)
        case .uid: return authUID()
        case .val: return value(of: try node(instruction.a))
        case .auth: return value(of: auth)
        case .property:
            guard case .object(let target) = try value(instruction.a) else { return .null }
            return value(of: target.child(tables.key(instruction.b)))
        case .conditional: return try value(try boolean(instruction.a) ? instruction.b : instruction.c)
        case .call: do { return try value(instruction.a) } catch { throw error.moved(to: tables.spans[Int(i)]) }
        case .valOr:
            guard let found = try node(instruction.a) else { return try value(instruction.b) }
            return value(of: found)
        case .arithmetic: return try arithmetic(instruction, i)
        default: return try rareValue(instruction, i)
        }
    }

    private mutating func arithmetic(_ instruction: Instruction, _ i: Int32) throws(Fault) -> Value {
        let mark = scratchCount
        let (a, b) = (try value(instruction.a), try value(instruction.b))
        let operation = Arithmetic.byNumber[Int(instruction.detail)]
        if case .number(let x) = a, case .number(let y) = b { return .number(Operations.arithmetic(operation, x, y)) }
        guard operation == .add else { throw fault(.notNumber, i) }
        try work(Self.length(a) + Self.length(b), i)
        do { return replace(from: mark, try Operations.join(a, b)) } catch { throw fault(error, i) }
    }

    /// Replaces the operands on the scratch stack by a computed string.
    private mutating func replace(from mark: Int, _ text: Text) -> Value {
        dropScratch(to: mark)
        return keep(.string(text))
    }

    private mutating func rareValue(_ instruction: Instruction, _ i: Int32) throws(Fault) -> Value {
        let mark = scratchCount
        switch instruction.operation {
        case .propertyIndex: return try property(instruction, i)
        case .distance: return distance.map { .number($0) } ?? .null
        case .written: return written.map { .number($0) } ?? .null
        case .queryField: return keep(queryValue(QueryField.allCases[Int(instruction.detail)]).leaf)
        case .queryCondition: return keep(queryCondition(tables.conditions[Int(instruction.a)]).leaf)
        case .priority:
            guard let node = try node(instruction.a) else { return .null }
            return keep(node.priority)
        case .childCount: return .number(Double(try wholeNode(instruction.a)?.childCount ?? 0))
        case .opaque:
            _ = try node(instruction.a)
            return .object(tables.token)
        case .negate:
            guard case .number(let x) = try value(instruction.a) else { throw fault(.notNumber, i) }
            return .number(-x)
        case .length:
            let a = try value(instruction.a)
            do { return .number(try Operations.length(a)) } catch { throw fault(error, i) }
        case .recase:
            let a = try value(instruction.a)
            try work(Self.length(a), i)
            do { return replace(from: mark, try Operations.recase(a, toUpper: instruction.detail == 1)) } catch { throw fault(error, i) }
        case .fold:
            let a = try value(instruction.a)
            try work(Self.length(a) * RulesLimits.foldWork, i)
            do { return replace(from: mark, try Operations.fold(a)) } catch { throw fault(error, i) }
        case .dayOf:
            guard case .number(let ms) = try value(instruction.a) else { throw fault(.notNumber, i) }
            guard let day = tables.zones[Int(instruction.b)].day(ms) else { throw fault(.notDay, i) }
            return replace(from: mark, Text(day))
        case .dayIn:
            guard case .number(let ms) = try value(instruction.a) else { throw fault(.notNumber, i) }
            guard case .text(let zone) = try value(instruction.b) else { throw fault(.notString, i) }
            try work(RulesLimits.zoneWork, i)
            guard let table = TimeZoneTable.named(zone.string) else { throw fault(.notZone, i) }
            guard let day = table.day(ms) else { throw fault(.notDay, i) }
            return replace(from: mark, Text(day))
        case .dayNumber:
            guard case .text(let text) = try value(instruction.a) else { return .null }
            return text.withBytes { CivilDay.number($0) }.map { .number(Double($0)) } ?? .null
        case .replace:
            let (a, b, c) = (try value(instruction.a), try value(instruction.b), try value(instruction.c))
            try work(Self.length(a) + Self.length(b), i)
            let result: Text
            do { result = try Operations.replace(a, b, c) } catch { throw fault(error, i) }
            try work(result.utf8Count, i)
            return replace(from: mark, result)
        default: return .bool(try boolean(i))
        }
    }

    /// `auth.x[key]`: every property of null is null.
    private mutating func property(_ instruction: Instruction, _ i: Int32) throws(Fault) -> Value {
        let target = try value(instruction.a)
        let mark = scratchCount
        let name = try value(instruction.b)
        guard case .object(let object) = target else { return .null }
        guard let text = Operations.text(name) else { throw fault(.argumentNotString, i) }
        dropScratch(to: mark)
        return value(of: Self.child(text, of: object))
    }
}
