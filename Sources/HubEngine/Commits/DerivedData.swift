import Scheduling

/// What the rules have the hub keep beside what is written, and what it finds out beside the other work after a start or a deploy.
public enum DerivedKind: String, Sendable, CaseIterable {
    /// Counters are counted, and wrong ones corrected.
    case counters
    /// Copies that there are are looked for.
    case copies
    /// Nodes that are to end are looked for.
    case expiry
}

/// How far that is.
public struct DerivedReport: Sendable, Equatable {
    /// What does not hold yet.
    public let pending: [DerivedKind]
    /// ms since the last deploy, or since it began; where nothing is pending, ms that it has taken.
    public let ms: Int64

    public init(pending: [DerivedKind], ms: Int64) { (self.pending, self.ms) = (pending, ms) }
}

/// Knows what of it does not hold yet, and tells when all does. Confined to the database queue.
final class DerivedData: @unchecked Sendable {
    // Sendable: timers only hop back to the queue with it.
    private let context: EngineContext
    private var pending: Set<DerivedKind> = []
    /// When the first of what is pending began, steady ms, and how long the last took.
    private var since: Int64 = 0
    private var tookMs: Int64 = 0
    private var waiting: [Int: @Sendable (DerivedReport) -> Void] = [:]
    private var number = 0
    private var isRestarting = false

    init(_ context: EngineContext) { self.context = context }

    /// Other rules: what is pending counts from now on.
    /// - Parameter body: begins what they have.
    func restart(_ body: () -> Void) {
        (since, tookMs, isRestarting) = (context.scheduler.steadyMs, 0, true)
        body()
        isRestarting = false
        if pending.isEmpty { tellAll() }
    }

    func begin(_ kind: DerivedKind) {
        if pending.isEmpty, !isRestarting { since = context.scheduler.steadyMs }
        pending.insert(kind)
    }

    func hold(_ kind: DerivedKind) {
        guard pending.remove(kind) != nil, pending.isEmpty, !isRestarting else { return }
        tookMs = context.scheduler.steadyMs - since
        tellAll()
    }

    private func tellAll() {
        let told = waiting
        waiting = [:]
        for (_, tell) in told { tell(report) }
    }

    var report: DerivedReport {
        let ms = pending.isEmpty ? tookMs : context.scheduler.steadyMs - since
        return DerivedReport(pending: DerivedKind.allCases.filter(pending.contains), ms: ms)
    }

    /// Calls back when all holds, or after a while.
    func tell(withinMs most: Int64?, _ body: @escaping @Sendable (DerivedReport) -> Void) {
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

extension Database {
    /// What does not hold yet of what the rules have the hub keep. On the database queue.
    public var derived: DerivedReport {
        queue.assertCurrent()
        return engine.derived.report
    }

    /// Calls back on the database queue with what does not hold yet of what the rules have the hub keep.
    /// - Parameter wait: ms that it waits for all of it; nil for as long as it takes.
    public func whenDerived(waitMs wait: Int64?, _ body: @escaping @Sendable (DerivedReport) -> Void) {
        queue.async { [engine] in engine.derived.tell(withinMs: wait, body) }
    }
}
