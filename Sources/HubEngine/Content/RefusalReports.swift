import JSONTree
import LiveQueries
import SecurityRules

/// Reports refusals to the listener, if there is one and it wants them. Confined to the database queue.
final class RefusalReports {
    private let context: EngineContext
    private let content: Content
    private let listener: (any RefusalListener)?

    /// - Parameter listener: nil when refusals are not reported.
    init(_ context: EngineContext, _ content: Content, _ listener: (any RefusalListener)?) {
        self.context = context
        self.content = content
        self.listener = listener
    }

    /// - Parameters:
    ///   - path: the path; the first one of several writes.
    ///   - question: called when the listener wants the refusal, with the current time.
    func report(_ request: RuledRequest, of path: Path, _ question: (Int64) -> RuleQuestion) {
        context.meter.refusals.add(request, path, content.rules)
        guard let listener else { return }
        let now = context.clock()
        if listener.wantsRefusal(now: now) { listener.refused(request, question(now)) }
    }

    /// A refused read or count of the current content.
    func report(_ request: RuledRequest, readOf path: Path, _ query: Query?, _ identity: Identity, isCount: Bool = false) {
        report(request, of: path) { now in
            let asked = query.map(QueryVariables.init) ?? .none
            return RuleQuestion(
                operation: isCount ? .count(path, asked) : .read(path, asked), rules: content.rules, old: content.root, new: content.root,
                auth: identity.auth, now: now)
        }
    }

    /// A write of the hub itself that is impossible now, such as an expiry that the rules prevent.
    func report(_ fault: ConsequenceFault, at path: Path) {
        report(.write, of: path) { now in
            var question = RuleQuestion(
                operation: .write([path]), rules: content.rules, old: content.root, new: content.root, auth: RuleSet.hubAuth, now: now)
            (question.isOfHub, question.fault) = (true, fault)
            return question
        }
    }
}
