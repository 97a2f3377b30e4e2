/// A condition in words, before it becomes part of a sentence.
indirect enum Phrase {
    /// About the caller: "who is signed in" behind "everybody", and "the user is signed in" as a clause.
    case caller(relative: String, clause: String)
    /// `auth.uid == x`: the caller is the user with this id.
    case user(id: String)
    /// About a value: "`title`", and what holds of it.
    case fact(subject: String, Predicate)
    /// Whether the node of the rule exists before the write (`isNew`) or after it (`isRemoval`).
    case state(State)
    /// A value that was not there before: "`done` becomes true".
    case becomes(subject: String, value: String)
    /// A clause of its own.
    case clause(String)
    /// An expression without words.
    case quote(String, ofCaller: Bool)
    case all([Phrase])
    case any([Phrase])

    enum State {
        /// `!data.exists()`, `data.exists()`, `newData.exists()`, `!newData.exists()`
        case isNew, isStored, isKept, isRemoved

        func clause(_ node: String) -> String {
            switch self {
            case .isNew: "\(node) did not exist before"
            case .isStored: "\(node) existed before"
            case .isKept: "\(node) is not removed"
            case .isRemoved: "\(node) is removed"
            }
        }
    }
}

/// What holds of a value.
enum Predicate {
    case text, number, boolean
    case whole
    /// The number of UTF-16 units of a text.
    case length(Comparison, Int)
    /// Compared with a number.
    case bound(Comparison, String)
    /// `== 'a'`
    case equal(String)
    case has([String])
    /// Another value than before.
    case changes
    /// Any other, such as "begins with "https://"".
    case other(String)
}

extension Phrase {
    /// The phrase as a clause within a sentence.
    /// - Parameter isInner: whether it is a part of "… and …" or "… or …", which then must not be mistaken.
    func clause(isInner: Bool = false) -> String {
        switch self {
        case .caller(_, let clause), .clause(let clause): return clause
        case .user(let id): return "the user's id is \(id)"
        case .becomes(let subject, let value): return "\(subject) becomes \(value)"
        case .fact(let subject, let predicate): return "\(subject) \([predicate].words)"
        case .state(let state): return state.clause("it")
        case .quote(let text, _): return text
        case .all(let parts): return Self.conditions(parts, isInner: isInner)
        case .any(let parts):
            if parts.isEmpty { return "nothing holds" }
            let clauses = Self.alternatives(parts)
            return (isInner && clauses.count > 1 ? "either " : "") + Self.joined(clauses, "or")
        }
    }

    /// The parts of a conjunction, those with an "or" last so that it does not seem to reach further.
    static func conditions(_ parts: [Phrase], isInner: Bool = false) -> String {
        let clauses = Self.clauses(parts.filter { !$0.isAny } + parts.filter(\.isAny))
        if clauses.isEmpty { return "anything holds" }
        let together = !isInner || clauses.count < 2 ? "" : clauses.count == 2 ? "both " : "all of "
        return together + joined(clauses, clauses.dropFirst().contains { $0.hasPrefix("either ") } ? ", and" : "and")
    }

    private var isAny: Bool { if case .any = self { true } else { false } }

    /// The clauses of a conjunction; what holds of one value is said together.
    private static func clauses(_ parts: [Phrase]) -> [String] {
        var clauses: [(subject: String?, predicates: [Predicate], text: String)] = []
        for part in parts {
            guard case .fact(let subject, let predicate) = part else {
                clauses.append((nil, [], part.clause(isInner: true)))
                continue
            }
            if let last = clauses.last, last.subject == subject { clauses[clauses.count - 1].predicates.append(predicate) } else {
                clauses.append((subject, [predicate], ""))
            }
        }
        return clauses.map { clause in clause.subject.map { "\($0) \(clause.predicates.words)" } ?? clause.text }
    }

    /// The clauses of a disjunction; neighbours that compare one value are said together: "`status` is "open" or "closed"".
    private static func alternatives(_ parts: [Phrase]) -> [String] {
        var groups: [(subject: String, values: [String])] = []
        for part in parts {
            let (subject, value): (String?, String) =
                switch part {
                case .fact(let name, .equal(let value)): ("\(name) is", value)
                case .user(let id): ("the user's id is", id)
                case .fact(let name, let predicate): (name, [predicate].words)
                default: (nil, part.clause(isInner: true))
                }
            if let subject, groups.last?.subject == subject { groups[groups.count - 1].values.append(value) } else {
                groups.append((subject ?? "", [value]))
            }
        }
        return groups.map { $0.subject.isEmpty ? $0.values[0] : "\($0.subject) \(joined($0.values, "or"))" }
    }

    /// "a", "a and b", "a, b and c"
    static func joined(_ parts: [String], _ word: String) -> String {
        guard parts.count > 1, let last = parts.last else { return parts.first ?? "" }
        return parts.dropLast().joined(separator: ", ") + (word.hasPrefix(",") ? "" : " ") + word + " " + last
    }
}

extension [Predicate] {
    /// "is a text of at most 60 characters and begins with "x""
    fileprivate var words: String {
        var (kind, lengths, bounds, names, others): (String?, [(Comparison, Int)], [(Comparison, String)], [String], [String])
            = (nil, [], [], [], [])
        func add(_ other: String, to known: String? = nil) {
            // A second kind, which no value has, is said as well.
            if kind == nil || kind == known { kind = other } else if kind != other { others.append("is \(other)") }
        }
        for predicate in self {
            switch predicate {
            case .text: add("a text")
            case .number: if kind != "a whole number" { add("a number") }
            case .boolean: add("true or false")
            case .whole: add("a whole number", to: "a number")
            case .length(let comparison, let count): lengths.append((comparison, count))
            case .bound(let comparison, let value): bounds.append((comparison, value))
            case .equal(let value): others.append("is \(value)")
            case .has(let list): names += list
            case .changes: others.append("changes")
            case .other(let text): others.append(text)
            }
        }
        var words: [String] = []
        let length = Self.range(lengths.map { ($0, String($1)) }).map { range in
            range.hasSuffix(" 1") || range == "1" ? "\(range) character" : "\(range) characters"
        }
        let bound = Self.range(bounds).map { $0.contains(" to ") ? " from \($0)" : " of \($0)" }
        if let kind {
            words.append("is \(kind)" + (length.map { " of \($0)" } ?? "") + (bound ?? ""))
        } else {
            if let length { words.append("has \(length)") }
            words += bounds.map { "is \(Self.words($0.0)) \($0.1)" }
        }
        if !names.isEmpty { words.append("has \(Phrase.joined(names, "and"))") }
        return Phrase.joined(words + others, "and")
    }

    /// "at least 1", "1 to 60", "at least 5 and less than 10"
    private static func range(_ bounds: [(Comparison, String)]) -> String? {
        guard !bounds.isEmpty else { return nil }
        let (least, most) = (bounds.first { $0.0 == .greaterOrEqual }, bounds.first { $0.0 == .lessOrEqual })
        if bounds.count == 2, let least, let most { return "\(least.1) to \(most.1)" }
        return Phrase.joined(bounds.map { $0.0 == .equal ? $0.1 : "\(words($0.0)) \($0.1)" }, "and")
    }

    static func words(_ comparison: Comparison) -> String {
        switch comparison {
        case .equal: ""
        case .notEqual: "not"
        case .less: "less than"
        case .lessOrEqual: "at most"
        case .greater: "more than"
        case .greaterOrEqual: "at least"
        }
    }
}
