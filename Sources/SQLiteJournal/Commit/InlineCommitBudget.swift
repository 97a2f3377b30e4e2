/// Whether commits are quick enough for the appending thread. Slow commits draw their time from an allowance that refills over time.
/// So an occasional slow commit does not move all following ones to another thread. Confined to the journal queue.
struct InlineCommitBudget {
    /// ns that slow commits may still take, as of `reckoned`. While it is negative, no commit runs on the appending thread.
    private var allowance: Int64 = 0
    /// Steady ns; nil before a first commit has shown how quick the disk is.
    private var reckoned: Int64?

    private let settings: JournalStore.Settings

    private static let longestPauseNs: Int64 = 10_000_000_000

    init(_ settings: JournalStore.Settings) { self.settings = settings }

    /// - Parameters:
    ///   - begin: steady ns.
    ///   - end: steady ns.
    ///   - isSeveral: whether more than one write was in it.
    mutating func committed(from begin: Int64, to end: Int64, isSeveral: Bool) {
        allowance = allowance(at: end)
        reckoned = end
        let taken = end - begin
        guard taken > Int64(isSeveral ? settings.inlineCommitSeveralUs : settings.inlineCommitUs) * 1_000 else { return }
        // When it is overdrawn, the larger of both debts counts: commits then run on the queue and cost no other thread anything.
        let left = allowance < 0 ? min(allowance, -taken) : allowance - taken
        allowance = max(left, -Self.longestPauseNs / share)
    }

    func isQuick(at now: Int64) -> Bool { reckoned != nil && allowance(at: now) >= 0 }

    private func allowance(at now: Int64) -> Int64 {
        let most = Int64(settings.inlineCommitBurstUs) * 1_000
        return reckoned.map { min(most, allowance + (now - $0) / share) } ?? most
    }

    private var share: Int64 { Int64(max(1, settings.inlineCommitShare)) }
}
