import JSONTree
import Scheduling
import SecurityRules

/// Charges writes to the budgets of their users, and reports those that exceed one. Confined to the database queue.
final class WriteCharges {
    private let context: EngineContext
    private let content: Content
    private let refusals: RefusalReports
    private var budgets: WriteBudgets
    /// True while repeating requests of a batch that was rolled back. They were counted before.
    var isRepeating = false

    init(_ context: EngineContext, _ content: Content, _ refusals: RefusalReports) {
        self.context = context
        self.content = content
        self.refusals = refusals
        budgets = WriteBudgets(context.limits)
    }

    /// Charges a write before any work is done for it.
    /// - Returns: why it exceeds its budgets; nil when it is within them.
    func charge(_ asked: WriteRequest, _ client: Client) -> Failure? {
        guard budgets.mayCount(content.rules), !isRepeating, asked.cause == nil else { return nil }
        let now = context.scheduler.steadyNs
        guard let excess = budgets.admit(asked.writes, of: client, content.rules, now: now) else { return nil }
        return refused(excess, asked, client)
    }

    /// Charges the consequences of a write, before the commit.
    func charge(_ found: Consequences, of asked: WriteRequest, _ client: Client) throws(Failure) {
        guard !isRepeating, asked.cause == nil else { return }
        guard let excess = budgets.admit(found, of: client, content.rules, now: context.scheduler.steadyNs) else { return }
        throw refused(excess, asked, client)
    }

    private func refused(_ excess: WriteBudgets.BudgetRefusal, _ asked: WriteRequest, _ client: Client) -> Failure {
        context.meter.counters.overBudget += 1
        refusals.report(.overBudget, of: excess.path) { now in
            var question = RuleQuestion(
                operation: .write(asked.writes.map(\.path)), rules: content.rules, old: content.root, new: content.root,
                auth: client.identity.auth, now: now)
            question.budget = excess.budget
            return question
        }
        return excess.failure
    }
}

extension WriteBudgets {
    init(_ limits: EngineLimits) {
        self.init(rate: limits.writeRate, places: limits.ratedPlaces, budgets: limits.ratedBudgets, kept: limits.writeBudgets)
    }
}
