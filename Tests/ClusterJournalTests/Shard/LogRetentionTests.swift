import Testing

@testable import ClusterJournal

/// When a snapshot of a shard is due, and which messages of its log are purged.
@Suite(.timeLimit(.minutes(30))) struct LogRetentionTests {
    private var retention = LogRetention(keptBytes: 1_000, retryMs: 500)

    /// A log whose messages have 10 bytes each.
    private func log(_ first: UInt64, _ last: UInt64) -> ShardLog.State {
        ShardLog.State(created: 1, first: first, last: last, bytes: (last + 1 - first) * 10)
    }

    private mutating func step(_ log: ShardLog.State, appliedByAll: UInt64 = .max, nowMs: Int64 = 0) -> LogRetention.Step? {
        retention.nextStep(log, appliedByAll: appliedByAll, nowMs: nowMs)
    }

    private mutating func wrote(upTo sequence: UInt64, bytes: UInt64) {
        retention.wrote(SnapshotPlace(created: 1, complete: LogPlace(sequence: sequence, id: 7)), bytes: bytes)
    }

    @Test mutating func snapshot_isDueOnce_whenTheLogHasGrownByTheKeptBytes() {
        #expect(step(log(1, 99)) == nil)
        #expect(step(log(1, 100)) == .writeSnapshot(behind: 0))
        #expect(retention.isWriting && retention.snapshotEnd == 0)
        #expect(step(log(1, 900)) == nil)
        wrote(upTo: 890, bytes: 0)
        #expect(!retention.isWriting && retention.snapshotEnd == 890)
        #expect(step(log(889, 989)) == nil)
        #expect(step(log(889, 990)) == .writeSnapshot(behind: 890))
    }

    /// A new writer knows no snapshot of the one before.
    @Test mutating func snapshot_ofAPurgedLog_isDue_whenTheRestHasTheKeptBytes() {
        #expect(step(log(500, 598)) == nil)
        #expect(step(log(500, 599)) == .writeSnapshot(behind: 0))
    }

    @Test mutating func snapshot_isDue_whenTheLogHasGrownByHalfOfALargeOne() {
        wrote(upTo: 100, bytes: 4_000)
        #expect(step(log(1, 299)) == nil)
        #expect(step(log(1, 300)) == .writeSnapshot(behind: 100))
    }

    @Test mutating func snapshot_thatWasNotWritten_isDueAgainAfterThePause() {
        #expect(step(log(1, 100), nowMs: 1_000) == .writeSnapshot(behind: 0))
        retention.failed(nowMs: 2_000)
        #expect(step(log(1, 100), nowMs: 2_499) == nil && !retention.isWriting)
        #expect(step(log(1, 100), nowMs: 2_500) == .writeSnapshot(behind: 0))
    }

    @Test mutating func messages_inTheSnapshotAndOnAllHubs_arePurged_exceptTheReserve() {
        wrote(upTo: 500, bytes: 0)
        #expect(step(log(1, 550)) == .purge(upTo: 400))
        #expect(step(log(1, 550), appliedByAll: 300) == .purge(upTo: 200))
        #expect(step(log(1, 550), appliedByAll: 100) == nil)
        #expect(step(log(1, 550), appliedByAll: 0) == nil)
        // At least an eighth of the reserve at a time.
        #expect(step(log(388, 550)) == .purge(upTo: 400))
        #expect(step(log(389, 550)) == nil)
    }

    @Test mutating func messages_areNotPurged_withoutASnapshot_orWhileOneIsWritten() {
        #expect(step(log(1, 99)) == nil)
        wrote(upTo: 500, bytes: 0)
        #expect(step(log(1, 600)) == .writeSnapshot(behind: 500))
        #expect(step(log(1, 550)) == nil)
    }

    @Test mutating func emptyLog_needsNothing() {
        for (first, last) in [(0, 0), (1, 0), (601, 600)] as [(UInt64, UInt64)] { #expect(step(log(first, last)) == nil) }
    }
}
