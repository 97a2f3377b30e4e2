import Scheduling

/// Data that the hub derives from the written data by the rules. After a start or a deploy it is built in the background.
public enum DerivedKind: String, Sendable, CaseIterable {
    /// Counters are counted, and wrong ones corrected.
    case counters
    /// Existing copies are indexed.
    case copies
    /// Watches are indexed.
    case watches
    /// Expiring nodes are indexed.
    case expiry
}

/// Progress of building the derived data.
public struct DerivedReport: Sendable, Equatable {
    /// Kinds that are not yet complete.
    public let pending: [DerivedKind]
    /// ms since the last deploy or since building began. When nothing is pending: ms that it took.
    public let ms: Int64

    public init(pending: [DerivedKind], ms: Int64) { (self.pending, self.ms) = (pending, ms) }
}

/// Tracks which derived data is not yet complete, and notifies waiting callers when all of it is. Confined to the database queue.
final class DerivedData: @unchecked Sendable {
    // Sendable: timers only hop back to the queue with it.
    private let context: EngineContext
    private var pending: Set<DerivedKind> = []
    /// When the first pending kind began, steady ms, and how long the last build took.
    private var since: Int64 = 0
    private var tookMs: Int64 = 0
    private var waiting: [Int: @Sendable (DerivedReport) -> Void] = [:]
    private var number = 0
    private var isRestarting = false

    init(_ context: EngineContext) { self.context = context }

    /// Measures again from now, for newly deployed rules.
    /// - Parameter body: begins each kind that the new rules need.
    func restart(_ body: () -> Void) {
        (since, tookMs, isRestarting) = (context.scheduler.steadyMs, 0, true)
        body()
        isRestarting = false
        if pending.isEmpty { notifyAll() }
    }

    func begin(_ kind: DerivedKind) {
        if pending.isEmpty, !isRestarting { since = context.scheduler.steadyMs }
        pending.insert(kind)
    }

    func hold(_ kind: DerivedKind) {
        guard pending.remove(kind) != nil, pending.isEmpty, !isRestarting else { return }
        tookMs = context.scheduler.steadyMs - since
        notifyAll()
    }

    private func notifyAll() {
        let bodies = waiting
        waiting = [:]
        for body in bodies.values { body(report) }
    }

    var report: DerivedReport {
        let ms = pending.isEmpty ? tookMs : context.scheduler.steadyMs - since
        return DerivedReport(pending: DerivedKind.allCases.filter(pending.contains), ms: ms)
    }

    /// Calls back when everything is complete, or after the given time.
    func notify(withinMs most: Int64?, _ body: @escaping @Sendable (DerivedReport) -> Void) {
        if pending.isEmpty || most == 0 { return body(report) }
        number += 1
        waiting[number] = body
        guard let most else { return }
        context.later(ms: most) { [weak self, number] in
            guard let self, let body = waiting.removeValue(forKey: number) else { return }
            body(report)
        }
    }
}
