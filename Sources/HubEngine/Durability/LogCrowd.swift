/// Whether so many commits wait for the log at a time that the net loops had better take many of them together, and how long they pause
/// for that.
///
/// ```
/// commits that waited at a time ── fewer than `crowdCommits` for 20 ms ──► no pause: there is time for each request
///                               └─ as many ──► the loop commits what it has read (`Journal.commitHeld`), answers, and pauses as
///                                              │ long as a batch waits, at most `crowdPauseUs`: the same clients ask again
///                                              ├── the journal is at work already: at most `crowdWaitUs`, and is behind it then
///                                              └── a batch waits for more than `crowdSlowMs`: no pause, requests gather of themselves
/// ```
/// With many writers a turn for a few requests, a wake-up for each answer and a commit of little cost more than the writes do, and what is
/// read while the log is busy waits for it.
struct LogCrowd {
    /// Steady ns.
    private var until: Int64 = .min
    /// ns that a batch waits, on average of the last ones.
    private var waitNs = 0.0

    private static let lastsNs: Int64 = 20_000_000
    private static let batchesOfAverage = 8.0

    /// A batch was handed to the log.
    /// - Parameters:
    ///   - commits: that wait now, with those of the batch.
    ///   - now: steady ns.
    mutating func handedOver(waiting commits: Int, now: Int64, _ limits: EngineLimits) {
        if commits >= limits.crowdCommits { until = now + Self.lastsNs }
    }

    /// A batch has become durable.
    mutating func becameDurable(afterNs ns: Int64) { waitNs += (Double(ns) - waitNs) / Self.batchesOfAverage }

    /// The pause of the loops, in µs, 0 for none; and when it is no longer to be made, whatever the log does until then, steady ns.
    /// - Parameter oldest: when the batch was handed over that has waited longest, steady ns; nil when none waits.
    func pause(behind oldest: Int64?, _ limits: EngineLimits) -> (us: Int, until: Int64) {
        let slowNs = limits.crowdSlowMs * 1_000_000
        guard waitNs <= Double(slowNs) else { return (0, .min) }
        let mostUs = oldest == nil || limits.crowdPauseUs == 0 ? limits.crowdPauseUs : limits.crowdWaitUs
        return (Int(min(waitNs / 1_000, Double(mostUs))), min(until, oldest.map { $0 + slowNs } ?? .max))
    }
}
