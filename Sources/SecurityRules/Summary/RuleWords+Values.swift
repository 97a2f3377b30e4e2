import JSONTree

extension RuleWords {
    /// A value in words.
    struct Operand {
        enum Kind { case text, number, time, other }

        let text: String
        var kind = Kind.other
        var isLiteral = false
        var isNull = false
        /// Whether it can be null where the rule is evaluated.
        var mayBeMissing = false
        var mayFail = false
        /// Whether `text` is a quoted expression.
        var isQuote = false
        /// A whole number, as a literal.
        var count: Int?
    }

    /// Nil for what is no value; an expression without words is quoted.
    func operand(_ expression: Expression, _ known: Known) -> Operand? {
        guard takeStep() else { return quoted(expression) }
        switch expression.kind {
        case .literal(let node): return Self.literal(node)
        case .negate(let inner):
            guard let inner = operand(inner, known), inner.isLiteral, inner.kind == .number else { return quoted(expression) }
            return Operand(text: "-\(inner.text)", kind: .number, isLiteral: true, count: inner.count.map { -$0 })
        case .variable("now"): return Operand(text: "now", kind: .time)
        case .variable("written"): return Operand(text: "its last change", kind: .time, mayBeMissing: true)
        case .variable("distance") where context.role == .watch:
            return Operand(text: "the distance in metres", kind: .number, mayBeMissing: true)
        case .variable("firing"): return Operand(text: "the time at which this happens", kind: .time)
        case .variable(let name) where name.hasPrefix("$"): return Operand(text: name, kind: .text)
        case .variable(let name) where context.parameters.contains(name): return Operand(text: "`\(name)`", mayBeMissing: true)
        case .member(let target, "length"):
            guard let text = operand(target, known), !text.isQuote else { return quoted(expression) }
            return Operand(text: "the length of \(text.text)", kind: .number, mayFail: text.mayFail || !isText(target, text, known))
        case .member: return member(expression, known) ?? quoted(expression)
        case .call(let callee, let arguments): return value(of: callee, arguments, known) ?? quoted(expression)
        case .arithmetic(let operation, let a, let b): return time(operation, a, b, known) ?? quoted(expression)
        default: return quoted(expression)
        }
    }

    private func quoted(_ expression: Expression) -> Operand {
        Operand(text: quote(expression), mayBeMissing: true, mayFail: true, isQuote: true)
    }

    static func literal(_ node: Node) -> Operand? {
        switch node {
        case .null: return Operand(text: "nothing", isLiteral: true, isNull: true)
        case .bool(let flag): return Operand(text: flag ? "true" : "false", isLiteral: true)
        case .string(let text): return Operand(text: "\"\(text.string)\"", kind: .text, isLiteral: true)
        case .int(let number): return Operand(text: String(number), kind: .number, isLiteral: true, count: Int(exactly: number))
        case .double(let number):
            return Operand(text: NumberText.format(number), kind: .number, isLiteral: true, count: Int(exactly: number))
        default: return nil
        }
    }

    /// `auth.uid`, `auth.token.email`, `query.limit`
    private func member(_ expression: Expression, _ known: Known) -> Operand? {
        guard let names = Self.chain(expression) else { return nil }
        let isMissing = !known.isSignedIn && !known.willBeSignedIn
        switch names.count {
        case 2 where names == ["auth", "uid"]: return Operand(text: "the user's id", kind: .text, mayBeMissing: isMissing)
        case 2 where names == ["auth", "provider"]: return Operand(text: "the user's way to sign in", kind: .text, mayBeMissing: isMissing)
        case 3 where names == ["auth", "token", "email"]: return Operand(text: "the user's email address", mayBeMissing: true)
        case 3 where names[0] == "auth" && names[1] == "token":
            return Operand(text: "the user's claim `\(names[2])`", mayBeMissing: true)
        default: return nil
        }
    }

    /// `["auth", "token", "admin"]`
    static func chain(_ expression: Expression) -> [String]? {
        switch expression.kind {
        case .variable(let name): [name]
        case .member(let target, let name): chain(target).map { $0 + [name] }
        default: nil
        }
    }

    private func value(of callee: Expression, _ arguments: [Expression], _ known: Known) -> Operand? {
        guard case .member(let target, let method) = callee.kind else {
            if case .variable("dayOf") = callee.kind, arguments.count == 2, case .variable("now") = arguments[0].kind,
                case .literal(.string(let zone)) = arguments[1].kind
            {
                return Operand(text: "today in \(zone.string)", kind: .text)
            }
            return nil
        }
        switch method {
        case "val":
            guard let place = reference(target, known) else { return nil }
            let name = context.name(place)
            let key = Self.key(place)
            let kind: Operand.Kind = known.texts.contains(key) ? .text : known.numbers.contains(key) ? .number : .other
            guard let other = arguments.first else { return Operand(text: name, kind: kind, mayBeMissing: true, mayFail: place.mayFail) }
            guard let other = operand(other, known), !other.isQuote else { return nil }
            return Operand(
                text: "\(name) (\(other.text) if missing)", kind: kind, mayBeMissing: other.isNull || other.mayBeMissing,
                mayFail: place.mayFail || other.mayFail)
        case "childCount":
            guard let place = reference(target, known) else { return nil }
            return Operand(text: "the number of children of \(context.name(place))", kind: .number, mayFail: place.mayFail)
        case "toLowerCase", "toUpperCase", "fold":
            guard let text = operand(target, known), !text.isQuote else { return nil }
            let how = method == "fold" ? "without case and accents" : method == "toLowerCase" ? "in lower case" : "in upper case"
            return Operand(text: "\(text.text) \(how)", kind: .text, mayFail: text.mayFail || !isText(target, text, known))
        default: return nil
        }
    }

    /// Whether a value is certainly a text.
    func isText(_ expression: Expression, _ operand: Operand, _ known: Known) -> Bool {
        operand.kind == .text && !operand.mayBeMissing || valuePlace(expression, known).map { known.texts.contains(Self.key($0)) } ?? false
    }

    /// `now - 60000`, `written + 3600000`, `data.child('at').val() + 60000`
    private func time(_ operation: Arithmetic, _ a: Expression, _ b: Expression, _ known: Known) -> Operand? {
        if operation == .multiply, case .literal(.int(1000)) = b.kind, let place = valuePlace(a, known) {
            let isNumber = known.numbers.contains(Self.key(place))
            let words = "the time in \(context.name(place)) (in seconds)"
            return Operand(text: words, kind: .time, mayBeMissing: !isNumber, mayFail: !isNumber)
        }
        guard operation == .add || operation == .subtract, let base = operand(a, known), !base.isQuote, let more = operand(b, known),
            let ms = more.count, ms >= 0, more.isLiteral
        else { return nil }
        let span = Self.duration(ms)
        switch (base.text, operation) {
        case ("now", .add): return Operand(text: "\(span) from now", kind: .time)
        case ("now", _): return Operand(text: "\(span) ago", kind: .time)
        default:
            guard base.kind == .time || context.role == .expiry else { return nil }
            let time = base.kind == .time ? base.text : "the time in \(base.text)"
            let words = "\(span) \(operation == .add ? "after" : "before") \(time)"
            return Operand(text: words, kind: .time, mayBeMissing: base.mayBeMissing, mayFail: base.mayBeMissing)
        }
    }

    /// Milliseconds in the largest unit that has a whole number of them.
    static func duration(_ ms: Int) -> String {
        let units = [(86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second")]
        guard ms > 0, let (size, name) = units.first(where: { ms % $0.0 == 0 }) else { return "\(ms) ms" }
        return ms / size == 1 ? "1 \(name)" : "\(ms / size) \(name)s"
    }

    // MARK: Places

    /// The place of `x.val()`.
    func valuePlace(_ expression: Expression, _ known: Known) -> PlaceReference? {
        guard case .call(let callee, let none) = expression.kind, none.isEmpty, case .member(let target, "val") = callee.kind else {
            return nil
        }
        return reference(target, known)
    }

    /// The place of a snapshot; nil for one without words.
    func reference(_ expression: Expression, _ known: Known) -> PlaceReference? {
        switch expression.kind {
        case .variable(let name): return root(name)
        case .conditional(let condition, let a, let b):
            guard case .call(let callee, let none) = condition.kind, none.isEmpty, case .member(let tested, "exists") = callee.kind,
                Self.chain(tested) == ["data"], Self.chain(a) == ["data"], Self.chain(b) == ["newData"], context.role == .write
            else { return nil }
            return PlaceReference(tree: .either, parts: WordsContext.parts(context.place))
        case .call(let callee, let arguments):
            guard case .member(let target, let method) = callee.kind, var place = reference(target, known) else { return nil }
            if method == "parent", arguments.isEmpty {
                if case .parameter = place.tree { return nil }
                guard place.tree != .each, !place.parts.isEmpty else { return nil }
                place.parts.removeLast()
                return place
            }
            guard method == "child", arguments.count == 1 else { return nil }
            return append(arguments[0], to: &place, known) ? place : nil
        default: return nil
        }
    }

    /// Appends the argument of a `child()`; false for one without words.
    func append(_ name: Expression, to place: inout PlaceReference, _ known: Known) -> Bool {
        switch name.kind {
        case .literal(.string(let text)):
            let keys = text.string.split(separator: "/")
            guard !keys.isEmpty else { return false }
            place.parts += keys.map { .key(String($0)) }
        case .variable(let name) where name.hasPrefix("$"): place.parts.append(.wildcard(name))
        default:
            guard let value = operand(name, known), !value.isQuote, !value.isNull else { return false }
            place.parts.append(.value(value.text))
            if value.kind != .text || value.mayBeMissing || value.mayFail { place.mayFail = true }
            // Known before this part, not only by one behind it.
            if value.text == "the user's id", !known.isSignedIn { place.mayFail = true }
        }
        return true
    }

    private func root(_ name: String) -> PlaceReference? {
        if context.role == .function, name == "data" || name == "newData" { return PlaceReference(tree: .parameter(name), parts: []) }
        let here = WordsContext.parts(context.place)
        switch name {
        case "data": return PlaceReference(tree: .old, parts: here)
        case "newData": return PlaceReference(tree: .new, parts: here)
        case "root": return PlaceReference(tree: .old, parts: [])
        case "newRoot": return PlaceReference(tree: .new, parts: [])
        case "each": return PlaceReference(tree: .each, parts: [])
        case "item" where context.role == .watch: return PlaceReference(tree: .each, parts: [])
        default: return context.parameters.contains(name) ? PlaceReference(tree: .parameter(name), parts: []) : nil
        }
    }
}
