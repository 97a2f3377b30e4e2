/// How fast the store does work of its own, a snapshot or the removal of what is not needed any more, beside the commits.
///
///     no commits                      slice after slice
///     commits                         a chunk, a pause of twice its time, a chunk …
///     commits write more than it      step after step without a pause, each of as many bytes as were written during the one before:
///                                     else the folder would grow by all that is written meanwhile
///
/// How long a step waits for its turn, for a processor or for the disk does not matter: it makes up for what was written while it waited.
struct SnapshotPace: Sendable {
    /// Longest pause between two steps.
    private static let longestPauseNs: Int64 = 50_000_000
    /// Bytes of a step between pauses, and by which a step without a pause exceeds what it makes up for.
    static let calmBytes = 256 << 10
    /// Most bytes of a step, in slices. Commits wait for it, but no longer than the writes took that it makes up for.
    static let mostSlices = 16

    /// Bytes written since the work began that no step has made up for.
    private(set) var owed = 0
    /// All that had been written at the last step.
    private var seen: WrittenBytes
    /// Whether nothing came since the last step, or more is written than this does.
    private var mustHurry = false
    /// When the step under way began, ns of the steady clock.
    var beganNs: Int64 = 0

    init(_ written: WrittenBytes) { seen = written }

    /// Bytes that the next step should have; at least one chunk or row is stored or removed in any case.
    func bytes(_ settings: JournalStore.Settings) -> Int {
        let (slice, calm) = (settings.sliceBytes, min(Self.calmBytes, settings.sliceBytes))
        guard mustHurry else { return calm }
        return min(max(owed + calm, slice), Self.mostSlices * slice)
    }

    /// A step is durable.
    /// - Parameters:
    ///   - bytes: of the step.
    ///   - written: all that the work must keep up with.
    /// - Returns: ns until the next one may begin. The slower the disk, the longer: while commits arrive, a third of the time is used.
    mutating func pauseNs(after bytes: Int, _ written: WrittenBytes, now: Int64) -> Int64 {
        owed = max(0, owed + written.bytes - seen.bytes - bytes)
        mustHurry = owed > 0 || seen.batches == written.batches
        seen = written
        return mustHurry ? 0 : min(2 * (now - beganNs), Self.longestPauseNs)
    }
}

/// What the store has written since its start.
struct WrittenBytes: Sendable {
    /// Of operations: in batches, and in parts of large ones when those are stored, whether or not a batch contains them later.
    var bytes = 0
    var batches = 0
}
