/// Whether so many commits wait for the log that net loops should group them, and how long loops pause for that.
///
/// ```
/// commits waiting at a time ── fewer than `crowdCommits` for 20 ms ──► no pause: there is time for each request
///                           └─ as many ──► the loop commits its requests itself (`Journal.commitHeld`), answers, and pauses as long
///                                          │ as a batch waits, at most `crowdPauseUs`: the same clients send again
///                                          ├── a commit is running already: at most `crowdWaitUs`, as the next one waits behind it
///                                          └── a batch waits for more than `crowdSlowMs`: no pause, requests group by themselves
/// ```
/// With many writers, a turn for a few requests, a wake-up per answer and a small commit cost more than the writes themselves. And requests
/// read while the log is busy wait for it anyway.
struct GroupCommitPacer {
    /// End of the crowded period, steady ns.
    private var until: Int64 = .min
    /// Average wait of a batch in ns, over the last ones.
    private var waitNs = 0.0

    private static let lastsNs: Int64 = 20_000_000
    private static let batchesOfAverage = 8.0

    /// A batch was handed to the log.
    /// - Parameters:
    ///   - commits: commits waiting now, those of the batch included.
    ///   - now: steady ns.
    mutating func handedOver(waiting commits: Int, now: Int64, _ limits: EngineLimits) {
        if commits >= limits.crowdCommits { until = now + Self.lastsNs }
    }

    /// A batch has become durable.
    mutating func becameDurable(afterNs ns: Int64) { waitNs += (Double(ns) - waitNs) / Self.batchesOfAverage }

    /// The pause of the loops in µs, 0 for none; and the steady ns after which it no longer applies, whatever the log does until then.
    /// - Parameter oldest: when the longest waiting batch was handed over, steady ns; nil when none waits.
    func pause(behind oldest: Int64?, _ limits: EngineLimits) -> (us: Int, until: Int64) {
        let slowNs = limits.crowdSlowMs * 1_000_000
        guard waitNs <= Double(slowNs) else { return (0, .min) }
        let mostUs = oldest == nil || limits.crowdPauseUs == 0 ? limits.crowdPauseUs : limits.crowdWaitUs
        return (Int(min(waitNs / 1_000, Double(mostUs))), min(until, oldest.map { $0 + slowNs } ?? .max))
    }
}
