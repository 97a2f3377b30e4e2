import JSONTree

/// What the hub adds to a write.
extension SummaryWriter {
    func follows(_ node: SourceNode, _ pattern: [String]) -> [RuleSentence] {
        var sentences = shaping(node, pattern, of: pattern)
        sentences += copies(node, pattern)
        sentences += node.inboxes.map { inbox($0, pattern) }
        sentences += node.watches.map { watch($0, pattern) }
        sentences += removals(node, pattern)
        sentences += node.notifications.map { notification($0, pattern) } + node.webhooks.map { webhook($0, pattern) }
        if let counters = counters(node, pattern) { sentences.append(counters) }
        sentences += node.expiries.map { expiry($0, pattern) }
        return sentences
    }

    /// `.drop`, `.default` and `.account`: of a place, or of a field in the sentences of the place above it.
    func shaping(_ node: SourceNode, _ pattern: [String], of entry: [String]) -> [RuleSentence] {
        var sentences: [RuleSentence] = []
        let name = pattern == entry ? "It" : fieldName(pattern, of: entry)
        let it = name.prefix(1).lowercased() + name.dropFirst()
        if let drop = node.drop {
            let words = words(.drop, pattern, of: entry)
            let phrase = words.phrase(drop)
            let text = switch phrase {
            case .all(let parts) where parts.isEmpty: "What clients send to \(it) is discarded."
            case .any(let parts) where parts.isEmpty: "Nothing that clients send to \(it) is discarded."
            default: "What clients send to \(it) is discarded if \(phrase.clause())."
            }
            sentences.append(sentence(.follows, text + note([words]), [Self.key(".drop", pattern)], [words]))
        }
        if let value = node.defaultValue {
            let words = words(.filling, pattern, of: entry)
            let filled = self.value(value, words)
            let text = value.isKept ? "\(name) is always \(filled), whatever clients send."
                : "Without a value, \(it) becomes \(filled)."
            sentences.append(sentence(.follows, text, [Self.key(".default", pattern)], [words]))
        }
        if let account = node.account {
            let text = "\(name) \(self.account(account, pattern))"
            sentences.append(sentence(.follows, text, [Self.key(".account", pattern)], []))
        }
        return sentences
    }

    private func value(_ value: SourceDefault, _ words: RuleWords) -> String {
        switch value.value {
        case .expression(let text): words.value(text.value)
        case .node(let node): RuleWords.literal(node)?.text ?? "an object of \(Phrase.joined(node.fieldNames, "and"))"
        }
    }

    // MARK: Copies, rows, removals

    private func copies(_ node: SourceNode, _ pattern: [String]) -> [RuleSentence] {
        node.copies.enumerated().map { i, copy in
            let words = words(.created, pattern)
            var text = "When it is created, it is copied to \(Self.place(copy.to.value))"
            if let each = copy.each {
                text += " for each `\(each.value)`"
                if let condition = copy.condition { text += " where \(words.phrase(condition.value).clause())" }
            }
            text += "."
            if i == node.copies.count - 1 { text += " \(i == 0 ? "The copy follows" : "The copies follow") its changes." }
            return sentence(.follows, text + note([words]), [Self.key(".copy", pattern)], [words])
        }
    }

    /// A place in backticks; a generated key is said.
    static func place(_ text: String) -> String {
        list(ofGenerated: text).map { "`\($0)`, under a key of its own" } ?? "`\(text)`"
    }

    /// The place above a generated key (`+`, `+name`); nil for a place that does not end with one.
    private static func list(ofGenerated text: String) -> String? {
        let segments = text.split(separator: "/", omittingEmptySubsequences: false)
        guard let i = segments.firstIndex(where: { $0.hasPrefix("+") }), i > 0, i == segments.count - 1 else { return nil }
        return segments.dropLast().joined(separator: "/")
    }

    private func inbox(_ inbox: SourceInbox, _ pattern: [String]) -> RuleSentence {
        let (created, changed) = (words(.created, pattern), words(.change, pattern))
        var when = "When it is created"
        if let changes = inbox.changes {
            let phrase = changed.phrase(changes.value)
            when += (phrase.isChange ? ", or when " : ", or changed so that ") + phrase.clause()
        }
        let wildcard = inbox.each.value.split(separator: "/").first { $0.hasPrefix("$") && !pattern.contains(String($0)) } ?? "key"
        var text = "\(when), each `\(wildcard)` of `\(inbox.each.value)`"
        if let members = inbox.members {
            text += " whose entry has \(Phrase.joined(members.map { names($0, created) }, "or"))"
        }
        text += " gets \(row(inbox.value, created)) at \(Self.place(inbox.to.value))"
        if !inbox.not.isEmpty { text += ", except \(Phrase.joined(inbox.not.map { names($0, created) }, "and"))" }
        if let condition = inbox.condition { text += ", if \(created.phrase(condition.value).clause())" }
        return sentence(.follows, text + "." + note([created, changed]), [Self.key(".inbox", pattern)], [created, changed])
    }

    /// The keys that an expression yields: those of a place's children, or a value.
    private func names(_ text: LocatedString, _ words: RuleWords) -> String {
        if let expression = try? ExpressionParser.parse(text.value), let place = words.reference(expression, RuleWords.Known()) {
            return "a key of \(words.context.name(place))"
        }
        return words.value(text.value)
    }

    /// "a row with `kind` and `at`"
    func row(_ json: LocatedJSON, _ words: RuleWords) -> String {
        switch json.value {
        case .object(let members) where !members.isEmpty:
            return "a row with \(Phrase.joined(members.map { "`\($0.name.value)`" }, "and"))"
        case .string(let text): return "the row \(words.value(text.value))"
        case .bool(let flag): return "the row \(flag)"
        case .number(let number): return "the row \(RuleWords.literal(number)?.text ?? "of a number")"
        default: return "a row"
        }
    }

    /// Plain places share a sentence.
    private func removals(_ node: SourceNode, _ pattern: [String]) -> [RuleSentence] {
        let plain = node.removes.filter { $0.condition == nil && $0.event == .removal }
        let others = node.removes.filter { $0.condition != nil || $0.event != .removal }
        let all = (plain.isEmpty ? [] : [SourceRemoval(to: plain.flatMap(\.to))]) + others
        return all.map { removal($0, pattern) }
    }

    private func removal(_ removal: SourceRemoval, _ pattern: [String]) -> RuleSentence {
        let words = words(.change, pattern)
        let targets = removal.to.map { place in
            Self.list(ofGenerated: place.value).map { "what it added to `\($0)`" } ?? "`\(place.value)`"
        }
        let gone = Phrase.joined(targets, "and") + (targets.count == 1 ? " is removed." : " are removed.")
        let when: String
        switch (removal.event, removal.condition) {
        case (.removal, nil): when = "it is removed"
        case (.change, nil): when = "it is created or changed"
        case (.removal, let condition?): when = "it is removed, if \(words.phrase(condition.value).clause())"
        case (.change, let condition?):
            let phrase = words.phrase(condition.value)
            when = (phrase.isChange ? "" : "it is created or changed so that ") + phrase.clause()
        }
        return sentence(.follows, "When \(when), \(gone)" + note([words]), [Self.key(".removes", pattern)], [words])
    }

    // MARK: Counters

    /// "Keeps: `votes`, the number of children of `votes/$post`; `rating`, …"
    private func counters(_ node: SourceNode, _ pattern: [String]) -> RuleSentence? {
        guard !node.counts.isEmpty else { return nil }
        var all: [RuleWords] = []
        let texts = node.counts.map { counter in
            let words = words(.counter, pattern)
            all.append(words)
            return "`\(counter.name.string)`, \(amount(counter, words))"
        }
        let creates = node.counts.contains(where: \.creates) ? " It exists while something counts." : ""
        return sentence(.follows, "Keeps: \(texts.joined(separator: "; "))." + creates, [Self.key(".counts", pattern)], all)
    }

    private func amount(_ counter: SourceCounter, _ words: RuleWords) -> String {
        guard let text = CounterText(counter.text.value) else { return words.quote(counter.text.value) }
        let set = "`\(text.set.text)`"
        var (value, condition): (String?, String?) = (nil, nil)
        switch text.more.count {
        case 2: (value, condition) = (text.more[0].text, text.more[1].text)
        case 1:
            let one = text.more[0].text
            if text.operation == .count || text.operation == .any || isCondition(one) { condition = one } else { value = one }
        default: break
        }
        let amounts = value.map { words.value($0) + " of the children" } ?? "the children"
        let members: String
        switch text.operation {
        case .count: members = "the number of children of \(set)"
        case .sum: members = "the sum of \(amounts) of \(set)"
        case .max: members = "the greatest of \(amounts) of \(set)"
        case .min: members = "the least of \(amounts) of \(set)"
        case .any: members = "whether \(set) has children"
        }
        return members + (condition.map { " where \(words.phrase($0).clause())" } ?? "")
    }

    /// Whether an expression is true or false, rather than a number.
    private func isCondition(_ text: String) -> Bool {
        guard let expression = try? ExpressionParser.parse(text) else { return false }
        return isCondition(expression)
    }

    private func isCondition(_ expression: Expression) -> Bool {
        switch expression.kind {
        case .all, .any, .not, .comparison, .literal(.bool): return true
        case .conditional(_, let yes, _): return isCondition(yes)
        case .call(let callee, _):
            if case .variable(let name) = callee.kind { return functions.body(name).map(isCondition) ?? false }
            guard case .member(_, let name) = callee.kind, let method = Method(rawValue: name) else { return false }
            return ![.val, .child, .parent, .getPriority, .childCount, .replace, .toLowerCase, .toUpperCase, .fold].contains(method)
        default: return false
        }
    }

    // MARK: Ends

    /// "Removed 1 hour after its last change, if there is no `due`."
    private func expiry(_ expiry: SourceExpiry, _ pattern: [String]) -> RuleSentence {
        let words = words(.expiry, pattern)
        let at = time(expiry.at.value, words)
        let condition = expiry.condition.map { ", if \(words.phrase($0.value).clause())" } ?? ""
        let log = expiry.log.map { log in
            " \(capitalized(expiry.value.map { row($0, words) } ?? "a row")) is added to \(Self.place(log.value))."
        } ?? ""
        let text: String
        if let patch = expiry.patch {
            let changes = patch.map { "`\($0.name.value)` becomes \(patched($0.value, words))" }
            text = "Changes \(at)\(condition): \(Phrase.joined(changes, "and"))."
        } else {
            text = "Removed \(at)\(condition)."
        }
        return sentence(.follows, text + log + note([words]), [Self.key(".expire", pattern)], [words])
    }

    private func patched(_ json: LocatedJSON, _ words: RuleWords) -> String {
        switch json.value {
        case .string(let text): words.value(text.value)
        case .bool(let flag): "\(flag)"
        case .number(let number): RuleWords.literal(number)?.text ?? "a number"
        case .null: "nothing"
        default: "another value"
        }
    }

    /// "at the time in `until`", "5 minutes after the time in `at`"
    func time(_ text: String, _ words: RuleWords) -> String {
        let quoted = words.quotes.count
        let time = words.value(text)
        if words.quotes.count > quoted { return "at \(time)" }
        return time.contains(" after ") || time.contains(" before ") ? time : "at the time in \(time)"
    }

    private func account(_ account: SourceAccount, _ pattern: [String]) -> String {
        switch account {
        case .own: "is removed with the account whose id is \(pattern.last ?? "its key")."
        case .captures(let names): "is removed with the account whose id is \(Phrase.joined(names.map(\.value), "or"))."
        case .by(let path): "is removed with the account that its `\(path.relativeText)` names."
        case .leaf(.null): "is removed with the account that it names."
        case .leaf(let value): "becomes \(RuleWords.literal(value)?.text ?? "another value") when the account that it names is deleted."
        }
    }

    // MARK: Limits and indexes

    func limits(_ node: SourceNode, _ pattern: [String]) -> [RuleSentence] {
        guard let rate = node.rate?.rate else { return [] }
        let pace = rate.perSecond >= 1 ? "At most \(NumberText.format(rate.perSecond)) \(rate.perSecond == 1 ? "write" : "writes") a second"
            : "At most one write in \(NumberText.format((1 / rate.perSecond * 100).rounded() / 100)) seconds"
        let text = "\(pace) for each user, \(rate.burst) at once, here and below."
        return [sentence(.limits, text, [Self.key(".rate", pattern)], [])]
    }

    func indexes(_ node: SourceNode, _ pattern: [String]) -> [RuleSentence] {
        var sentences: [RuleSentence] = []
        func list(_ names: [String]) -> String {
            let own = [".value": "their value", ".priority": "their priority", ".key": "their key"]
            return Phrase.joined(names.map { own[$0] ?? "`\($0)`" }, "and")
        }
        if !node.indexes.isEmpty {
            let text = "Queries may order its children by \(list(node.indexes))."
            sentences.append(sentence(.indexes, text, [Self.key(".indexOn", pattern)], []))
        }
        if let geo = node.geoIndex {
            var text = "Queries may find its children by distance, at `\(geo.latitude.relativeText)` and `\(geo.longitude.relativeText)`"
            if !geo.filters.isEmpty { text += ", filtered by \(list(geo.filters.map(\.value)))" }
            if !geo.orders.isEmpty { text += ", ordered by \(list(geo.orders.map(\.value)))" }
            sentences.append(sentence(.indexes, text + ".", [Self.key(".geoIndex", pattern)], []))
        }
        return sentences
    }
}

extension Node {
    fileprivate var fieldNames: [String] {
        var names: [String] = []
        for (key, _) in children { names.append("`\(key.string)`") }
        return names
    }
}

extension Phrase {
    /// Whether it says what has changed, such as "`done` becomes true".
    fileprivate var isChange: Bool {
        switch self {
        case .becomes, .fact(_, .changes): true
        case .all(let parts): parts.first?.isChange ?? false
        default: false
        }
    }
}
