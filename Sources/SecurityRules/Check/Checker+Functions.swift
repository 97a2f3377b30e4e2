import JSONTree

/// Calls of built-in functions and of the file's functions.
extension Checker {
    /// The built-in functions.
    static let functionNames = ["dayOf", "dayNumber"]

    /// A call of a function; nil if the name is not a function.
    func call(_ name: String, _ arguments: [Expression], _ span: Span) throws(ExpressionError) -> Checked? {
        switch name {
        case "dayOf": return try dayOf(arguments, span)
        case "dayNumber":
            guard arguments.count == 1 else { throw ExpressionError(at: span, message: "dayNumber() expects 1 argument.") }
            let day = try text(arguments[0], "dayNumber() expects a string argument.")
            return .value(Term(kind: .dayNumber(day), span: span), .value)
        case _ where UnsupportedKeys.functions.contains(name):
            throw ExpressionError(at: span, message: UnsupportedKeys.message(name + "()"))
        default: return try functions[name].map { function throws(ExpressionError) in try expand(function, arguments, span) }
        }
    }

    private func expand(_ function: Functions.Function, _ arguments: [Expression], _ span: Span) throws(ExpressionError) -> Checked {
        let (name, parameters) = (function.source.name, function.source.parameters)
        guard arguments.count == parameters.count else {
            let expected = parameters.count == 1 ? "1 argument" : parameters.isEmpty ? "no arguments" : "\(parameters.count) arguments"
            throw ExpressionError(at: span, message: "\(name)() expects \(expected).")
        }
        guard let body = function.body else { throw ExpressionError(at: span, message: "Function '\(name)' has a fault.") }
        let given = arguments.map { Argument($0, self) }
        // A function sees its parameters alone: no wildcards, and no `each`.
        var scope = self.scope
        (scope.captures, scope.each) = ([:], nil)
        scope.watch = scope.watch.map { WatchScope(isRadius: $0.isRadius) }
        var inner = Checker(scope: scope, functions: functions)
        inner.arguments = Dictionary(zip(parameters, given)) { first, _ in first }
        let checked = try functions.expand(name) { () throws(ExpressionError) in
            let checked = try inner.check(body)
            // Check arguments that the body does not use, too.
            for argument in given where argument.known == nil { _ = try functions.value(of: argument, span) }
            return checked
        }
        switch checked {
        case .value(let term, let type): return .value(Term(kind: .call(term), span: span), type)
        case .snapshot, .query: return checked
        default: throw ExpressionError(at: span, message: "\(name)() yields neither a value nor a snapshot.")
        }
    }

    /// `dayOf(ms, 'Europe/Athens')`: a constant time zone is resolved at compile time, one from data when it is evaluated.
    private func dayOf(_ arguments: [Expression], _ span: Span) throws(ExpressionError) -> Checked {
        guard arguments.count == 2 else { throw ExpressionError(at: span, message: "dayOf() expects a time in ms and a time zone.") }
        let time = try check(arguments[0])
        guard time.type.isNumeric else { throw ExpressionError(at: arguments[0].span, message: "dayOf() expects a time in ms.") }
        let zone = try check(arguments[1])
        guard case .value(let term, let type) = zone, type.isTextual else {
            throw ExpressionError(at: arguments[1].span, message: "dayOf() expects a time zone such as 'Europe/Athens'.")
        }
        guard case .constant(.string(let name)) = term.folded.kind else {
            return .value(Term(kind: .dayIn(time.term(at: arguments[0].span), term), span: span), .string)
        }
        guard let table = TimeZoneTable.named(name.string) else {
            throw ExpressionError(at: arguments[1].span, message: "Time zone '\(name.string)' is not known on this machine.")
        }
        return .value(Term(kind: .dayOf(time.term(at: arguments[0].span), table), span: span), .string)
    }
}
