/// Callers that wait until everything has arrived that the log contained at some moment after their call. A pure value.
///
///     add ─► a check that begins afterwards: the log's last message is the target ─► reached
struct CatchUpWaiters {
    typealias Completion = @Sendable (_ isReached: Bool) -> Void

    private struct Waiter {
        /// The first check that may determine the target. An earlier one may have read the log too early.
        let check: Int
        let untilMs: Int64
        var target: UInt64?
        let done: Completion
    }

    private var waiters: [Waiter] = []

    /// - Parameters:
    ///   - check: the number of the next check.
    ///   - untilMs: when `takeExpired` returns it, steady ms.
    mutating func add(check: Int, untilMs: Int64, _ done: @escaping Completion) {
        waiters.append(Waiter(check: check, untilMs: untilMs, done: done))
    }

    /// Sets the targets that a check has determined.
    mutating func checked(_ number: Int, last: UInt64) {
        for i in waiters.indices where waiters[i].target == nil && waiters[i].check <= number { waiters[i].target = last }
    }

    /// Whether some need a later check than this one.
    func needCheck(after number: Int) -> Bool { waiters.contains { $0.check > number } }

    mutating func takeReached(_ sequence: UInt64) -> [Completion] {
        waiters.isEmpty ? [] : take { $0.target.map { $0 <= sequence } ?? false }
    }

    /// Those whose target is still unknown after a check.
    mutating func takeUnknown(upTo number: Int = .max) -> [Completion] { take { $0.target == nil && $0.check <= number } }
    mutating func takeExpired(_ nowMs: Int64) -> [Completion] { take { $0.untilMs < nowMs } }
    mutating func takeAll() -> [Completion] { take { _ in true } }

    private mutating func take(_ isTaken: (Waiter) -> Bool) -> [Completion] {
        let taken = waiters.filter(isTaken)
        waiters.removeAll(where: isTaken)
        return taken.map(\.done)
    }
}
