import GRDB
import JSONTree
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

extension JournalStorage {
    /// Removes a namespace and waits for the completion.
    func remove(_ namespace: String, noting value: [UInt8] = [1]) async throws {
        try await withCheckedContinuation { continuation in
            remove(namespace, noting: JournalSetting("list", value)) { continuation.resume(returning: $0) }
        }.get()
    }
}

/// A namespace is removed with everything of it, and others keep theirs.
@Suite(.timeLimit(.minutes(30))) struct NamespaceRemovalTests {
    @Test func removal_takesContentAndSettings_andNotesASetting() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        let (gone, main) = (store.journal(for: "gone"), store.journal(for: "main"))
        for number in 1...5 {
            try await gone.store(.small(UInt64(number)))
            try await main.store(.small(UInt64(number)))
        }
        try await gone.store(JournalSnapshot(root: .wide(2_000), sequence: 5))
        try await gone.store(.small(6))
        try await store.put([1], "rules", of: "gone")
        try await store.put([2], "rules", of: "main")
        try await store.remove("gone", noting: [7])
        #expect(try store.settings(of: "gone").isEmpty && store.settings(of: "main") == ["rules": [2]])
        #expect(try store.settings(of: nil) == ["list": [7]])
        #expect(store.namespaces() == ["main"] && !store.holds("gone"))
        #expect(try store.recover("gone").sequence == 0)
        #expect(try store.brokenInvariants() == [])
        #expect(try await becomes { try store.count("chunk") == 0 && store.count("batch") == 5 && store.count("namespace") == 1 })
        try await main.store(.small(6))
        try store.expectKept(["n": 6], upTo: 6, in: folder)
    }

    /// What an old client still writes must not become content of the new one.
    @Test func journalFromBefore_isRefused_andANewOneBeginsEmpty() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        let (never, before) = (store.journal(for: "empty"), store.journal(for: "main"))
        try await before.store(.small(1))
        try await store.remove("main")
        try await store.remove("empty")
        await #expect(throws: JournalError.closed) { try await before.store(.small(2)) }
        await #expect(throws: JournalError.closed) { try await never.store(.small(1)) }
        await #expect(throws: JournalError.closed) { try await before.finish() }
        let next = store.journal(for: "main")
        try await next.store(.small(1))
        await #expect(throws: JournalError.closed) { try await before.store(.small(2)) }
        try await next.store(.small(2))
        try store.expectKept(["n": 2], upTo: 2, in: folder)
    }

    /// A snapshot that is being stored writes nothing into a new namespace of the same name.
    @Test func removal_duringASnapshot_endsIt() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        for round in 0..<10 {
            let journal = store.journal(for: "main")
            try await journal.store(.small(1))
            async let snapshot: Void = journal.store(JournalSnapshot(root: .wide(4_000, seed: round), sequence: 1))
            try await Task.sleep(for: .milliseconds(round * 3))
            try await store.remove("main")
            _ = try? await snapshot
            #expect(try store.brokenInvariants() == [])
        }
        let journal = store.journal(for: "main")
        try await journal.store(.small(1))
        #expect(try await becomes { try store.count("chunk") == 0 && store.count("namespace") == 1 })
        try store.expectKept(["n": 1], upTo: 1, in: folder)
    }

    /// The removal waits for a large write that is being stored, and takes it along.
    @Test func removal_behindALargeWrite_takesItsPartsAlong() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
        let journal = store.journal(for: "main")
        async let large: Void = journal.store(JournalBatch(sequence: 1, after: 0, operations: [.set("wide", .wide(500))]))
        async let removal: Void = store.remove("main")
        _ = try? await large
        try await removal
        #expect(try await becomes { try ["part", "batch", "chunk", "namespace"].allSatisfy { try store.count($0) == 0 } })
        try store.close()
    }

    /// The rows of a removed namespace outlive a kill, and go with the next start.
    @Test func rowsThatAKillLeft_goWithTheNextStart() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        let journal = store.journal(for: "gone")
        try await journal.store(.small(1))
        try await store.journal(for: "main").store(.small(1))
        try store.close()
        try folder.change("UPDATE namespace SET name = 'gone.removed.1' WHERE name = 'gone'")
        let next = try JournalStore.open(folder: folder.path)
        #expect(next.namespaces() == ["main"])
        #expect(try await becomes { try next.count("batch") == 1 && next.count("namespace") == 1 })
        try next.expectKept(["n": 1], upTo: 1, in: folder)
    }

    @Test func memory_forgetsTheSettings() async throws {
        let storage = MemoryStorage()
        try await storage.settingStore.put([1], "rules", of: "gone")
        try await storage.remove("gone", noting: [2])
        #expect(try storage.settingStore.settings(of: "gone").isEmpty)
        #expect(try storage.settingStore.settings(of: nil) == ["list": [2]])
    }
}
