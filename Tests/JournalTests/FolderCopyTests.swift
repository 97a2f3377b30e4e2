import Dispatch
import JSONTree
import Synchronization
import Testing

@testable import Journal

/// Copies of a folder that is written to.
@Suite struct FolderCopyTests {
    /// One batch of about so many megabytes after another.
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
            // A copy that began anew each time would not end before this does.
            let step = steps.withLock { steps in
                steps += 1
                return steps
            }
            guard step <= 100 else { return }
            let stored = DispatchSemaphore(value: 0)
            journal.append(JournalBatch(sequence: UInt64(40 + step), after: UInt64(39 + step), operations: [.set(Path([Key("late")]), .int(Int64(step)))])) { _ in
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
