import JSONTree

extension RuleWords {
    /// A call that is true or false, in words; nil where it has none.
    func call(
        _ expression: Expression, _ callee: Expression, _ arguments: [Expression], _ known: inout Known, not isNegated: Bool
    ) -> Words? {
        if case .variable(let name) = callee.kind { return function(expression, name, &known, not: isNegated) }
        guard case .member(let target, let method) = callee.kind else { return nil }
        if let place = reference(target, known) { return test(place, method, arguments, &known, not: isNegated) }
        return attempt { textTest(target, method, arguments, known, not: isNegated) }
    }

    /// A call of a function stays a call: its meaning stands at the end of the list.
    private func function(_ expression: Expression, _ name: String, _ known: inout Known, not isNegated: Bool) -> Words? {
        guard let facts = functions.facts(of: name) else { return nil }
        if facts.requiresUser, !isNegated { known.isSignedIn = true }
        let text = quote(expression)
        guard facts.mentionsCaller else { return (.clause(isNegated ? "not \(text)" : text), facts.mayFail) }
        let verb = isNegated ? "does not hold" : "holds"
        return (.caller(relative: "for whom \(text) \(verb)", clause: "\(text) \(verb)"), facts.mayFail)
    }

    // MARK: Tests of places

    private func test(
        _ place: PlaceReference, _ method: String, _ arguments: [Expression], _ known: inout Known, not isNegated: Bool
    ) -> Words? {
        let name = context.name(place)
        func fact(_ predicate: Predicate, _ negated: String) -> Words {
            (.fact(subject: name, isNegated ? .other(negated) : predicate), place.mayFail)
        }
        switch method {
        case "exists": return existence(place, not: isNegated)
        case "isString":
            if !isNegated { known.texts.insert(Self.key(place)) }
            return fact(.text, "is not a text")
        case "isNumber":
            if !isNegated { known.numbers.insert(Self.key(place)) }
            return fact(.number, "is not a number")
        case "isBoolean": return fact(.boolean, "is neither true nor false")
        case "hasChild":
            var child = place
            guard arguments.count == 1, append(arguments[0], to: &child, known) else { return nil }
            return existence(child, not: isNegated)
        case "hasChildren" where arguments.isEmpty: return fact(.other("has children"), "has no children")
        case "hasChildren", "hasAny":
            guard arguments.count == 1 else { return nil }
            if case .array(let elements) = arguments[0].kind {
                guard let names = names(elements, known) else { return nil }
                if method == "hasAny" {
                    return fact(.other("has \(Phrase.joined(names, "or"))"), "has none of \(Phrase.joined(names, "and"))")
                }
                return fact(.has(names), names.count == 1 ? "has no \(names[0])" : "lacks one of \(Phrase.joined(names, "and"))")
            }
            guard method == "hasAny", let other = reference(arguments[0], known) else { return nil }
            let words = "a child of the same name as \(context.name(other))"
            return (.fact(subject: name, .other(isNegated ? "does not have \(words)" : "has \(words)")), place.mayFail || other.mayFail)
        case "equals":
            guard arguments.count == 1, let other = reference(arguments[0], known) else { return nil }
            let mayFail = place.mayFail || other.mayFail
            let (new, old) = place.tree == .old ? (other, place) : (place, other)
            if new.tree == .new, old.tree == .old, new.parts == old.parts {
                let words = isNegated ? "changes, or something below it" : "does not change at all"
                return (.fact(subject: context.name(new), .other(words)), mayFail)
            }
            let verb = isNegated ? "is not the same as" : "is the same as"
            return (.fact(subject: name, .other("\(verb) \(context.name(other)), with everything below")), mayFail)
        default: return nil
        }
    }

    /// The names of an array: keys in backticks, wildcards as they are.
    private func names(_ elements: [Expression], _ known: Known) -> [String]? {
        var names: [String] = []
        for element in elements {
            switch element.kind {
            case .literal(.string(let text)): names.append("`\(text.string)`")
            case .variable(let name) where name.hasPrefix("$"): names.append(name)
            default: return nil
            }
        }
        return names.isEmpty ? nil : names
    }

    /// Whether a place exists.
    func existence(_ place: PlaceReference, not isNegated: Bool) -> Words {
        let isOwn = context.isSelf(place)
        if isOwn, context.role == .write || context.role == .change || context.role == .drop, place.tree == .old || place.tree == .new {
            return (.state(place.tree == .old ? (isNegated ? .isNew : .isStored) : (isNegated ? .isRemoved : .isKept)), place.mayFail)
        }
        if isOwn, context.role == .validate {
            if place.tree == .old { return (.clause(isNegated ? "it did not exist before" : "it existed before"), false) }
            if place.tree == .new { return (.clause(isNegated ? "it is removed" : "it is not removed"), false) }
        }
        if case .value(let value)? = place.parts.last {
            var list = place
            list.parts.removeLast()
            return (.fact(subject: value, .other("is\(isNegated ? " not" : "") in \(context.name(list))")), place.mayFail)
        }
        if let inner = context.inner(place) {
            let base: PlaceReference
            switch place.tree {
            case .each, .parameter: base = PlaceReference(tree: place.tree, parts: [])
            default: base = PlaceReference(tree: place.tree, parts: WordsContext.parts(context.place))
            }
            // A field has only what is below itself, not its siblings.
            let isBelow = place.parts.starts(with: base.parts)
            if isBelow {
                let name = "`" + place.parts.dropFirst(base.parts.count).map(\.text).joined(separator: "/") + "`"
                let subject = context.name(base)
                return (.fact(subject: subject, isNegated ? .other("has no \(name)") : .has([name])), place.mayFail)
            }
            return (.clause(isNegated ? "there is no \(inner)" : "there is \(inner)"), place.mayFail)
        }
        return (.fact(subject: context.name(place), .other(isNegated ? "does not exist" : "exists")), place.mayFail)
    }

    // MARK: Texts

    private func textTest(
        _ target: Expression, _ method: String, _ arguments: [Expression], _ known: Known, not isNegated: Bool
    ) -> Words? {
        let verbs: [String: (String, String)] = [
            "beginsWith": ("begins with", "does not begin with"), "endsWith": ("ends with", "does not end with"),
            "contains": ("contains", "does not contain"), "matches": ("matches", "does not match"),
        ]
        guard let (does, doesNot) = verbs[method], arguments.count == 1, let text = operand(target, known), !text.isQuote else {
            return nil
        }
        let verb = isNegated ? doesNot : does
        let isKnown = isText(target, text, known)
        if method == "matches" {
            return (.fact(subject: text.text, .other("\(verb) \(quote(arguments[0]))")), text.mayFail || !isKnown)
        }
        guard let part = operand(arguments[0], known), !part.isNull else { return nil }
        let isSure = isKnown && part.kind == .text && !part.mayBeMissing
        return (.fact(subject: text.text, .other("\(verb) \(part.text)")), text.mayFail || part.mayFail || !isSure)
    }

    // MARK: Queries

    /// `query.near`, `query.orderByKey`
    func queryFlag(_ expression: Expression, not isNegated: Bool) -> Words? {
        guard case .member(let target, let name) = expression.kind, Self.chain(target) == ["query"] else { return nil }
        let words: [String: String] = [
            "near": "by distance", "orderByKey": "ordered by key", "orderByValue": "ordered by value",
            "orderByPriority": "ordered by priority",
        ]
        guard let words = words[name] else { return nil }
        return (.fact(subject: "the query", .other("is\(isNegated ? " not" : "") \(words)")), false)
    }

    /// A comparison of a part of the query with a value.
    func query(_ comparison: Comparison, _ a: Expression, _ b: Expression, _ known: Known) -> Words? {
        guard let names = Self.chain(a), names[0] == "query", names.count > 1, Self.chain(b)?.first != "query" else { return nil }
        guard let value = operand(b, known), !value.isQuote else { return nil }
        let isOrder = !comparison.isEquality
        // The number that it is not says little.
        if comparison == .notEqual, value.count != nil { return nil }
        func fact(_ words: String) -> Words { (.fact(subject: "the query", .other(words)), isOrder || value.mayFail) }
        let amount = [[Predicate].words(comparison), value.text].filter { !$0.isEmpty }.joined(separator: " ")
        switch names[1] {
        case "where":
            let path = names.dropFirst(2).joined(separator: "/")
            guard comparison.isEquality, !path.isEmpty else { return nil }
            if value.isNull { return fact(comparison == .equal ? "has no condition on `\(path)`" : "has a condition on `\(path)`") }
            guard !value.mayBeMissing, comparison == .equal else { return nil }
            return fact("asks for those whose `\(path)` is \(value.text)")
        case "orderByChild" where comparison == .equal && value.isLiteral && !value.isNull:
            return fact("is ordered by `\(value.text.dropFirst().dropLast())`")
        case "limitToFirst" where value.count != nil: return fact("asks for \(amount) from the start")
        case "limitToLast" where value.count != nil: return fact("asks for \(amount) from the end")
        case "limit" where value.count != nil: return fact("asks for \(amount) children")
        case "radius" where value.kind == .number && value.isLiteral: return fact("has a circle of \(amount) m")
        case "within" where comparison == .equal && value.isLiteral && !value.isNull:
            return fact("asks for those within a \(value.text.dropFirst().dropLast())")
        case _ where value.isNull && comparison.isEquality && names.count == 2:
            return fact("has \(comparison == .equal ? "no" : "a") `\(names[1])`")
        case "equalTo" where comparison == .equal && !value.mayBeMissing: return fact("asks for those equal to \(value.text)")
        default: return nil
        }
    }
}
