/// The functions of a rules file. The compiler replaces each call by the function's body, with arguments in place of parameters. Nothing is
/// called at run time.
///
/// The expanded code is bounded in size (`RulesLimits.functionParts`) and in height, like other expressions.
final class Functions {
    struct Function {
        let source: SourceFunction
        /// Nil when the body has a fault.
        var body: Expression?
    }

    private(set) var all: [Function] = []
    private var numbers: [String: Int] = [:]
    /// The regular expressions so far: each pattern is compiled once, however many calls use it.
    private var regexes: [String: Regex] = [:]
    /// The functions that rules call.
    private(set) var called: Set<String> = []

    private let partsLimit: Int
    private var parts = 0
    /// The height of the current place in the expression being checked, and the greatest height below it so far.
    private var height = 0
    private var deepest = 0
    /// The nesting depth of calls around the current place.
    private var calls = 0

    init(partsLimit: Int = RulesLimits.functionParts) { self.partsLimit = partsLimit }

    /// Parses the bodies; reports unknown names and recursive functions.
    func add(_ functions: [SourceFunction], _ text: RulesText, _ errors: inout [LocatedError]) {
        for (i, source) in functions.enumerated() {
            numbers[source.name] = i
            all.append(Function(source: source, body: nil))
        }
        for (i, source) in functions.enumerated() {
            do throws(ExpressionError) {
                let body = try ExpressionParser.parse(source.body.value, function: Int32(i))
                try checkNames(in: body, of: source)
                all[i].body = body
            } catch {
                let offset = text.offset(in: source.body, at: error.offset)
                errors.append(LocatedError(offset: offset, message: error.message, hint: error.hint))
            }
        }
        for i in all.indices.filter({ isRecursive($0) }) {
            errors.append(LocatedError(offset: all[i].source.key.quote, message: "Function '\(all[i].source.name)' calls itself."))
            all[i].body = nil
        }
    }

    subscript(name: String) -> Function? { numbers[name].map { all[$0] } }

    var names: [String] { all.map(\.source.name) }

    func regex(_ pattern: String, _ ignoresCase: Bool) throws(RegexError) -> Regex {
        let key = (ignoresCase ? "i" : "-") + pattern
        if let known = regexes[key] { return known }
        let made = try Regex(pattern, ignoresCase: ignoresCase)
        regexes[key] = made
        return made
    }

    // MARK: Bodies

    private func checkNames(in body: Expression, of source: SourceFunction) throws(ExpressionError) {
        let known = Checker.variables + source.parameters
        let callable = Checker.functionNames + names
        var fault: ExpressionError?
        body.forEach { part in
            guard fault == nil else { return }
            switch part.kind {
            case .call(let callee, _):
                guard case .variable(let name) = callee.kind, !callable.contains(name), !known.contains(name) else { return }
                fault = ExpressionError(at: part.span, message: "Unknown function '\(name)'.", unknown: name, among: callable)
            case .variable(let name) where !known.contains(name) && !callable.contains(name):
                fault = ExpressionError(at: part.span, message: "Unknown variable '\(name)'.", unknown: name, among: known)
                if name.hasPrefix("$") { fault?.hint = "a function sees its parameters; give it \(name) as an argument" }
            default: return
            }
        }
        if let fault { throw fault }
    }

    private func isRecursive(_ start: Int) -> Bool {
        var reached: Set<Int> = []
        var rest = [start]
        while let next = rest.popLast() {
            for other in callees(all[next].body) {
                if other == start { return true }
                if reached.insert(other).inserted { rest.append(other) }
            }
        }
        return false
    }

    private func callees(_ body: Expression?) -> Set<Int> {
        var found: Set<Int> = []
        body?.forEach { part in
            if case .call(let callee, _) = part.kind, case .variable(let name) = callee.kind, let number = numbers[name] {
                found.insert(number)
            }
        }
        return found
    }

    // MARK: Growth

    /// Counts a part of the expression being checked.
    func enter(_ expression: Expression) throws(ExpressionError) {
        if height == 0 { deepest = 0 }
        try grow(by: calls > 0 ? 1 : 0, height: 1, expression.span)
        height += 1
    }

    func leave() { height -= 1 }

    private func grow(by count: Int, height more: Int, _ span: Span) throws(ExpressionError) {
        guard height + more <= Expression.maxHeight else {
            throw ExpressionError(at: span, message: "Expression is nested deeper than \(Expression.maxHeight) levels.")
        }
        guard parts + count <= partsLimit else {
            throw ExpressionError(at: span, message: "The calls of functions put more than \(partsLimit) parts into the rules.")
        }
        parts += count
        deepest = max(deepest, height + more)
    }

    /// Checks the body of a call.
    func expand<R>(_ name: String, _ body: () throws(ExpressionError) -> R) throws(ExpressionError) -> R {
        called.insert(name)
        calls += 1
        defer { calls -= 1 }
        return try body()
    }

    /// The checked argument. It is checked once, but its size counts at each place where the parameter is used.
    func value(of argument: Argument, _ span: Span) throws(ExpressionError) -> Checked {
        if let known = argument.known {
            try grow(by: known.parts, height: known.height, span)
            return known.checked
        }
        let (partsBefore, deepestBefore) = (parts, deepest)
        deepest = height
        let checked = try argument.checker.check(argument.expression)
        argument.known = (checked, deepest - height, parts - partsBefore)
        deepest = max(deepest, deepestBefore)
        return checked
    }
}

/// An argument of a call, with the checker that resolves its names.
final class Argument {
    let expression: Expression
    let checker: Checker
    fileprivate(set) var known: (checked: Checked, height: Int, parts: Int)?

    init(_ expression: Expression, _ checker: Checker) {
        self.expression = expression
        self.checker = checker
    }
}

extension Expression {
    /// Calls `body` for the expression and all its parts.
    func forEach(_ body: (Expression) -> Void) {
        body(self)
        switch kind {
        case .literal, .regex, .variable: break
        case .not(let a), .negate(let a), .member(let a, _): a.forEach(body)
        case .all(let parts), .any(let parts), .array(let parts): for part in parts { part.forEach(body) }
        case .comparison(_, let a, let b), .arithmetic(_, let a, let b), .index(let a, let b):
            a.forEach(body)
            b.forEach(body)
        case .conditional(let a, let b, let c): for part in [a, b, c] { part.forEach(body) }
        case .call(let callee, let arguments):
            callee.forEach(body)
            for argument in arguments { argument.forEach(body) }
        }
    }
}
