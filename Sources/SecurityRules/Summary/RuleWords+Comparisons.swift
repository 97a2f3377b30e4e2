import JSONTree

extension RuleWords {
    typealias Words = (phrase: Phrase, mayFail: Bool)

    /// A comparison in words; nil where it has none.
    func compare(_ comparison: Comparison, _ a: Expression, _ b: Expression, _ known: inout Known) -> Words? {
        let flipped = comparison.flipped
        return attempt { caller(comparison, a, b, &known) } ?? attempt { caller(flipped, b, a, &known) }
            ?? attempt { query(comparison, a, b, known) } ?? attempt { query(flipped, b, a, known) }
            ?? attempt { place(comparison, a, b, known) } ?? attempt { place(flipped, b, a, known) }
            ?? attempt { values(comparison, a, b, known) }
    }

    // MARK: The caller

    private func caller(_ comparison: Comparison, _ a: Expression, _ b: Expression, _ known: inout Known) -> Words? {
        guard comparison.isEquality, let names = Self.chain(a), names[0] == "auth" else { return nil }
        let isEqual = comparison == .equal
        if case .literal(.null) = b.kind { return missing(names, isEqual, &known) }
        let isOther = Self.chain(b)?.first == "auth"
        guard !isOther, let value = operand(b, known), !value.isQuote else { return nil }
        // What is written, or an entry of a list, is the subject: "`author` is the user's id".
        if names.count == 3, let place = valuePlace(b, known), place.tree == .new || place.tree == .each { return nil }
        let isMaybeSignedOut = !known.isSignedIn && !known.willBeSignedIn
        defer { if isEqual, !value.mayBeMissing { known.isSignedIn = true } }
        switch names.count {
        case 2 where names[1] == "uid": return user(value, b, isEqual, isMaybeSignedOut, known)
        case 2 where names[1] == "provider" && value.isLiteral:
            if value.text == "\"anonymous\"" {
                let note = !isEqual && isMaybeSignedOut ? ", or is signed out" : ""
                let verb = isEqual ? "is" : "is not"
                return (.caller(relative: "who \(verb) an anonymous user\(note)", clause: "the user \(verb) anonymous\(note)"), false)
            }
            if value.text == "\"hub\"" {
                return (isEqual ? .caller(relative: "that is the hub itself", clause: "the hub itself writes")
                    : .caller(relative: "other than the hub itself", clause: "it is not the hub itself that writes"), false)
            }
            let words = "\(isEqual ? "is" : "is not") signed in by \(value.text)"
            return (.caller(relative: "who \(words)", clause: "the user \(words)"), false)
        case 3 where names[1] == "token": return claim(names[2], value, isEqual)
        default: return nil
        }
    }

    private func missing(_ names: [String], _ isEqual: Bool, _ known: inout Known) -> Words? {
        switch names {
        case ["auth"], ["auth", "uid"], ["auth", "provider"]:
            if !isEqual { known.isSignedIn = true }
            let state = isEqual ? "signed out" : "signed in"
            return (.caller(relative: "who is \(state)", clause: "the user is \(state)"), false)
        case _ where names.count == 3 && names[1] == "token":
            if !isEqual { known.isSignedIn = true }
            let verb = isEqual ? "has no" : "has a"
            return (.caller(relative: "who \(verb) claim `\(names[2])`", clause: "the user \(verb) claim `\(names[2])`"), false)
        default: return nil
        }
    }

    private func user(_ value: Operand, _ b: Expression, _ isEqual: Bool, _ isMaybeSignedOut: Bool, _ known: Known) -> Words? {
        if let place = valuePlace(b, known), place.tree == .new || place.tree == .each {
            let note = isEqual && isMaybeSignedOut ? " (or missing, of a user who is signed out)" : ""
            return (.fact(subject: value.text, .other("is\(isEqual ? "" : " not") the user's id\(note)")), value.mayFail)
        }
        guard isEqual else {
            let (words, out) = ("id is not \(value.text)", isMaybeSignedOut)
            return (.caller(
                relative: "whose \(words)\(out ? ", or who is signed out" : "")",
                clause: "the user's \(words)\(out ? ", or the user is signed out" : "")"), value.mayFail)
        }
        guard value.mayBeMissing, isMaybeSignedOut else { return (.user(id: value.text), value.mayFail) }
        return (.caller(
            relative: "whose id is \(value.text) (or who is signed out, where there is none)",
            clause: "the user's id is \(value.text) (or the user is signed out, and there is none)"), value.mayFail)
    }

    private func claim(_ name: String, _ value: Operand, _ isEqual: Bool) -> Words {
        let verb = isEqual ? "is" : "is not"
        if value.text == "true", value.isLiteral {
            if name == "email_verified" {
                let words = "email address \(verb) verified"
                return (.caller(relative: "whose \(words)", clause: "the user's \(words)"), false)
            }
            if isEqual { return (.caller(relative: "who has the claim `\(name)`", clause: "the user has the claim `\(name)`"), false) }
        }
        let what = name == "email" ? "email address" : "claim `\(name)`"
        let note = isEqual && value.mayBeMissing ? " (or there is neither)" : ""
        let words = "\(what) \(verb) \(value.text)\(note)"
        return (.caller(relative: "whose \(words)", clause: "the user's \(words)"), value.mayFail)
    }

    // MARK: Places

    private func place(_ comparison: Comparison, _ a: Expression, _ b: Expression, _ known: Known) -> Words? {
        if case .arithmetic(.remainder, let number, let one) = a.kind, case .literal(.int(1)) = one.kind, case .literal(.int(0)) = b.kind,
            comparison == .equal, let place = valuePlace(number, known)
        {
            let isNumber = known.numbers.contains(Self.key(place))
            return (.fact(subject: context.name(place), .whole), place.mayFail || !isNumber)
        }
        if case .member(let text, "length") = a.kind, let place = valuePlace(text, known), let count = operand(b, known)?.count {
            let predicate: Predicate = switch comparison {
            case .less: .length(.lessOrEqual, count - 1)
            case .greater: .length(.greaterOrEqual, count + 1)
            case .notEqual: .other("does not have \(count) characters")
            default: .length(comparison, count)
            }
            return (.fact(subject: context.name(place), predicate), place.mayFail || !known.texts.contains(Self.key(place)))
        }
        if case .call(let callee, let none) = a.kind, none.isEmpty, case .member(let target, "childCount") = callee.kind,
            let place = reference(target, known), let count = operand(b, known), count.count != nil
        {
            let words = [Predicate].words(comparison)
            let number = words.isEmpty ? count.text : "\(words) \(count.text)"
            return (.fact(subject: context.name(place), .other("has \(number) \(count.text == "1" ? "child" : "children")")), place.mayFail)
        }
        guard let place = valuePlace(a, known), let value = operand(b, known) else { return nil }
        let name = context.name(place)
        if value.isNull {
            guard comparison.isEquality else { return nil }
            return existence(place, not: comparison == .equal)
        }
        if comparison.isEquality {
            if let other = valuePlace(b, known) { return same(place, other, comparison == .equal) }
            let mayFail = place.mayFail || value.mayFail
            if comparison == .equal {
                let isThere = context.role == .validate && context.isSelf(place) && place.tree == .new
                if value.mayBeMissing, !value.isQuote, !isThere {
                    return (.fact(subject: name, .other("is \(value.text) (or there is neither)")), mayFail)
                }
                // Otherwise "is `x`" would be mistaken for the literal of that name.
                return (.fact(subject: name, value.isQuote ? .other("equals \(value.text)") : .equal(value.text)), mayFail)
            }
            return (.fact(subject: name, .other("is not \(value.text)")), mayFail)
        }
        let isNumber = known.numbers.contains(Self.key(place)) && (value.kind == .number || value.kind == .time) && !value.mayFail
        let isText = known.texts.contains(Self.key(place)) && value.kind == .text
        let predicate: Predicate =
            switch value.kind {
            case .number where value.isLiteral: .bound(comparison, value.text)
            case .time: .other("is \(Self.timeWords(comparison)) \(value.text)")
            default: .other("is \([Predicate].words(comparison)) \(value.text)")
            }
        return (.fact(subject: name, predicate), place.mayFail || value.mayFail || !(isNumber || isText))
    }

    private static func timeWords(_ comparison: Comparison) -> String {
        switch comparison {
        case .less: "before"
        case .lessOrEqual: "not after"
        case .greater: "after"
        case .greaterOrEqual: "not before"
        case .equal: "exactly"
        case .notEqual: "not exactly"
        }
    }

    /// Whether two places hold the same value.
    private func same(_ a: PlaceReference, _ b: PlaceReference, _ isEqual: Bool) -> Words {
        let (new, old) = a.tree == .old ? (b, a) : (a, b)
        let mayFail = a.mayFail || b.mayFail
        if new.tree == .new, old.tree == .old, new.parts == old.parts {
            let name = context.role == .write ? nameWithoutTree(new) : context.name(new)
            return (.fact(subject: name, isEqual ? .other("keeps its value") : .changes), mayFail)
        }
        let verb = isEqual ? "is the same as" : "is not the same as"
        return (.fact(subject: context.name(new), .other("\(verb) \(context.name(old))")), mayFail)
    }

    /// "`author`" rather than "the new `author`".
    private func nameWithoutTree(_ reference: PlaceReference) -> String {
        context.inner(reference) ?? (context.isSelf(reference) ? "it" : "/\(reference.path)")
    }

    /// Two values, none of which is the value of a place: `$a != $b`.
    private func values(_ comparison: Comparison, _ a: Expression, _ b: Expression, _ known: Known) -> Words? {
        guard let x = operand(a, known), let y = operand(b, known), !x.isQuote, !y.isNull, !x.isNull, !x.isLiteral || !y.isLiteral else {
            return nil
        }
        if x.isLiteral { return values(comparison.flipped, b, a, known) }
        let mayFail = x.mayFail || y.mayFail
        if comparison.isEquality {
            let verb = comparison == .equal ? (y.isQuote ? "equals" : "is") : "is not"
            return (.fact(subject: x.text, .other("\(verb) \(y.text)")), mayFail)
        }
        let isOneKind = x.kind == y.kind || Set([x.kind, y.kind]) == [.number, .time]
        let isKnown = isOneKind && x.kind != .other && !x.mayBeMissing && !y.mayBeMissing
        let words = x.kind == .time || y.kind == .time ? Self.timeWords(comparison) : [Predicate].words(comparison)
        return (.fact(subject: x.text, .other("is \(words) \(y.text)")), mayFail || !isKnown)
    }
}
