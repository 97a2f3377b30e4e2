import GRDB
import JSONTree
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

extension SettingStore {
    /// Stores and waits for the completion.
    func put(_ value: [UInt8]?, _ name: String, of namespace: String? = nil) async throws {
        try await withCheckedContinuation { continuation in put(
            value, setting: name, of: namespace) { continuation.resume(returning: $0) } }.get()
    }
}

@Suite(.timeLimit(.minutes(30))) struct SettingTests {
    private func exercise(_ store: any SettingStore) async throws {
        #expect(try store.settings(of: nil).isEmpty)
        try await store.put([1, 2, 3], "rules", of: "main")
        try await store.put([], "rules", of: "other")
        try await store.put(Array(repeating: 7, count: 100_000), "rules")
        try await store.put([9], "secrets")
        try await store.put([4], "rules", of: "main")
        #expect(try store.settings(of: "main") == ["rules": [4]])
        #expect(try store.settings(of: "other") == ["rules": []])
        #expect(try store.settings(of: nil) == ["rules": Array(repeating: 7, count: 100_000), "secrets": [9]])
        try await store.put(nil, "rules")
        try await store.put(nil, "never there")
        #expect(try store.settings(of: nil) == ["secrets": [9]])
        #expect(try store.settings(of: "third").isEmpty)
    }

    @Test func settings_inMemory_areWhatWasPutLast() async throws { try await exercise(MemorySettings()) }

    @Test func settings_onDisk_areWhatWasPutLastAlsoAfterARestart() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        try await exercise(store)
        try store.close()
        let again = try JournalStore.open(folder: folder.path)
        #expect(try again.settings(of: "main") == ["rules": [4]])
        #expect(try again.settings(of: nil) == ["secrets": [9]])
        #expect(again.namespaces().isEmpty)
        try again.close()
    }

    @Test func settings_ofAClosedJournal_canBePut_ofAClosedStoreNot() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        try await store.journal(for: "main").finish()
        try await store.put([1], "rules", of: "main")
        try store.close()
        await #expect(throws: JournalError.closed) { try await store.put([2], "rules", of: "main") }
        #expect(throws: JournalError.closed) { try store.settings(of: "main") }
    }

    @Test func settings_andBatches_areStoredInTheOrderOfCalls() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        let journal = store.journal(for: "main")
        let completions = Completions()
        await withCheckedContinuation { continuation in
            for i in 1...50 {
                journal.append(
                    JournalBatch(sequence: UInt64(i), after: UInt64(i - 1), operations: []), completion: completions.record(2 * i))
                let record = completions.record(2 * i + 1)
                store.put([UInt8(i)], setting: "n", of: i % 2 == 0 ? nil : "main") { result in
                    record(result)
                    if i == 50 { continuation.resume() }
                }
            }
        }
        #expect(completions.labels == Array(2...101))
        #expect(try store.settings(of: nil) == ["n": [50]] && store.settings(of: "main") == ["n": [49]])
        try store.close()
    }

    /// Small ones, and one that is stored in slices.
    @Test func setting_ofABatch_isStoredWithItOrNotAtAll() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
        let journal = store.journal(for: "main")
        var batch = JournalBatch.small(1)
        batch.setting = JournalSetting("place", [1])
        try await journal.store(batch)
        #expect(try store.settings(of: "main") == ["place": [1]])
        // This batch does not follow the last one.
        batch.setting = JournalSetting("place", [2])
        await #expect(throws: JournalError.self) { try await journal.store(batch) }
        #expect(try store.settings(of: "main") == ["place": [1]])
        var large = JournalBatch(sequence: 2, after: 1, operations: [.set("large", .wide(100))])
        large.setting = JournalSetting("place", [3])
        try await journal.store(large)
        #expect(try store.count("part") > 1)
        try store.close()
        let again = try JournalStore.open(folder: folder.path)
        #expect(try again.settings(of: "main") == ["place": [3]] && again.settings(of: nil).isEmpty)
        #expect(again.marks().mapValues { [$0.last, $0.epoch] } == ["main": [2, 0]])
        try again.close()
    }

    @Test(arguments: [
        "UPDATE setting SET value = x'02' WHERE name = 'rules'", "UPDATE setting SET checksum = checksum + 1",
        "UPDATE setting SET value = 'text'",
        "UPDATE setting SET name = 'roles'", "UPDATE setting SET namespace = 'main' WHERE namespace = 'other'",
    ]) func settings_changedBehindTheStore_areRefusedByName(change: String) async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        try await store.put([1], "rules", of: change.contains("other") ? "other" : "main")
        try await store.database.writeWithoutTransaction { try $0.execute(sql: change) }
        #expect { try store.settings(of: "main") } throws: {
            isCorrupt($0) && "\($0)".contains("setting r") && "\($0)".contains("namespace main")
        }
        try store.close()
    }
}
