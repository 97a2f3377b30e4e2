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
            case .call: do { return try boolean(instruction.a) } catch { throw error.moved(to: tables.spans[Int(i)]) }
            case .exists: return try node(instruction.a) != nil
            case .hasChildren:
                guard let node = try node(instruction.a), case .object = node.kind else { return false }
                return true
            case .isKind: return Self.isKind(try node(instruction.a), instruction.detail)
            case .hasAll, .hasAny: return try hasNames(instruction)
            case .equals: return try isSame(try wholeNode(instruction.a), try wholeNode(instruction.b), i)
            case .sharesKey: return try shareKey(try wholeNode(instruction.a), try wholeNode(instruction.b), i)
            case .queryFlag:
                guard case .bool(let flag) = queryValue(QueryField.allCases[Int(instruction.detail)]) else { return false }
                return flag
            default:
                let mark = scratchCount
                let result = try test(instruction, i)
                dropScratch(to: mark)
                return result
            }
        }
    }

    func fault(_ reason: FaultReason, _ instruction: Int32) -> Fault {
        Fault(reason: reason, at: tables.spans[Int(instruction)])
    }

    /// Charges text work to the operation's budget.
    @inline(__always)
    mutating func work(_ units: Int, _ instruction: Int32) throws(Fault) {
        guard units <= textWork else { throw fault(.tooMuchWork, instruction) }
        textWork -= units
    }

    /// The bytes of a text; 0 for other values.
    @inline(__always)
    static func length(_ value: Value) -> Int {
        if case .text(let text) = value { return text.utf8Count }
        return 0
    }

    /// An operation that compares values.
    @inline(__always)
    private mutating func test(_ instruction: Instruction, _ i: Int32) throws(Fault) -> Bool {
        switch instruction.operation {
        case .equalConstant: return Operations.equal(try value(instruction.a), tables.values[Int(instruction.b)])
        case .notEqualConstant: return !Operations.equal(try value(instruction.a), tables.values[Int(instruction.b)])
        case .compare:
            let (a, b) = (try value(instruction.a), try value(instruction.b))
            if case .text(let x) = a, case .text(let y) = b {
                try work(min(x.utf8Count, y.utf8Count) / RulesLimits.comparedBytes, i)
            }
            do { return try Operations.compare(Comparison.byNumber[Int(instruction.detail)], a, b) } catch { throw fault(error, i) }
        case .stringTest:
            let (a, b) = (try value(instruction.a), try value(instruction.b))
            let test = StringTest(rawValue: instruction.detail) ?? .contains
            // A test at the beginning or end of a text compares only the part's length.
            try work(test == .contains ? Self.length(a) + Self.length(b) : Self.length(b), i)
            do { return try Operations.test(test, a, b) } catch { throw fault(error, i) }
        case .matches:
            let text = try value(instruction.a)
            do { return try Operations.matches(text, tables.regexes[Int(instruction.b)], work: &textWork) } catch { throw fault(error, i) }
        default: return false
        }
    }

    @inline(__always)
    private static func isKind(_ cursor: NodeCursor?, _ kind: UInt8) -> Bool {
        guard let cursor else { return false }
        switch (cursor.kind, kind) {
        case (.int, LeafKind.number.rawValue), (.double, LeafKind.number.rawValue): return true
        case (.text, LeafKind.string.rawValue): return true
        case (.bool, LeafKind.boolean.rawValue): return true
        case (.prioritized, _): return withUnsafePointer(to: cursor.leaf) { isKind(NodeCursor($0), kind) }
        default: return false
        }
    }

    /// `hasChildren([…])` and `hasAny([…])`. All names are evaluated, so a name that is not a string always fails the rule.
    private mutating func hasNames(_ instruction: Instruction) throws(Fault) -> Bool {
        let base = try node(instruction.a)
        var (all, any) = (true, false)
        for i in Int(instruction.b)..<Int(instruction.b &+ instruction.c) {
            let test = tables.code[Int(tables.steps[i].index)]
            if try walk(base, test) == nil { all = false } else { any = true }
            try recordChildren(of: instruction.a, test)
        }
        return instruction.operation == .hasAll ? all : any
    }

    // MARK: Whole nodes

    /// Whether two nodes are equal with their priorities and everything below them. Subtrees that both trees share are not compared.
    /// O(n log n) in the smaller one, charged as work.
    private mutating func isSame(_ one: NodeCursor?, _ other: NodeCursor?, _ i: Int32) throws(Fault) -> Bool {
        guard let one, let other else { return one == nil && other == nil }
        if one == other {
            try work(1, i)
            return true
        }
        try work(RulesLimits.nodeWork, i)
        switch (one.kind, other.kind) {
        case (.object, .object):
            guard one.childCount == other.childCount, one.priority == other.priority else { return false }
            var fault: Fault?
            let isSame = one.allChildren { key, child in
                guard let match = other.child(key) else { return false }
                do throws(Fault) { return try self.isSame(child, match, i) } catch {
                    fault = error
                    return false
                }
            }
            if let fault { throw fault }
            return isSame
        case (.prioritized, .prioritized):
            guard one.priority == other.priority else { return false }
            return withUnsafePointer(to: one.leaf) { a in
                withUnsafePointer(to: other.leaf) { b in Operations.equal(Value(NodeCursor(a)), Value(NodeCursor(b))) }
            }
        case (.prioritized, _), (_, .prioritized): return false
        case (.text(let a), .text(let b)):
            try work(min(a.utf8Count, b.utf8Count) / RulesLimits.comparedBytes, i)
            return a.isEqual(to: b)
        default: return Operations.equal(Value(one), Value(other))
        }
    }

    /// Whether two nodes share a child name. O(n log m) with n the fewer children, charged as work.
    private mutating func shareKey(_ one: NodeCursor?, _ other: NodeCursor?, _ i: Int32) throws(Fault) -> Bool {
        guard let one, let other else { return false }
        let (few, many) = one.childCount <= other.childCount ? (one, other) : (other, one)
        try work(few.childCount * RulesLimits.nodeWork, i)
        return !few.allChildren { key, _ in many.child(key) == nil }
    }
}
