import GRDB
import Glibc
import JSONTree
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

@Suite(.timeLimit(.minutes(30))) struct OpeningTests {
    @Test func folder_missing_isMade() throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path + "/a/b/c")
        try store.close()
        #expect(access(folder.path + "/a/b/c/vigla.sqlite", F_OK) == 0)
    }

    @Test func folder_openTwice_isRefusedWithTheProcess() throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        #expect(throws: JournalError.inUse(folder: folder.path, process: getpid())) { try JournalStore.open(folder: folder.path) }
        let text = JournalError.inUse(folder: "/data", process: 12).description
        #expect(text.contains("/data") && text.contains("process 12") && text.contains("--data"))
        try store.close()
    }

    @Test func folder_heldNoLonger_canBeOpenedAgain() throws {
        let folder = try TemporaryFolder()
        do { _ = try JournalStore.open(folder: folder.path) }
        try JournalStore.open(folder: folder.path).close()
        try JournalStore.open(folder: folder.path).close()
    }

    @Test(
        arguments: [(Durability.full, 2), (.normal, 1)]
    ) func durability_setting_isThePragma(durability: Durability, synchronous: Int) throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: .init(durability: durability))
        let pragmas = try store.database.writeWithoutTransaction { db in
            try ["synchronous", "journal_mode", "user_version", "secure_delete"].map { try String.fetchOne(db, sql: "PRAGMA \($0)") }
        }
        // Deleted data is overwritten.
        #expect(pragmas == ["\(synchronous)", "wal", "\(Schema.format)", "1"])
        try store.close()
    }

    @Test func folder_thatIsAFile_saysSo() throws {
        let folder = try TemporaryFolder()
        try FileCopy.write("x", folder.path + "/file")
        for path in [folder.path + "/file", folder.path + "/file/data"] {
            #expect { try JournalStore.open(folder: path) } throws: {
                isCannotOpen($0) && "\($0)".contains(path) && "\($0)".contains("Not a directory")
            }
        }
    }

    @Test func folder_whereNothingCanBeMade_saysSo() {
        #expect { try JournalStore.open(folder: "/proc/vigla") } throws: {
            isCannotOpen($0) && "\($0)".contains("/proc/vigla") && "\($0)".contains("writable")
        }
        #expect { try JournalStore.open(folder: "/proc/self") } throws: { isCannotOpen($0) && "\($0)".contains("/proc/self/vigla.lock") }
    }

    @Test(.enabled(if: geteuid() != 0, "root may write everywhere")) func folder_readOnly_saysSo() throws {
        let folder = try TemporaryFolder()
        try FileCopy.makeReadOnly(folder.path)
        #expect { try JournalStore.open(folder: folder.path) } throws: { isCannotOpen($0) && "\($0)".contains("Permission denied") }
    }

    @Test func file_thatIsAFolder_cannotBeOpened() throws {
        let folder = try TemporaryFolder()
        try FileCopy.makeFolder(folder.path + "/vigla.sqlite")
        #expect { try JournalStore.open(folder: folder.path) } throws: { isCannotOpen($0) }
    }

    @Test func file_thatIsNoDatabase_isRefused() throws {
        let folder = try TemporaryFolder()
        try FileCopy.write(String(repeating: "not a database ", count: 500), folder.path + "/vigla.sqlite")
        #expect(throws: JournalError.notAJournal(path: folder.path + "/vigla.sqlite")) { try JournalStore.open(folder: folder.path) }
    }

    @Test func file_ofAnotherProgram_isRefusedUntouched() throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/vigla.sqlite"
        let other = try DatabaseQueue(path: path)
        try other.write { try $0.execute(sql: "CREATE TABLE theirs (x)") }
        try other.close()
        #expect(throws: JournalError.notAJournal(path: path)) { try JournalStore.open(folder: folder.path) }
    }

    @Test func file_ofANewerFormat_isRefused() throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        try store.database.writeWithoutTransaction { try $0.execute(sql: "PRAGMA user_version = \(Schema.format + 1)") }
        try store.close()
        #expect(throws: JournalError.newerFormat(path: folder.path + "/vigla.sqlite", found: Schema.format + 1, known: Schema.format)) {
            try JournalStore.open(folder: folder.path)
        }
    }
}
