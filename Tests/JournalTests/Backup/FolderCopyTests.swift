import Dispatch
import Glibc
import GRDB
import JSONTree
import Synchronization
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

/// Copies of a folder that is being written to.
@Suite(.timeLimit(.minutes(30))) struct FolderCopyTests {
    /// One batch of about this many megabytes after another.
    private static func large(_ megabytes: Int) -> [JournalBatch] {
        let value = Node.string(String(repeating: "x", count: 1 << 20))
        return (0..<megabytes).map { i in
            JournalBatch(sequence: UInt64(i + 1), after: UInt64(i), operations: [.set(Path([Key("k\(i)")]), value)])
        }
    }

    @Test func copy_ofSeveralSteps_ends_whileEveryStepIsFollowedByACommit() async throws {
        let (source, target) = (try TemporaryFolder(), try TemporaryFolder())
        let store = try JournalStore.open(folder: source.path)
        let journal = store.journal(for: "main")
        for batch in Self.large(40) { try await journal.store(batch) }
        let steps = Mutex(0)
        let summary = try FolderCopy.make(from: source.path, to: target.path) { _ in
            // A copy that started again after each batch would not end before this does.
            let step = steps.withLock { steps in
                steps += 1
                return steps
            }
            guard step <= 100 else { return }
            let stored = DispatchSemaphore(value: 0)
            journal.append(JournalBatch(
                sequence: UInt64(40 + step), after: UInt64(39 + step), operations: [.set(Path([Key("late")]), .int(Int64(step)))])) { _ in
                stored.signal()
            }
            stored.wait()
        }
        #expect((2...20).contains(steps.withLock { $0 }), "several steps, and each page once")
        #expect(summary.commits["main"] == 40, "as it was at the beginning")
        try store.close()
        let copy = try JournalStore.open(folder: target.path)
        let recovered = try copy.recover("main")
        #expect(recovered.sequence == 40 && recovered.root.childCount == 40)
        try copy.close()
    }

    @Test func copy_overAnOlderDatabase_leavesNothingOfIt() async throws {
        let (source, target) = (try TemporaryFolder(), try TemporaryFolder())
        for (folder, value) in [(source, 1), (target, 2)] as [(TemporaryFolder, Node)] {
            let store = try JournalStore.open(folder: folder.path)
            try await store.journal(for: "main").store(JournalBatch(sequence: 1, after: 0, operations: [.set(.root, value)]))
            try store.close()
        }
        #expect(throws: JournalError.self) { try FolderCopy.make(from: source.path, to: target.path) }
        _ = try FolderCopy.make(from: source.path, to: target.path, replacing: true)
        let copy = try JournalStore.open(folder: target.path)
        #expect(try copy.recover("main").root == 1)
        try copy.close()
    }

    /// A writer counts in the companion first and then in the journal: a consistent copy has at most one more in the companion.
    @Test func companion_isAsItWasAtTheSameMoment() throws {
        let source = try TemporaryFolder()
        let store = try JournalStore.open(folder: source.path)
        let beside = try DatabaseQueue(path: source.path + "/beside.sqlite")
        try beside.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; CREATE TABLE counter (value INTEGER); INSERT INTO "
                + "counter VALUES (0)")
        }
        let journal = store.journal(for: "main")
        let isDone = Atomic<Bool>(false)
        let hasStopped = DispatchSemaphore(value: 0)
        let counted = Atomic<Int>(0)
        DispatchQueue(label: "writer").async {
            var count: UInt64 = 0
            while !isDone.load(ordering: .relaxed) {
                count += 1
                try? beside.write { try $0.execute(sql: "UPDATE counter SET value = ?", arguments: [Int(count)]) }
                let stored = DispatchSemaphore(value: 0)
                journal.append(JournalBatch(sequence: count, after: count - 1, operations: [.set(.root, .int(Int64(count)))])) { _ in
                    stored.signal()
                }
                stored.wait()
                counted.store(Int(count), ordering: .relaxed)
            }
            hasStopped.signal()
        }
        #expect(becomes { counted.load(ordering: .relaxed) >= 5 })
        for _ in 0..<20 {
            let target = try TemporaryFolder()
            let summary = try FolderCopy.make(from: source.path, to: target.path, companions: ["beside.sqlite", "absent.sqlite"])
            let copy = try DatabaseQueue(path: target.path + "/beside.sqlite")
            let value = try copy.read { try Int.fetchOne($0, sql: "SELECT value FROM counter") }
            let main = Int(try #require(summary.commits["main"]))
            #expect(value == main || value == main + 1, "\(String(describing: value)) \(main)")
        }
        isDone.store(true, ordering: .relaxed)
        hasStopped.wait()
        try store.close()
    }

    @Test func companions_areReplacedTogether_andThoseThatAreNotThereAreRemoved() throws {
        let (source, target) = (try TemporaryFolder(), try TemporaryFolder())
        try JournalStore.open(folder: source.path).close()
        for (folder, name) in [(source, "one.sqlite"), (target, "one.sqlite"), (target, "two.sqlite")] {
            try DatabaseQueue(path: folder.path + "/" + name).write {
                try $0.execute(sql: "CREATE TABLE \(folder === source ? "new" : "old") (x)")
            }
        }
        let names = ["one.sqlite", "two.sqlite"]
        #expect(throws: JournalError.self, "without a journal there are data in the target, too") {
            try FolderCopy.make(from: source.path, to: target.path, companions: names)
        }
        _ = try FolderCopy.make(from: source.path, to: target.path, replacing: true, companions: names)
        #expect(try DatabaseQueue(path: target.path + "/one.sqlite").read { try $0.tableExists("new") && !$0.tableExists("old") })
        #expect(access(target.path + "/two.sqlite", F_OK) != 0)
    }

    @Test func folder_withAChangedNameOfANamespace_isRefused() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        try await store.journal(for: "guestbook").store(JournalBatch(sequence: 1, after: 0, operations: [.set(.root, 1)]))
        try store.close()
        try FileCopy.change(folder.path + "/" + JournalStore.fileName) { bytes in
            guard let at = bytes.firstRange(of: Array("guestbook".utf8)) else { return }
            bytes[at.lowerBound] ^= 1
        }
        #expect(throws: JournalError.self) { try JournalStore.open(folder: folder.path) }
    }
}
