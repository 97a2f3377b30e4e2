/// All steps that one walker has reported: followers must see them in this order and once each.
struct History: Sendable {
    struct Step: Sendable {
        let fix: Walk.Fix
        /// Monotonic clock when the write was handed to the client.
        let sentNs: UInt64
    }

    private(set) var steps: [Step] = []

    mutating func add(_ fix: Walk.Fix, sentNs: UInt64) { steps.append(Step(fix: fix, sentNs: sentNs)) }
}

/// One follower's check of one walker. Positions are recognised by their exact coordinates: each differs from the one
/// before it, so a missing one is noticed at the next.
struct Trail: Sendable {
    /// The step to be seen next.
    private(set) var next = 0

    enum Verdict: Equatable {
        case expected(step: Int)
        /// This many steps before it have not been seen.
        case skipped(Int, step: Int)
        /// It was seen before.
        case again
        /// The walker has not reported it.
        case unknown
    }

    mutating func judge(latitude: Double, longitude: Double, _ history: History) -> Verdict {
        func fits(_ step: Int) -> Bool { history.steps[step].fix.latitude == latitude && history.steps[step].fix.longitude == longitude }
        if next < history.steps.count, fits(next) {
            next += 1
            return .expected(step: next - 1)
        }
        if let later = (next..<history.steps.count).first(where: fits) {
            let missed = later - next
            next = later + 1
            return .skipped(missed, step: later)
        }
        return (0..<min(next, history.steps.count)).contains(where: fits) ? .again : .unknown
    }
}
