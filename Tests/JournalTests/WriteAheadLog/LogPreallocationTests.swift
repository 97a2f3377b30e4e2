import Dispatch
import Foundation
import JSONTree
import Synchronization
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

/// Preallocated log space: when it is added, and that it is never taken for commits.
@Suite(.timeLimit(.minutes(30))) struct LogPreallocationTests {
    private static let bytes = Int64(LogPreallocation.bytes)

    // MARK: The value

    @Test func smallGrowth_hasRoomInWholePages() {
        var room = LogPreallocation()
        room.wrote(upTo: 32)
        room.wrote(upTo: 4_152)
        let due = room.due()
        #expect(due == 4_152..<135_168)
        #expect(room.due() == nil, "has it already")
        room.wrote(upTo: 135_168)
        #expect(room.due() == nil, "lies in it")
        room.wrote(upTo: 135_192)
        #expect(room.due() == 135_192..<266_240)
    }

    @Test func largeGrowth_hasNone() {
        var room = LogPreallocation(length: 8_192)
        room.wrote(upTo: 8_192 + Self.bytes / 2)
        #expect(room.due() == nil)
        room.wrote(upTo: 8_192 + Self.bytes / 2 + 4_120)
        #expect(room.due() != nil, "counts from the last sync")
    }

    @Test func overwriting_hasNone() {
        var room = LogPreallocation(length: 1_000_000)
        for end: Int64 in [32, 4_152, 1_000_000] { room.wrote(upTo: end) }
        #expect(room.due() == nil)
    }

    @Test func disksThatRefuseIt_areAskedOnce() {
        var room = LogPreallocation()
        room.wrote(upTo: 4_152)
        #expect(room.due() != nil)
        room.couldNotBeStored()
        room.wrote(upTo: 400_000)
        _ = room.due()
        room.wrote(upTo: 404_120)
        #expect(room.due() == nil)
    }

    /// SQLite's unix files write less than 128 KiB at a time, and ignore a write of exactly that many.
    @Test func room_isOfASizeThatSQLiteWrites() throws {
        for frames in Int64(1)...2_000 {
            var room = LogPreallocation(length: 32 + 4_120 * (frames - 1))
            room.wrote(upTo: 32 + 4_120 * frames)
            let found = room.due()
            let due = try #require(found)
            #expect(due.count < 128 << 10 && due.count > 120 << 10 && due.upperBound % 4_096 == 0)
        }
    }

    @Test func shortenedFile_growsAgain() {
        var room = LogPreallocation(length: 1_000_000)
        room.found(0)
        room.wrote(upTo: 4_152)
        #expect(room.due() == 4_152..<135_168)
    }

    // MARK: The log

    private static func length(_ folder: TemporaryFolder) throws -> Int {
        try #require(FileManager.default.attributesOfItem(atPath: folder.path + "/vigla.sqlite-wal")[.size] as? Int)
    }

    /// The number of different file lengths after 100 commits.
    private static func lengths(_ durability: Durability) throws -> Int {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: .init(durability: durability))
        let journal = store.journal(for: "main")
        var found: Set<Int> = []
        for i in UInt64(1)...100 {
            try journal.commit(.small(i))
            found.insert(try length(folder))
        }
        try store.close()
        return found.count
    }

    @Test func commitsThatAreSynced_mostlyOverwrite() throws {
        #expect(try Self.lengths(.full) <= 100 / 8)
    }

    @Test func commitsThatAreNotSynced_lengthenTheFile() throws {
        #expect(try Self.lengths(.normal) > 60)
    }

    /// A kill leaves the preallocated space after the last commit: neither the log check nor SQLite takes it for an unreadable part.
    @Test func killedStore_beginsWithAllCommits_andGoesOnInTheRoom() throws {
        let (folder, copy) = (try TemporaryFolder(), try TemporaryFolder())
        let store = try JournalStore.open(folder: folder.path)
        let journal = store.journal(for: "main")
        for i in UInt64(1)...20 { try journal.commit(.small(i)) }
        for file in try FileManager.default.contentsOfDirectory(atPath: folder.path) where !file.hasSuffix("-shm") {
            try FileCopy.copy("\(folder.path)/\(file)", "\(copy.path)/\(file)")
        }
        try store.close()

        let before = try Self.length(copy)
        let again = try JournalStore.open(folder: copy.path)
        #expect(again.finding == nil)
        #expect(try again.recover("main").sequence == 20)
        try again.journal(for: "main").commit(.small(21))
        #expect(try Self.length(copy) == before, "lies in the room")
        #expect(again.queue.sync { again.connections.log.discardFailedCommit() })
        #expect(try Self.length(copy) == before, "no failed commit lies behind the last one")
        try again.close()
    }
}

extension Journal {
    /// Appends and waits on this thread: next to all other tests, resuming a task for each of a hundred commits takes minutes.
    fileprivate func commit(_ batch: JournalBatch) throws {
        let done = DispatchSemaphore(value: 0)
        let result = Mutex<Result<Void, JournalError>?>(nil)
        append(batch) { stored in
            result.withLock { $0 = stored }
            done.signal()
        }
        done.wait()
        try result.withLock { $0 }?.get()
    }
}
