/// Controls how fast the store's own work (a snapshot, or a removal) proceeds while commits continue.
///
///     no commits                      slice after slice
///     commits                         a chunk, a pause of twice its time, a chunk …
///     commits write more than it      step after step without a pause, each of as many bytes as were written during the one before:
///                                     otherwise the folder would grow by everything written meanwhile
///
/// The time that a step waits for its turn, a processor or the disk does not matter: it makes up for the bytes written while it waited.
struct SnapshotPace: Sendable {
    /// Longest pause between two steps.
    private static let longestPauseNs: Int64 = 50_000_000
    /// Bytes of a step between pauses. A step without a pause exceeds the bytes that it makes up for by this much.
    static let calmBytes = 256 << 10
    /// Maximum size of a step, in slices. Commits wait for it, but no longer than the writes that it makes up for took.
    static let mostSlices = 16

    /// Bytes written since the work began that no step has made up for.
    private(set) var bytesToMakeUp = 0
    /// The total written at the last step.
    private var seen: WrittenBytes
    /// Whether nothing arrived since the last step, or commits write more than this work does.
    private var isFallingBehind = false
    /// When the current step began, ns of the steady clock.
    var beganNs: Int64 = 0

    init(_ written: WrittenBytes) { seen = written }

    /// Target size of the next step in bytes; it stores or removes at least one chunk or row.
    func bytes(_ settings: JournalStore.Settings) -> Int {
        let (slice, calm) = (settings.sliceBytes, min(Self.calmBytes, settings.sliceBytes))
        guard isFallingBehind else { return calm }
        return min(max(bytesToMakeUp + calm, slice), Self.mostSlices * slice)
    }

    /// Accounts for a durable step.
    /// - Parameters:
    ///   - bytes: bytes of the step.
    ///   - written: the total that the work must keep up with.
    /// - Returns: ns until the next step may begin. The slower the disk, the longer: while commits arrive, the work uses a third of the time.
    mutating func pauseNs(after bytes: Int, _ written: WrittenBytes, now: Int64) -> Int64 {
        bytesToMakeUp = max(0, bytesToMakeUp + written.bytes - seen.bytes - bytes)
        isFallingBehind = bytesToMakeUp > 0 || seen.batches == written.batches
        seen = written
        return isFallingBehind ? 0 : min(2 * (now - beganNs), Self.longestPauseNs)
    }
}
