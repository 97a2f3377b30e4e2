import JSONTree

/// Writes the sentences of a file: walks its places, and says what holds at each.
struct SummaryWriter {
    let functions: SummaryFunctions
    private(set) var places: [PlaceSummary] = []

    init(functions: SummaryFunctions) { self.functions = functions }

    /// A place on the way to the current one, with its access rules.
    struct Above {
        let pattern: [String]
        let node: SourceNode
    }

    /// A sentence about the place of `pattern`, before it has a kind.
    typealias Text = (text: String, words: [RuleWords])

    /// Adds the sentences of a place and of all below it.
    mutating func add(_ node: SourceNode, at pattern: [String], above: [Above]) {
        let path = above + [Above(pattern: pattern, node: node)]
        var sentences: [RuleSentence] = []
        sentences.append(access(.read, path))
        if let count = counts(node, pattern) { sentences.append(count) }
        sentences.append(access(.write, path))
        sentences += valid(node, pattern)
        sentences += follows(node, pattern)
        let fields = pattern.isEmpty ? [] : children(of: node).filter { Self.isField($0.node) }
        for child in fields { sentences += self.fields(child.node, at: pattern + [child.name], of: pattern) }
        if !fields.isEmpty { sentences += noOthers(node, pattern, of: pattern) }
        sentences += limits(node, pattern)
        sentences += indexes(node, pattern)
        places.append(PlaceSummary(place: Self.name(pattern), sentences: sentences))
        for child in children(of: node) where pattern.isEmpty || !Self.isField(child.node) {
            add(child.node, at: pattern + [child.name], above: path)
        }
    }

    static func name(_ pattern: [String]) -> String { "/" + pattern.joined(separator: "/") }

    /// The name of a key in `RuleSet.declarations`.
    static func key(_ name: String, _ pattern: [String]) -> String { Self.name(pattern) + name }

    func children(of node: SourceNode) -> [(name: String, node: SourceNode)] {
        node.children.map { ($0.key.string, $0.node) } + (node.wildcard.map { [($0.name.value, $0.node)] } ?? [])
    }

    func words(_ role: WordsContext.Role, _ pattern: [String], of entry: [String]? = nil) -> RuleWords {
        RuleWords(WordsContext(role: role, entry: entry ?? pattern, place: pattern), functions: functions)
    }

    func sentence(_ kind: RuleSentence.Kind, _ text: String, _ keys: [String], _ words: [RuleWords]) -> RuleSentence {
        RuleSentence(kind: kind, text: text, keys: keys, quotes: words.flatMap(\.quotes))
    }

    // MARK: Fields

    /// Whether a node is listed with the place above it: it has the same access, and no consequences of its own.
    static func isField(_ node: SourceNode) -> Bool {
        let ownRules = node.rules.keys.contains { $0 != .validate }
        let hasConsequences = !node.removes.isEmpty || !node.copies.isEmpty || !node.inboxes.isEmpty || !node.expiries.isEmpty
            || !node.notifications.isEmpty || !node.webhooks.isEmpty
            || !node.watches.isEmpty
            || !node.counts.isEmpty || !(node.account?.isOfLeaf ?? true)
        guard !ownRules, !hasConsequences, node.rate == nil, node.indexes.isEmpty, node.geoIndex == nil, node.countTerms == nil else {
            return false
        }
        return node.children.allSatisfy { isField($0.node) } && (node.wildcard.map { isField($0.node) } ?? true)
    }

    /// The sentences of a field and of those below it.
    private func fields(_ node: SourceNode, at pattern: [String], of entry: [String]) -> [RuleSentence] {
        if isRefused(node) { return [] }
        var sentences: [RuleSentence] = []
        let isWildcard = pattern.last?.hasPrefix("$") == true
        if let rule = node.rules[.validate] {
            let words = words(.validate, pattern, of: entry)
            let phrase = words.phrase(rule)
            let what = fieldName(pattern, of: entry)
            let text: String = switch phrase {
            case .all(let parts) where parts.isEmpty: "\(what) is valid, whatever it holds."
            case .any(let parts) where parts.isEmpty: "It must not have \(isWildcard ? "other children" : String(what.dropFirst(4)))."
            default: "\(what) is valid if \(phrase.clause())."
            }
            var keys = [Self.key(".validate", pattern)]
            let message = message(of: .validate, node, pattern, &keys)
            sentences.append(sentence(.valid, text + message + note([words]), keys, [words]))
        }
        sentences += shaping(node, pattern, of: entry)
        for child in children(of: node) { sentences += fields(child.node, at: pattern + [child.name], of: entry) }
        return sentences + noOthers(node, pattern, of: entry)
    }

    /// "Its `title`", "Each `$tag`"
    func fieldName(_ pattern: [String], of entry: [String]) -> String {
        let path = pattern.dropFirst(entry.count).joined(separator: "/")
        return (path.contains("$") ? "Each" : "Its") + " `\(path)`"
    }

    /// Whether nothing may be at a node of any name: `"$other": {".validate": false}`.
    private func isRefused(_ node: SourceNode) -> Bool {
        guard let rule = node.rules[.validate], node.children.isEmpty, node.wildcard == nil, node.messages.isEmpty, node.drop == nil,
            node.defaultValue == nil
        else { return false }
        return rule.source == "false"
    }

    /// "It has no other children than `title` and `author`."
    private func noOthers(_ node: SourceNode, _ pattern: [String], of entry: [String]) -> [RuleSentence] {
        let refused = node.children.filter { isRefused($0.node) }.map(\.key.string)
        var sentences: [RuleSentence] = []
        let what = pattern == entry ? "It" : fieldName(pattern, of: entry)
        if !refused.isEmpty {
            let names = Phrase.joined(refused.map { "`\($0)`" }, "or")
            let keys = refused.map { Self.key(".validate", pattern + [$0]) }
            sentences.append(sentence(.valid, "\(what) must not have \(names).", keys, []))
        }
        if let (name, child) = node.wildcard, isRefused(child) {
            let names = node.children.filter { $0.node.rules[.validate]?.source != "false" }.map { "`\($0.key.string)`" }
            let others = names.isEmpty ? "children" : "other children than \(Phrase.joined(names, "and"))"
            sentences.append(sentence(.valid, "\(what) must not have \(others).", [Self.key(".validate", pattern + [name.value])], []))
        }
        return sentences
    }

    // MARK: Validity

    private func valid(_ node: SourceNode, _ pattern: [String]) -> [RuleSentence] {
        guard let rule = node.rules[.validate] else { return [] }
        let words = words(.validate, pattern)
        let phrase = words.phrase(rule)
        let text: String = switch phrase {
        case .all(let parts) where parts.isEmpty: "Valid, whatever it holds."
        case .any(let parts) where parts.isEmpty: "Never valid: nothing can be stored there."
        default: "Valid if \(phrase.clause())."
        }
        var keys = [Self.key(".validate", pattern)]
        let message = message(of: .validate, node, pattern, &keys)
        return [sentence(.valid, text + message + note([words]), keys, [words])]
    }

    /// " Otherwise the client reads: "…"", with the key that it covers.
    func message(of kind: RuleKind, _ node: SourceNode, _ pattern: [String], _ keys: inout [String]) -> String {
        guard let text = node.messages[kind] else { return "" }
        keys.append(Self.key(".message", pattern))
        return " Otherwise the client reads: \"\(text.value)\""
    }

    func note(_ words: [RuleWords]) -> String { words.contains(where: \.isOrdered) ? RuleWords.orderNote : "" }
}

/// Upper case for the first letter of a sentence, unless it is a name.
func capitalized(_ text: String) -> String {
    guard let first = text.first, first.isLetter else { return text }
    return first.uppercased() + text.dropFirst()
}
