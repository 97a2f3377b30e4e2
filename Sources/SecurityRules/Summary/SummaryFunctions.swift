/// The functions of a file, for sentences: a call is quoted, and the functions stand at the end.
final class SummaryFunctions {
    /// What sentences need to know about a function that they quote.
    struct Facts {
        /// Whether it, or a function that it calls, names `auth` or `query`.
        var mentionsCaller = false
        var mentionsQuery = false
        /// Whether it is true only for a signed-in caller.
        var requiresUser = false
        /// Whether it can fail, which makes the rule that calls it not true.
        var mayFail = true
    }

    private let sources: [SourceFunction]
    private var bodies: [String: Expression] = [:]
    /// Found once each: functions that call each other would be visited exponentially often.
    private var known: [String: Facts] = [:]

    init(_ sources: [SourceFunction]) {
        self.sources = sources
        for source in sources { bodies[source.name] = try? ExpressionParser.parse(source.body.value) }
    }

    /// The expression of a function; nil for an unknown one.
    func body(_ name: String) -> Expression? { bodies[name] }

    /// Nil for an unknown function.
    func facts(of name: String) -> Facts? {
        if let facts = known[name] { return facts }
        guard let body = bodies[name], let source = sources.first(where: { $0.name == name }) else { return nil }
        // Also the answer for a function that calls itself: such a file is refused elsewhere.
        known[name] = Facts()
        let words = words(for: source)
        var signedIn = RuleWords.Known()
        let facts = Facts(
            mentionsCaller: mentions("auth", in: body), mentionsQuery: mentions("query", in: body), requiresUser: words.requiresUser(body),
            mayFail: words.phrase(body, &signedIn).mayFail)
        known[name] = facts
        return facts
    }

    /// Whether an expression, or a function that it calls, names `auth` or `query`.
    func mentions(_ variable: String, in expression: Expression) -> Bool {
        var found = false
        expression.forEach { part in
            switch part.kind {
            case .variable(variable): found = true
            case .call(let callee, _):
                guard case .variable(let name) = callee.kind, let facts = facts(of: name) else { return }
                found = found || (variable == "auth" ? facts.mentionsCaller : facts.mentionsQuery)
            default: break
            }
        }
        return found
    }

    private func words(for source: SourceFunction) -> RuleWords {
        RuleWords(WordsContext(role: .function, entry: [], place: [], parameters: source.parameters), functions: self)
    }

    /// "Means: the user is signed in and …"
    var sentences: [PlaceSummary] {
        sources.map { source in
            let words = words(for: source)
            let sentence = RuleSentence(
                kind: .function, text: "Means: \(words.meaning(of: source.body)).", keys: [], quotes: words.quotes)
            return PlaceSummary(place: source.key.value, sentences: [sentence])
        }
    }
}
