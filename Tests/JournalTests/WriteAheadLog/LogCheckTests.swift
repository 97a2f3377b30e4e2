import Dispatch
import Foundation
import GRDB
import JSONTree
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

/// SQLite's log with a change in it: everything acknowledged is recovered, or the start is refused with a reason.
@Suite(.timeLimit(.minutes(30))) struct LogCheckTests {
    private static let names = ["vigla.sqlite", "vigla.sqlite-wal", "vigla.mark"]
    private static func batch(_ i: UInt64) -> JournalBatch {
        JournalBatch(sequence: i, after: i - 1, operations: [.set("n", .int(Int64(i))), .set(Path([Key("k\(i)")]), "text")])
    }

    private static func content(_ last: UInt64) -> Node {
        var root = Node.null
        for i in 1...last { for operation in batch(i).operations { root.apply(operation) } }
        return root
    }

    /// The files that a kill leaves after 50 acknowledged commits, without their locks.
    private func killed(_ copiedAfter: UInt64? = nil, durability: Durability = .full) async throws -> TemporaryFolder {
        let (folder, copy) = (try TemporaryFolder(), try TemporaryFolder())
        let store = try JournalStore.open(folder: folder.path, settings: .init(durability: durability))
        let journal = store.journal(for: "main")
        var other: DatabaseQueue?
        for i in UInt64(1)...50 {
            try await journal.store(Self.batch(i))
            if i == copiedAfter {
                // SQLite's log is checkpointed into the database, but is not reset while a reader is open.
                other = try reader(of: folder)
                store.queue.sync { store.checkpointer.copy { _ in } }
                #expect(await becomes { store.queue.sync { !store.checkpointer.isCopying } })
            }
        }
        for name in Self.names { try FileCopy.copy("\(folder.path)/\(name)", "\(copy.path)/\(name)") }
        try end(other)
        try store.close()
        return copy
    }

    /// A reader that keeps SQLite from resetting its log as long as it is open.
    private func reader(of folder: TemporaryFolder) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.allowsUnsafeTransactions = true
        let queue = try DatabaseQueue(path: folder.path + "/vigla.sqlite", configuration: configuration)
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "BEGIN")
            _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM batch")
        }
        return queue
    }

    private func end(_ reader: DatabaseQueue?) throws {
        try reader?.writeWithoutTransaction { try $0.execute(sql: "COMMIT") }
        try reader?.close()
    }

    private func twin(_ folder: TemporaryFolder, without name: String? = nil) throws -> TemporaryFolder {
        let copy = try TemporaryFolder()
        for file in Self.names where file != name { try FileCopy.copy("\(folder.path)/\(file)", "\(copy.path)/\(file)") }
        return copy
    }

    private func bytes(_ folder: TemporaryFolder, _ name: String) throws -> Data {
        try Data(contentsOf: URL(fileURLWithPath: "\(folder.path)/\(name)"))
    }

    /// Bytes of the log up to its last commit. Zeros follow: `LogPreallocation`.
    private func end(ofLogIn folder: TemporaryFolder) throws -> Int {
        let descriptor = Glibc.open(folder.path + "/vigla.sqlite-wal", O_RDONLY)
        defer { close(descriptor) }
        let sound = try LogScan(descriptor).sound
        let mark = try #require(LogMarkFile(folder.path + "/vigla.mark", isMade: false).found)
        #expect(sound >= Int(mark.frames), "what is acknowledged is there")
        return 32 + sound * 4120
    }

    /// - Returns: the last commit; nil if the start was refused.
    private func open(_ folder: TemporaryFolder, acceptingLoss: Bool = false) throws -> UInt64? {
        do {
            let store = try JournalStore.open(folder: folder.path, settings: .init(acceptsLoss: acceptingLoss))
            let recovered = try store.recover("main")
            #expect(recovered.sequence == 0 ? recovered.root.isNull : recovered.root == Self.content(recovered.sequence))
            try store.close()
            return recovered.sequence
        } catch {
            guard case JournalError.loss = error else { throw error }
            #expect("\(error)".contains("is damaged") && "\(error)".contains("sound") && "\(error)".contains("--accept-loss"))
            return nil
        }
    }

    @Test func log_thatIsWhole_isTaken() async throws {
        let folder = try await killed()
        #expect(try open(twin(folder)) == 50)
        #expect(try open(twin(folder, without: "vigla.mark")) == 50)
        #expect(try open(folder) == 50)
        // Closed and opened again: the mark belongs to a log that no longer exists.
        #expect(try open(folder) == 50)
    }

    @Test func flippedBit_inTheLog_isRefused_orHarmless() async throws {
        let folder = try await killed()
        let size = try end(ofLogIn: folder)
        var random = SeededRandom(7)
        var (refused, accepted) = (0, 0)
        for round in 0..<120 {
            let copy = try twin(folder)
            // In the header, in frame headers, or anywhere.
            let place = switch round % 4 {
            case 0: Int.random(in: 0..<32, using: &random)
            case 1: 32 + Int.random(in: 0..<((size - 32) / 4120), using: &random) * 4120 + Int.random(in: 0..<24, using: &random)
            default: Int.random(in: 0..<size, using: &random)
            }
            let mask = UInt8(1) << UInt8.random(in: 0..<8, using: &random)
            try FileCopy.change(copy.path + "/vigla.sqlite-wal") { $0[place] ^= mask }
            let damaged = try bytes(copy, "vigla.sqlite-wal")
            if let last = try open(copy) {
                #expect(last == 50, "byte \(place)")
                continue
            }
            refused += 1
            #expect(try bytes(copy, "vigla.sqlite-wal") == damaged, "a refusal changes nothing")
            #expect(try open(copy) == nil)
            let last = try #require(try open(copy, acceptingLoss: true))
            #expect(last < 50)
            accepted += 1
            #expect(try bytes(copy, "vigla.sqlite-wal.damaged-1") == damaged)
            // It continues from there, and is not refused again.
            let store = try JournalStore.open(folder: copy.path)
            try await store.journal(for: "main").store(Self.batch(last + 1))
            try store.close()
            #expect(try open(copy) == last + 1)
        }
        #expect(refused > 100, "\(refused)")
    }

    /// The refusal names the commit of the first frame that does not fit: SQLite alone would silently drop 21 of 50 commits.
    @Test func refusal_saysHowFarTheLogIsSound() async throws {
        let folder = try await killed()
        let descriptor = Glibc.open(folder.path + "/vigla.sqlite-wal", O_RDONLY)
        let frames = try LogScan(descriptor).sound
        close(descriptor)
        try FileCopy.change(folder.path + "/vigla.sqlite-wal") { $0[32 + frames / 2 * 4120 + 500] ^= 1 }
        #expect { try JournalStore.open(folder: folder.path) } throws: { error in
            guard case JournalError.loss(let path, let sound, let missing) = error else { return false }
            let commit = sound.split(separator: " ").compactMap { Int($0) }.first ?? 0
            // The frame's transaction, unless the flip hit its last frame, and all later ones.
            let later = missing.split(separator: " ").compactMap { Int($0) }.first ?? 0
            return path.hasSuffix("-wal") && sound.hasPrefix("up to commit ") && sound.hasSuffix("of namespace main")
                && (20...30).contains(commit)
                && (50 - commit - 1...50 - commit).contains(later)
        }
    }

    @Test func log_thatIsShorterOrGone_isRefused() async throws {
        let folder = try await killed()
        let size = try end(ofLogIn: folder)
        var random = SeededRandom(3)
        for round in 0..<30 {
            let copy = try twin(folder)
            let kept = round == 0 ? 0 : round == 1 ? 20 : Int.random(in: 0..<size, using: &random)
            try FileCopy.change(copy.path + "/vigla.sqlite-wal") { $0.removeLast($0.count - kept) }
            #expect(try open(copy) == nil, "\(kept) of \(size) bytes")
            #expect(try #require(try open(copy, acceptingLoss: true)) < 50)
            #expect(try #require(try open(copy)) < 50)
        }
        let copy = try twin(folder, without: "vigla.sqlite-wal")
        #expect(try open(copy) == nil)
        #expect(try open(copy, acceptingLoss: true) == 0)
    }

    /// With an outdated or missing mark after a power cut, at most the last transaction is lost, which may never have reached the disk.
    @Test func flippedBit_withoutAMark_costsAtMostTheLastTransaction() async throws {
        let folder = try await killed()
        let size = try end(ofLogIn: folder)
        var random = SeededRandom(11)
        var refused = 0
        for round in 0..<60 {
            let copy = try twin(folder, without: "vigla.mark")
            if round % 2 == 0 {
                let file = LogMarkFile(copy.path + "/vigla.mark", isMade: true)
                var mark = try #require(LogMarkFile(folder.path + "/vigla.mark", isMade: false).found)
                (mark.frames, mark.commits, mark.boot) = (mark.frames / 2, 25, Array(repeating: 7, count: LogMark.bootBytes))
                file.write(mark)
            }
            let place = Int.random(in: 0..<size, using: &random)
            try FileCopy.change(copy.path + "/vigla.sqlite-wal") { $0[place] ^= 4 }
            if let last = try open(copy) { #expect(last >= 49, "byte \(place)") } else { refused += 1 }
        }
        #expect(refused > 50)
    }

    /// A power cut leaves any pages of the last, unacknowledged transaction.
    @Test func tornEnd_thatWasNotAcknowledged_isTheEnd() async throws {
        let (folder, copy) = (try TemporaryFolder(), try TemporaryFolder())
        let store = try JournalStore.open(folder: folder.path)
        let journal = store.journal(for: "main")
        for i in UInt64(1)...49 { try await journal.store(Self.batch(i)) }
        try FileCopy.copy("\(folder.path)/vigla.mark", "\(copy.path)/vigla.mark")
        let before = try end(ofLogIn: folder)
        try await journal.store(Self.batch(50))
        for name in Self.names.dropLast() { try FileCopy.copy("\(folder.path)/\(name)", "\(copy.path)/\(name)") }
        try store.close()
        let after = try end(ofLogIn: copy)
        #expect(after > before)
        for page in stride(from: before, to: after, by: 4120) {
            for mark in [true, false] {
                let torn = try twin(copy, without: mark ? nil : "vigla.mark")
                try FileCopy.change(torn.path + "/vigla.sqlite-wal") { for i in page + 100..<page + 612 { $0[i] ^= 0xFF } }
                #expect(try open(torn) == 49)
                #expect(try open(torn) == 49)
            }
        }
        // Pages of the file that were not written: empty.
        for page in before / 4096...(after - 1) / 4096 {
            let torn = try twin(copy)
            try FileCopy.change(torn.path + "/vigla.sqlite-wal") { for i in max(before, page * 4096)..<(page + 1) * 4096 { $0[i] = 0 } }
            #expect(try open(torn) == 49)
            #expect(try open(torn) == 49)
        }
    }

    /// Frames of a torn transaction are removed. Otherwise, together with parts of the next torn one, they would look like a lost commit.
    @Test func tornTransaction_isRemovedAtTheStart() async throws {
        let folder = try await killed()
        let sound = try end(ofLogIn: folder)
        let path = folder.path + "/vigla.sqlite-wal"
        // The last frame's page and header again, as the third frame of an unfinished transaction.
        try FileCopy.change(path) { bytes in
            for i in 0..<4120 { bytes[sound + 2 * 4120 + i] = bytes[sound - 4120 + i] }
            for i in 4..<8 { bytes[sound + 2 * 4120 + i] = 0 }
        }
        let admission = try LogCheck.admit(folder.path + "/vigla.sqlite", acceptingLoss: false)
        #expect(admission.finding == nil)
        #expect(try bytes(folder, "vigla.sqlite-wal").count == sound)
        #expect(try open(folder) == 50)
    }

    /// `durability normal` guarantees nothing after a power cut, and everything after a kill.
    @Test func flippedBit_ofALogThatWasNotForced_isRefusedOnlyAfterAKill() async throws {
        let folder = try await killed(durability: .normal)
        try FileCopy.change(folder.path + "/vigla.sqlite-wal") { $0[32 + 60 * 4120] ^= 1 }
        #expect(try open(twin(folder)) == nil)
        let file = LogMarkFile(folder.path + "/vigla.mark", isMade: false)
        var mark = try #require(file.found)
        mark.boot = Array(repeating: 7, count: LogMark.bootBytes)
        file.write(mark)
        #expect(try #require(try open(folder)) < 50)
    }

    /// Much of the log is in the database already: replaying a part of it would go back behind that.
    @Test func flippedBit_inALogThatWasCopied_isRefused_andTheDatabaseCounts() async throws {
        let folder = try await killed(40)
        let mark = try #require(LogMarkFile(folder.path + "/vigla.mark", isMade: false).found)
        #expect(mark.copied == mark.copying && mark.copied > 0 && mark.copied < mark.frames)
        for frame in [1, Int(mark.copied) / 2, Int(mark.copied), Int(mark.copied) + 1, Int(mark.frames) - 1] {
            let copy = try twin(folder)
            try FileCopy.change(copy.path + "/vigla.sqlite-wal") { $0[32 + (frame - 1) * 4120 + 700] ^= 1 }
            #expect(try open(copy) == nil)
            let last = try #require(try open(copy, acceptingLoss: true))
            #expect(last >= 40 && last < 50, "\(frame): \(last)")
        }
        // The mark of a moment later: everything is in the database.
        let copy = try twin(folder)
        let finding = LogCheck.finding(try scan(copy) { $0[32 + 700] ^= 1 }, {
            var whole = mark
            (whole.copied, whole.copying) = (mark.frames, mark.frames)
            return whole
        }())
        #expect(finding == .copied)
    }

    private func scan(_ folder: TemporaryFolder, _ change: (inout [UInt8]) -> Void) throws -> LogScan {
        try FileCopy.change(folder.path + "/vigla.sqlite-wal", change)
        let descriptor = Glibc.open(folder.path + "/vigla.sqlite-wal", O_RDONLY)
        defer { close(descriptor) }
        return try LogScan(descriptor)
    }

    @Test func mark_withAFlippedBit_saysNothing_orWhatItSaidBefore() async throws {
        let folder = try await killed()
        for seed in 0..<30 {
            let copy = try twin(folder)
            var random = SeededRandom(UInt64(seed))
            try FileCopy.change(copy.path + "/vigla.mark") {
                $0[Int.random(in: 0..<$0.count, using: &random)] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            }
            #expect(try open(copy) == 50)
        }
    }

    @Test func backup_ofAFolderWithADamagedLog_isRefused() async throws {
        let folder = try await killed()
        let target = try TemporaryFolder()
        try FileCopy.change(folder.path + "/vigla.sqlite-wal") { $0[32 + 60 * 4120] ^= 1 }
        let damaged = try bytes(folder, "vigla.sqlite-wal")
        #expect { try FolderCopy.make(from: folder.path, to: target.path) } throws: {
            if case JournalError.loss = $0 { true } else { false }
        }
        #expect(try bytes(folder, "vigla.sqlite-wal") == damaged)
        let summary = try FolderCopy.make(from: folder.path, to: target.path, acceptingLoss: true)
        #expect(summary.finding?.contains("going on without them") == true && (summary.commits["main"] ?? 50) < 50)
        // A restored folder is not checked against the previous one.
        let other = try await killed()
        _ = try FolderCopy.make(from: target.path, to: other.path, replacing: true)
        #expect(try open(other) == summary.commits["main"])
    }
}
