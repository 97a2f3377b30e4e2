import Glibc
import GRDB
import JSONTree
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

/// The known end of the log, from the opening on.
@Suite(.timeLimit(.minutes(30))) struct LogWatchTests {
    /// The files as a kill leaves them.
    private func killed(_ folder: TemporaryFolder) throws -> TemporaryFolder {
        let copy = try TemporaryFolder()
        for name in ["vigla.sqlite", "vigla.sqlite-wal", "vigla.mark"] where access("\(folder.path)/\(name)", F_OK) == 0 {
            try FileCopy.copy("\(folder.path)/\(name)", "\(copy.path)/\(name)")
        }
        return copy
    }

    private func frames(_ folder: TemporaryFolder) throws -> Int {
        let descriptor = open(folder.path + "/vigla.sqlite-wal", O_RDONLY)
        guard descriptor >= 0 else { return 0 }
        defer { close(descriptor) }
        return try LogScan(descriptor).sound
    }

    @Test(arguments: [true, false]) func firstCommitThatFails_costsNothingOfTheLaterOnes(isKilled: Bool) async throws {
        let origin = try TemporaryFolder()
        let first = try JournalStore.open(folder: origin.path)
        for i: UInt64 in 1...5 { try await first.journal(for: "main").store(.small(i)) }
        if !isKilled { try first.close() }
        let folder = isKilled ? try killed(origin) : origin
        let found = try frames(folder)
        #expect(isKilled ? found > 5 : found == 0)

        let store = try JournalStore.open(folder: folder.path)
        #expect(try frames(folder) == found, "an opening commits nothing")
        let journal = store.journal(for: "main")
        try await store.database.writeWithoutTransaction {
            try $0.execute(sql: "CREATE TEMP TRIGGER refusal BEFORE INSERT ON batch BEGIN SELECT RAISE(ABORT, 'no'); END")
        }
        await #expect(throws: JournalError.self) { try await journal.store(.small(6)) }
        try await store.database.writeWithoutTransaction { try $0.execute(sql: "DROP TRIGGER refusal") }
        for i: UInt64 in 6...8 { try await journal.store(.small(i)) }

        let last = try killed(folder)
        let again = try JournalStore.open(folder: last.path)
        #expect(try again.recover("main").root == ["n": 8])
        try again.close()
        try store.close()
        if isKilled { try first.close() }
    }
}
