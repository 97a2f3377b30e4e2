import JSONTree

/// Checks the static types of one expression and resolves its names. Throws at the first invalid operand, left to right (rules contract
/// §4). The messages are those of the wire protocol.
struct Checker {
    let scope: Scope
    /// The file's functions, and the size that their calls have added so far.
    let functions: Functions
    /// The arguments of the function whose body is being checked, by parameter.
    var arguments: [String: Argument] = [:]

    /// Checks a rule's expression, which must be a boolean.
    static func rule(_ expression: Expression, scope: Scope, functions: Functions) throws(ExpressionError) -> Term {
        let checked = try Checker(scope: scope, functions: functions).check(expression)
        guard case .value(let term, .boolean) = checked else {
            throw ExpressionError(at: expression.span, message: "Expression must evaluate to a boolean.")
        }
        return term
    }

    /// Checks an expression that yields a storable value: a number, a boolean, a string or null.
    static func value(_ expression: Expression, scope: Scope, functions: Functions) throws(ExpressionError) -> Term {
        let checked = try Checker(scope: scope, functions: functions).check(expression)
        guard case .value(let term, let type) = checked, type.isEquatable else {
            throw ExpressionError(at: expression.span, message: "Expression must evaluate to a number, boolean, string, or null.")
        }
        return term
    }

    func check(_ expression: Expression) throws(ExpressionError) -> Checked {
        try functions.enter(expression)
        defer { functions.leave() }
        let span = expression.span
        func value(_ kind: Term.Kind, _ type: StaticType) -> Checked { .value(Term(kind: kind, span: span), type) }

        switch expression.kind {
        case .literal(let node): return value(.constant(node), Self.type(of: node))
        case .regex(let pattern, let ignoresCase):
            do throws(RegexError) { return .regex(try functions.regex(pattern, ignoresCase)) } catch {
                throw ExpressionError(at: span, message: error.description)
            }
        case .variable(let name): return try variable(name, span)
        case .array: throw ExpressionError(at: span, message: "Unexpected array literal.")
        case .member(let target, let name):
            let checked = try check(target)
            // A function's parameter is a value, even when its argument is a query condition.
            if case .member = target.kind, case .value(let term, _) = checked, case .condition(let path) = term.kind {
                return try condition(name, below: path, span)
            }
            return try member(name, of: checked, span)
        case .index(let target, let index): return try self.index(target, index, span)
        case .call(let callee, let arguments): return try call(callee, arguments, span)

        case .not(let operand): return value(.not(try boolean(operand, "! only operates on booleans.")), .boolean)
        case .negate(let operand):
            let checked = try check(operand)
            guard checked.type.isNumeric else { throw ExpressionError(at: operand.span, message: "- only operates on numbers.") }
            return value(.negate(checked.term(at: operand.span)), .number)
        case .all(let operands): return value(.all(try booleans(operands, "&&")), .boolean)
        case .any(let operands): return value(.any(try booleans(operands, "||")), .boolean)
        case .comparison(let comparison, let left, let right):
            let (a, b) = try operands(left, right, of: comparison)
            return value(.comparison(comparison, a, b), .boolean)
        case .arithmetic(let arithmetic, let left, let right): return try self.arithmetic(arithmetic, left, right, span)
        case .conditional(let condition, let yes, let no): return try conditional(condition, yes, no, span)
        }
    }

    private static func type(of node: Node) -> StaticType {
        switch node {
        case .bool: .boolean
        case .string: .string
        case .int, .double: .number
        default: .null
        }
    }

    /// Names with the same meaning in every expression.
    static let variables = ["auth", "now", "root", "data", "newData", "newRoot", "query"]

    private func variable(_ name: String, _ span: Span) throws(ExpressionError) -> Checked {
        func value(_ kind: Term.Kind, _ type: StaticType) -> Checked { .value(Term(kind: kind, span: span), type) }
        if name == "each", let each = scope.each { return .snapshot(each) }
        if scope.isSetMemberFilter {
            if Self.variables.contains(name) {
                throw ExpressionError(
                    at: span, message: "'\(name)' is not seen here: what counts depends on 'each', the counted child, alone.")
            }
        }
        if scope.isRowFilter, name == "data" || name == "root" {
            let after = name == "data" ? "newData" : "newRoot"
            throw ExpressionError(at: span, message: "'\(name)' is not seen here: say '\(after)', as it is after the write.")
        }
        if let found = try scope.watch?.variable(name, span) { return found }
        if let part = scope.expiry, let term = try expiryVariable(name, part, span) { return value(term, .number) }
        switch name {
        case "auth": return value(.auth, .auth)
        case "now": return value(.now, .number)
        case "root": return .snapshot(.root)
        case "data": return .snapshot(.data)
        case "newData":
            if scope.kind.isOfReads {
                throw ExpressionError(at: span, message: "newData is invalid in \(scope.kind.rawValue) expressions.")
            }
            return .snapshot(.newData)
        case "newRoot":
            if scope.kind.isOfReads {
                throw ExpressionError(at: span, message: "newRoot is invalid in \(scope.kind.rawValue) expressions.")
            }
            return .snapshot(.newRoot)
        case "query": return .query
        default:
            if let argument = arguments[name] { return try functions.value(of: argument, span) }
            guard let depth = scope.captures[name] else {
                let known = Self.variables + ["true", "false", "null"] + scope.captures.keys.sorted() + arguments.keys.sorted()
                    + functions.names + (scope.watch?.names ?? [])
                throw ExpressionError(at: span, message: "Unknown variable '\(name)'.", unknown: name, among: known)
            }
            return value(.capture(depth: depth), .string)
        }
    }

    /// The names that an `.expire` sees: also `written`, but nothing that could change without the node changing.
    private func expiryVariable(_ name: String, _ part: ExpiryScope, _ span: Span) throws(ExpressionError) -> Term.Kind? {
        switch name {
        case "written": return .written
        // The time of the commit.
        case "firing" where part != .time, "now" where part == .row: return .now
        case "firing":
            throw ExpressionError(at: span, message: "'firing' is not seen here: when a node ends is asked before it does.")
        case "now" where part == .patch:
            throw ExpressionError(
                at: span, message: "'now' is not seen here: say 'firing', the time at which the patch is made, or 'written', that of the "
                    + "last commit at or below the node.")
        case "now":
            throw ExpressionError(
                at: span, message: "'now' is not seen here, as this is asked again at each start and deploy: say 'written', the time of "
                    + "the last commit at or below the node.")
        case "data": return nil
        case _ where Self.variables.contains(name):
            throw ExpressionError(
                at: span, message: "'\(name)' is not seen here: when a node ends depends on 'data', 'written' and wildcards alone.")
        default: return nil
        }
    }

    // MARK: Operators

    private func boolean(_ operand: Expression, _ message: String) throws(ExpressionError) -> Term {
        guard case .value(let term, .boolean) = try check(operand) else {
            throw ExpressionError(at: operand.span, message: message)
        }
        return term
    }

    private func booleans(_ operands: [Expression], _ symbol: String) throws(ExpressionError) -> [Term] {
        var terms: [Term] = []
        for (i, operand) in operands.enumerated() {
            terms.append(try boolean(operand, "\(i == 0 ? "Left" : "Right") operand of \(symbol) must be boolean."))
        }
        return terms
    }

    private func operands(_ left: Expression, _ right: Expression, of comparison: Comparison) throws(ExpressionError) -> (Term, Term) {
        let symbol = comparison.rawValue
        let isEquality = comparison == .equal || comparison == .notEqual
        func check(_ operand: Expression, _ side: String) throws(ExpressionError) -> Term {
            let checked = try self.check(operand)
            guard isEquality ? checked.type.isEquatable : checked.type.isOrderable else {
                let message: String
                if isEquality {
                    // The reference drops the "or" in exactly one of the four texts.
                    let kinds = side == "left" && comparison == .equal ? "string, null" : "string, or null"
                    message = "Invalid \(symbol) expression: \(side) operand is not a number, boolean, \(kinds)."
                } else {
                    message = "Invalid \(symbol) expression: \(side) operand must be a number or string."
                }
                throw ExpressionError(at: operand.span, message: message)
            }
            return checked.term(at: operand.span)
        }
        let a = try check(left, "left")
        return (a, try check(right, "right"))
    }

    private func arithmetic(
        _ operation: Arithmetic, _ left: Expression, _ right: Expression, _ span: Span
    ) throws(ExpressionError) -> Checked {
        func check(_ operand: Expression, _ side: String) throws(ExpressionError) -> Checked {
            let checked = try self.check(operand)
            guard operation == .add ? checked.type.isOrderable : checked.type.isNumeric else {
                let kinds = operation == .add ? "number or string" : "number"
                throw ExpressionError(
                    at: operand.span, message: "Invalid \(operation.rawValue) expression: \(side) operand is not a \(kinds).")
            }
            return checked
        }
        let a = try check(left, "left")
        let b = try check(right, "right")
        let term = Term(kind: .arithmetic(operation, a.term(at: left.span), b.term(at: right.span)), span: span)
        guard operation == .add else { return .value(term, .number) }
        if a.type == .string || b.type == .string { return .value(term, .string) }
        return .value(term, a.type == .number && b.type == .number ? .number : .value)
    }

    private func conditional(
        _ condition: Expression, _ yes: Expression, _ no: Expression, _ span: Span
    ) throws(ExpressionError) -> Checked {
        let test = try boolean(condition, "condition of ? must be boolean.")
        let a = try check(yes)
        let b = try check(no)
        switch (a, b) {
        case (.snapshot(let a), .snapshot(let b)): return .snapshot(.conditional(test, a, b))
        case (.query, .query): return .query
        default:
            let type = StaticType.joined(a.type, b.type)
            let term = Term(kind: .conditional(test, a.term(at: yes.span), b.term(at: no.span)), span: span)
            return .value(term, type)
        }
    }
}
