import JSONTree

/// Who may read, count and write a place.
extension SummaryWriter {
    /// A longer rule is not repeated at the places that inherit its access.
    private static let repeatedCharacters = 200

    /// "Read by everybody who is signed in, because of /posts."
    /// - Parameter path: the places from the root down to the one that the sentence is about.
    func access(_ kind: RuleKind, _ path: [Above]) -> RuleSentence {
        let entry = path[path.count - 1].pattern
        let node = path[path.count - 1].node
        let (verb, sentenceKind): (String, RuleSentence.Kind) = kind == .read ? ("read", .read) : ("written", .write)
        var keys: [String] = []
        var all: [RuleWords] = []
        var texts: [String] = []
        if node.rules[kind] != nil { keys.append(Self.key(kind.rawValue, entry)) }
        // The highest place that grants to everybody says all.
        for above in path {
            guard let rule = above.node.rules[kind], rule.source == "true" else { continue }
            let isOwn = above.pattern == entry
            let text = "\(verb) by everybody, signed in or not\(isOwn ? "" : ", because of \(Self.name(above.pattern))")."
            return sentence(sentenceKind, capitalized(text) + otherwise(kind, node, entry, &keys), keys, [])
        }
        if let rule = node.rules[kind] {
            let words = words(kind == .read ? .read : .write, entry)
            let phrase = words.phrase(rule)
            if case .any(let none) = phrase, none.isEmpty {} else {
                texts.append(capitalized(grants(phrase, verb: verb, isOwn: kind == .write)) + "." + note([words]))
                all.append(words)
            }
        }
        for above in path.dropLast().reversed() {
            guard let rule = above.node.rules[kind], let (text, words) = inherited(kind, rule, from: above.pattern, by: entry) else {
                continue
            }
            texts.append((texts.isEmpty ? capitalized(verb) : "Also \(verb)") + " " + text)
            if let words { all.append(words) }
        }
        if texts.isEmpty {
            let text = "Nobody \(kind == .read ? "reads" : "writes") it"
            texts.append(grantsBelow(node, kind) ? "\(text) as a whole." : "\(text).")
        }
        return sentence(sentenceKind, texts.joined(separator: " ") + otherwise(kind, node, entry, &keys), keys, all)
    }

    private func otherwise(_ kind: RuleKind, _ node: SourceNode, _ pattern: [String], _ keys: inout [String]) -> String {
        kind == .write ? message(of: .write, node, pattern, &keys) : ""
    }

    /// "by everybody who is signed in, because of /posts."; nil if the rule grants nothing here.
    private func inherited(_ kind: RuleKind, _ rule: SourceRule, from pattern: [String], by entry: [String]) -> (String, RuleWords?)? {
        let reference = "by whoever may \(kind == .read ? "read" : "write") \(Self.name(pattern))"
        // Not put into words for each place below.
        let isLong = rule.source.utf8.count > 2 * Self.repeatedCharacters
        if isLong, kind == .write { return ("\(reference).", nil) }
        let words = RuleWords(
            WordsContext(role: kind == .read ? .read : .write, entry: entry, place: pattern), functions: functions)
        let phrase = words.phrase(rule)
        if case .any(let none) = phrase, none.isEmpty { return nil }
        if case .expression(let text) = rule.text, let expression = try? ExpressionParser.parse(text.value), kind == .read,
            functions.mentions("query", in: expression)
        {
            // A rule above the place sees no query.
            if !mayHoldWithoutQuery(expression) { return nil }
            return ("\(reference) without a query.", nil)
        }
        let text = grants(phrase, verb: "", isOwn: false)
        // "by …, if … or by …" would not say how far the condition reaches.
        let isClear = if case .any = phrase { !text.contains(", if ") } else { true }
        guard isClear, text.count <= Self.repeatedCharacters, !words.isOrdered else {
            return ("\(reference).", nil)
        }
        return ("\(text), because of \(Self.name(pattern)).", words)
    }

    /// Whether a rule can be true for a read without a query. False only for what certainly is not.
    private func mayHoldWithoutQuery(_ expression: Expression) -> Bool {
        switch expression.kind {
        case .all(let parts): return parts.allSatisfy(mayHoldWithoutQuery)
        case .any(let parts): return parts.contains(where: mayHoldWithoutQuery)
        case .comparison(let comparison, let a, let b):
            for (side, other) in [(a, b), (b, a)] where RuleWords.chain(side)?.first == "query" {
                // Every part of a query but its flags is null then, and null is ordered with nothing.
                if !comparison.isEquality { return false }
                guard case .literal(let value) = other.kind else { continue }
                let isFlag = RuleWords.chain(side).map { QueryField(rawValue: $0.last ?? "")?.isFlag ?? false } ?? true
                if !isFlag, value.exists == (comparison == .equal) { return false }
            }
            return true
        case .member: return RuleWords.chain(expression)?.first != "query"
        default: return true
        }
    }

    private func grantsBelow(_ node: SourceNode, _ kind: RuleKind) -> Bool {
        children(of: node).contains { child in
            child.node.rules[kind].map { $0.source != "false" } ?? false || grantsBelow(child.node, kind)
        }
    }

    // MARK: Callers

    /// "read by everybody who is signed in, or by …"
    /// - Parameter isOwn: whether the write is one of the place itself: then a new node is "created".
    func grants(_ phrase: Phrase, verb: String, isOwn: Bool) -> String {
        var alternatives: [Phrase] = if case .any(let parts) = phrase { parts } else { [phrase] }
        // Ids alone are one user each: "the user whose id is $a or $b". Conditions alone are one, too.
        let (areUsers, areFacts) = (alternatives.allSatisfy(\.isUser), alternatives.allSatisfy(\.isFact))
        if areUsers || areFacts { alternatives = [phrase] }
        var (verbs, callers): ([String], [String]) = ([], [])
        for alternative in alternatives {
            var parts: [Phrase] = if case .all(let parts) = alternative { parts } else { [alternative] }
            verbs.append(isOwn ? Self.verb(&parts) : verb)
            callers.append("by \(Self.caller(parts))")
        }
        let isShort = Set(verbs).count == 1 && callers.allSatisfy { !$0.contains(", if ") }
        if isShort || !isOwn && verb.isEmpty {
            return [verbs[0], Phrase.joined(callers, "or")].filter { !$0.isEmpty }.joined(separator: " ")
        }
        return zip(verbs, callers).map { "\($0) \($1)" }.joined(separator: ". Or ")
    }

    /// What a write does if some conditions hold, which it takes out: a new node is "created".
    private static func verb(_ parts: inout [Phrase]) -> String {
        var (isNew, isStored, isKept, isRemoved) = (false, false, false, false)
        parts.removeAll { part in
            guard case .state(let state) = part else { return false }
            switch state {
            case .isNew: isNew = true
            case .isStored: isStored = true
            case .isKept: isKept = true
            case .isRemoved: isRemoved = true
            }
            return true
        }
        switch (isNew, isStored, isKept, isRemoved) {
        case (true, true, _, _), (_, _, true, true): return "never written"
        case (true, _, _, true): return "removed, where nothing is stored,"
        case (true, _, _, _): return "created"
        case (_, true, true, _): return "changed"
        case (_, _, true, _): return "created or changed"
        case (_, _, _, true): return "removed"
        case (_, true, _, _): return "changed or removed"
        default: return "written"
        }
    }

    /// "the user whose id is $uid, if nothing is stored there yet"
    private static func caller(_ parts: [Phrase]) -> String {
        var (users, relatives, conditions): ([String], [String], [Phrase]) = ([], [], [])
        for part in parts {
            switch part {
            case .user(let id): users.append(id)
            case .caller(let relative, _): relatives.append(relative)
            case .quote(let text, ofCaller: true): relatives.append("for whom \(text) holds")
            case .any(let alternatives):
                let ids = alternatives.compactMap { if case .user(let id) = $0 { id } else { nil } }
                if users.isEmpty, !ids.isEmpty, ids.count == alternatives.count { users.append(Phrase.joined(ids, "or")) } else {
                    conditions.append(part)
                }
            default: conditions.append(part)
            }
        }
        var text = "everybody"
        if let id = users.first {
            // Whoever has an id is signed in.
            relatives.removeAll { $0 == "who is signed in" }
            text = "the user whose id is \(id)"
            let more = users.dropFirst().map { "whose id is \($0)" } + relatives
            if !more.isEmpty { text += " and \(Phrase.joined(more, "and"))" }
        } else if !relatives.isEmpty {
            text += " \(Phrase.joined(relatives, "and"))"
        } else if parts.isEmpty {
            text += ", signed in or not"
        }
        return conditions.isEmpty ? text : "\(text), if \(Phrase.conditions(conditions))"
    }

    // MARK: Counts

    /// "Counted by everybody."
    func counts(_ node: SourceNode, _ pattern: [String]) -> RuleSentence? {
        guard node.rules[.count] != nil || node.countTerms != nil else { return nil }
        let words = words(.read, pattern)
        var text = "Its children are counted by whoever may read it."
        if let rule = node.rules[.count] {
            let phrase = words.phrase(rule)
            if case .any(let none) = phrase, none.isEmpty { text = "Nobody counts its children." } else {
                text = "Its children are \(grants(phrase, verb: "counted", isOwn: false)).\(note([words]))"
            }
        }
        if let terms = node.countTerms {
            var bounds: [String] = []
            if let radius = terms.radius { bounds.append("circles have a radius of at least \(NumberText.format(radius)) m") }
            if let snap = terms.snap { bounds.append("their centres are points of a grid of \(NumberText.format(snap)) m") }
            if let least = terms.least { bounds.append("fewer than \(least) are reported as 0") }
            if let most = terms.perMinute { bounds.append("an address may count \(most) \(most == 1 ? "time" : "times") a minute") }
            if !bounds.isEmpty { text += " Without an account: \(Phrase.joined(bounds, "and"))." }
        }
        return sentence(.read, text, [Self.key(".count", pattern)], [words])
    }
}

extension Phrase {
    fileprivate var isUser: Bool { if case .user = self { true } else { false } }
    fileprivate var isFact: Bool { if case .fact = self { true } else { false } }
}
