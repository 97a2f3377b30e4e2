import JSONTree

/// Calls and their arguments (rules contract §4.2).
extension Checker {
    func call(_ callee: Expression, _ arguments: [Expression], _ span: Span) throws(ExpressionError) -> Checked {
        if case .variable(let name) = callee.kind, let called = try call(name, arguments, span) { return called }
        guard case .method(let method, let target) = try check(callee) else {
            throw ExpressionError(at: span, message: "Type error: Function call on target that is not a function.")
        }
        if case .snapshot(let snapshot) = target { return try call(method, on: snapshot, arguments, span) }
        return try call(method, on: target.term(at: callee.span), arguments, span)
    }

    private func call(
        _ method: Method, on snapshot: SnapshotTerm, _ arguments: [Expression], _ span: Span
    ) throws(ExpressionError) -> Checked {
        func boolean(_ kind: Term.Kind) -> Checked { .value(Term(kind: kind, span: span), .boolean) }

        switch method {
        case .child: return .snapshot(.child(snapshot, try oneText(method, arguments, span)))
        case .hasChild: return boolean(.exists(.child(snapshot, try oneText(method, arguments, span))))
        case .hasChildren where !arguments.isEmpty: return boolean(.hasAll(snapshot, try names(arguments, span)))
        case .equals: return boolean(.equals(snapshot, try other(method, arguments, span)))
        case .hasAny:
            if arguments.count == 1, case .array(let elements) = arguments[0].kind {
                return boolean(.hasAny(snapshot, try texts(elements, "hasAny() expects an array of strings.")))
            }
            return boolean(.sharesKey(snapshot, try other(method, arguments, span)))
        case .val where !arguments.isEmpty: return .value(try value(of: snapshot, arguments, span), .value)
        default: break
        }
        guard arguments.isEmpty else {
            throw ExpressionError(at: span, message: "\(method.rawValue)() expects no arguments.")
        }
        switch method {
        case .val: return .value(Term(kind: .val(snapshot), span: span), .value)
        case .getPriority: return .value(Term(kind: .priority(snapshot), span: span), .value)
        case .parent where scope.isSetMemberFilter:
            throw ExpressionError(at: span, message: "parent() is not seen here: what counts depends on 'each', the counted child, alone.")
        case .parent where scope.expiry != nil:
            throw ExpressionError(at: span, message: "parent() is not seen here: when a node ends depends on the node alone.")
        case .parent: return .snapshot(.parent(snapshot, span: span))
        case .exists: return boolean(.exists(snapshot))
        case .childCount: return .value(Term(kind: .childCount(snapshot), span: span), .number)
        case .hasChildren: return boolean(.hasChildren(snapshot))
        case .isNumber: return boolean(.isKind(snapshot, .number))
        case .isString: return boolean(.isKind(snapshot, .string))
        default: return boolean(.isKind(snapshot, .boolean))
        }
    }

    private func call(_ method: Method, on text: Term, _ arguments: [Expression], _ span: Span) throws(ExpressionError) -> Checked {
        func value(_ kind: Term.Kind, _ type: StaticType) -> Checked { .value(Term(kind: kind, span: span), type) }

        switch method {
        case .contains: return value(.stringTest(.contains, text, try oneText(method, arguments, span)), .boolean)
        case .beginsWith: return value(.stringTest(.beginsWith, text, try oneText(method, arguments, span)), .boolean)
        case .endsWith: return value(.stringTest(.endsWith, text, try oneText(method, arguments, span)), .boolean)
        case .replace:
            guard arguments.count == 2 else { throw ExpressionError(at: span, message: "replace() expects two arguments.") }
            let old = try self.text(arguments[0], "Argument 1 of replace() must be a string.")
            let new = try self.text(arguments[1], "Argument 2 of replace() must be a string.")
            return value(.replace(text, old, new), .string)
        case .matches:
            guard arguments.count == 1 else {
                throw ExpressionError(at: span, message: "matches() expects 1 regular expression literal argument.")
            }
            guard case .regex(let regex) = try check(arguments[0]), case .regex = arguments[0].kind else {
                throw ExpressionError(at: arguments[0].span, message: "matches() expects a regular expression literal argument.")
            }
            return value(.matches(text, regex), .boolean)
        default:
            guard arguments.isEmpty else {
                throw ExpressionError(at: span, message: "\(method.rawValue)() expects no arguments.")
            }
            return value(method == .fold ? .fold(text) : .recase(text, toUpper: method == .toUpperCase), .string)
        }
    }

    /// `x.val(default)`.
    private func value(of snapshot: SnapshotTerm, _ arguments: [Expression], _ span: Span) throws(ExpressionError) -> Term {
        guard arguments.count == 1 else { throw ExpressionError(at: span, message: "val() expects at most one argument.") }
        let other = try check(arguments[0])
        guard other.type.isEquatable else {
            throw ExpressionError(at: arguments[0].span, message: "val() expects a number, boolean, string, or null.")
        }
        return Term(kind: .valOr(snapshot, other.term(at: arguments[0].span)), span: span)
    }

    /// The snapshot argument of `equals` and `hasAny`.
    private func other(_ method: Method, _ arguments: [Expression], _ span: Span) throws(ExpressionError) -> SnapshotTerm {
        guard arguments.count == 1 else { throw ExpressionError(at: span, message: "\(method.rawValue)() expects 1 argument.") }
        guard case .snapshot(let other) = try check(arguments[0]) else {
            let expected = method == .hasAny ? "an array of strings or a snapshot" : "a snapshot"
            throw ExpressionError(at: arguments[0].span, message: "\(method.rawValue)() expects \(expected) such as data.child('a').")
        }
        return other
    }

    private func texts(_ elements: [Expression], _ message: String) throws(ExpressionError) -> [Term] {
        var names: [Term] = []
        for element in elements { names.append(try text(element, message)) }
        return names
    }

    func text(_ argument: Expression, _ message: String) throws(ExpressionError) -> Term {
        let checked = try check(argument)
        guard checked.type.isTextual else { throw ExpressionError(at: argument.span, message: message) }
        return checked.term(at: argument.span)
    }

    private func oneText(_ method: Method, _ arguments: [Expression], _ span: Span) throws(ExpressionError) -> Term {
        guard arguments.count == 1 else {
            throw ExpressionError(at: span, message: "\(method.rawValue)() expects 1 argument.")
        }
        return try text(arguments[0], "\(method.rawValue)() expects a string argument.")
    }

    /// The argument of `hasChildren([…])`.
    private func names(_ arguments: [Expression], _ span: Span) throws(ExpressionError) -> [Term] {
        guard arguments.count == 1 else {
            throw ExpressionError(
                at: span, message: "hasChildren() expects only a single argument (containing an array of child names).")
        }
        guard case .array(let elements) = arguments[0].kind else {
            _ = try check(arguments[0])
            throw ExpressionError(at: arguments[0].span, message: "hasChildren() expects an array of child names.")
        }
        return try texts(elements, "hasChildren() expects an array of strings.")
    }
}
