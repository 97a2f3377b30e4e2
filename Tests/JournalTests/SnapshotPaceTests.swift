import JSONTree
import Testing

@testable import Journal
@testable import SQLiteJournal

/// How much of the disk a snapshot uses beside the commits.
@Suite(.timeLimit(.minutes(30))) struct SnapshotPaceTests {
    private let settings = JournalStore.Settings()
    private let state = SnapshotState()
    private let millisecond: Int64 = 1_000_000

    private func commit(bytes: Int) {
        let last = UInt64(state.allBatches)
        state.record(JournalBatch(sequence: last + 1, after: last, operations: [.set("a", 1)]), bytes: bytes)
    }

    @Test func withoutCommits_sliceFollowsSlice() {
        var pace = SnapshotPace(state)
        for i in 1...3 {
            pace.beganNs = Int64(i) * millisecond
            #expect(pace.bytes(settings) == (i == 1 ? 256 << 10 : settings.sliceBytes))
            #expect(pace.pauseNs(after: 256 << 10, state, now: Int64(i + 1) * millisecond) == 0)
        }
    }

    @Test func besideCommits_itPausesTwiceItsTime_andNoLongerThan50Milliseconds() {
        var pace = SnapshotPace(state)
        commit(bytes: 256 << 10)
        #expect(pace.pauseNs(after: 256 << 10, state, now: 3 * millisecond) == 6 * millisecond)
        pace.beganNs = 10 * millisecond
        #expect(pace.pauseNs(after: 256 << 10, state, now: 11 * millisecond) == 0, "none came meanwhile")
        commit(bytes: 1)
        #expect(pace.pauseNs(after: 256 << 10, state, now: 100 * millisecond) == 50 * millisecond)
        #expect(pace.bytes(settings) == 256 << 10)
    }

    @Test func besideCommitsThatWriteMore_itDoesNotPause_andStoresAsMuchAsASlice() {
        commit(bytes: 1 << 30)
        var pace = SnapshotPace(state)
        commit(bytes: (256 << 10) + 1)
        #expect(pace.pauseNs(after: 256 << 10, state, now: millisecond) == 0)
        #expect(pace.bytes(settings) == settings.sliceBytes)
        // It has caught up.
        commit(bytes: 1)
        #expect(pace.pauseNs(after: 1 << 20, state, now: millisecond) == 2 * millisecond)
        #expect(pace.bytes(settings) == 256 << 10)
    }

    @Test func aStep_isNotLargerThanASlice() {
        var settings = settings
        settings.sliceBytes = 1000
        #expect(SnapshotPace(state).bytes(settings) == 1000)
    }
}
