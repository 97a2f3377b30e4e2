import Testing

@testable import SQLiteJournal

/// The disk share of a snapshot, or of removing the data it replaces, in proportion to the commits.
@Suite(.timeLimit(.minutes(30))) struct SnapshotPaceTests {
    private let settings = JournalStore.Settings()
    private let millisecond: Int64 = 1_000_000
    private var written = WrittenBytes(bytes: 1 << 30, batches: 1000)

    private mutating func commit(bytes: Int) {
        written.bytes += bytes
        written.batches += 1
    }

    @Test func withoutCommits_sliceFollowsSlice() {
        var pace = SnapshotPace(written)
        for i in 1...3 {
            pace.beganNs = Int64(i) * millisecond
            #expect(pace.bytes(settings) == (i == 1 ? 256 << 10 : settings.sliceBytes))
            #expect(pace.pauseNs(after: 256 << 10, written, now: Int64(i + 1) * millisecond) == 0)
        }
    }

    @Test mutating func besideCommits_itPausesTwiceItsTime_andNoLongerThan50Milliseconds() {
        var pace = SnapshotPace(written)
        commit(bytes: 256 << 10)
        #expect(pace.pauseNs(after: 256 << 10, written, now: 3 * millisecond) == 6 * millisecond)
        pace.beganNs = 10 * millisecond
        #expect(pace.pauseNs(after: 256 << 10, written, now: 11 * millisecond) == 0, "none came meanwhile")
        commit(bytes: 1)
        #expect(pace.pauseNs(after: 256 << 10, written, now: 100 * millisecond) == 50 * millisecond)
        #expect(pace.bytes(settings) == 256 << 10)
    }

    @Test mutating func besideCommitsThatWriteMore_itDoesNotPause_andStoresAsMuchAsASlice() {
        var pace = SnapshotPace(written)
        commit(bytes: (256 << 10) + 1)
        #expect(pace.pauseNs(after: 256 << 10, written, now: millisecond) == 0)
        #expect(pace.bytes(settings) == settings.sliceBytes)
        // It has caught up.
        commit(bytes: 1)
        #expect(pace.pauseNs(after: 1 << 20, written, now: millisecond) == 2 * millisecond)
        #expect(pace.bytes(settings) == 256 << 10)
    }

    /// However rarely its turn comes.
    @Test mutating func besideMuchThatIsWritten_eachStepMakesUpForIt() {
        var pace = SnapshotPace(written)
        var done = 0
        let before = written.bytes
        for _ in 0..<100 {
            let bytes = pace.bytes(settings)
            // Between two steps, twelve transactions of others.
            for _ in 0..<12 { commit(bytes: 1 << 20) }
            #expect(pace.pauseNs(after: bytes, written, now: millisecond) == 0)
            done += bytes
            #expect(written.bytes - before - done <= 12 << 20)
        }
        #expect(pace.bytes(settings) <= 13 << 20)
        // A single write of 300 MB is made up for in steps short enough for commits to wait for.
        commit(bytes: 300 << 20)
        _ = pace.pauseNs(after: 0, written, now: millisecond)
        #expect(pace.bytes(settings) == 16 * settings.sliceBytes)
    }

    @Test func aStep_isNotLargerThanASlice() {
        var settings = settings
        settings.sliceBytes = 1000
        #expect(SnapshotPace(written).bytes(settings) == 1000)
    }
}
