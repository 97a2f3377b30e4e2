/// How fast the store does work of its own, a snapshot or the removal of what it replaces, beside the commits.
///
///     no commits                      slice after slice
///     commits                         a chunk, a pause of twice its time, a chunk …
///     commits write more than it      slice after slice without a pause: else the folder would grow by all that is written meanwhile
struct SnapshotPace: Sendable {
    /// Longest pause between two steps.
    private static let longestPauseNs: Int64 = 50_000_000
    /// Bytes of a step between pauses.
    static let calmBytes = 256 << 10

    /// Bytes of the work so far.
    private var done = 0
    /// Bytes and batches that had been journalled when the work began, and at its last step.
    private let before: Int
    private var seenBatches: Int
    /// Whether none came since the last step, or commits write more than this does.
    private var mustHurry = false
    /// When the step under way began, ns of the steady clock.
    var beganNs: Int64 = 0

    init(_ state: SnapshotState) { (before, seenBatches) = (state.allBytes, state.allBatches) }

    /// Bytes that the next step should have; at least one chunk or row is stored or removed in any case.
    func bytes(_ settings: JournalStore.Settings) -> Int { mustHurry ? settings.sliceBytes : min(Self.calmBytes, settings.sliceBytes) }

    /// A step is durable.
    /// - Returns: ns until the next one may begin. The slower the disk, the longer: while commits arrive, a third of the time is used.
    mutating func pauseNs(after bytes: Int, _ state: SnapshotState, now: Int64) -> Int64 {
        done += bytes
        mustHurry = state.allBytes - before > done || seenBatches == state.allBatches
        seenBatches = state.allBatches
        return mustHurry ? 0 : min(2 * (now - beganNs), Self.longestPauseNs)
    }
}
