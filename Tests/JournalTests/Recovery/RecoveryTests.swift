import JSONTree
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

@Suite(.timeLimit(.minutes(30))) struct RecoveryTests {
    @Test func recovery_ofANamespaceNeverWritten_isNothing() throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        let recovered = try store.recover("nobody")
        #expect(recovered.root.isNull && recovered.sequence == 0 && recovered.replayed == 0)
        #expect(store.namespaces().isEmpty)
        try store.close()
    }

    @Test(arguments: Durability.allCases) func recovery_afterCloseWithoutSnapshot_isTheModel(durability: Durability) async throws {
        let folder = try TemporaryFolder()
        var expected = Node.null
        var sequence: UInt64 = 0
        for round in 0..<4 {
            let store = try JournalStore.open(folder: folder.path, settings: .init(durability: durability))
            let recovered = try store.recover("main")
            #expect(recovered.root == expected && recovered.sequence == sequence && recovered.replayed == round * 60)
            var writer = Writer(store.journal(for: "main"), from: recovered, seed: UInt64(round))
            try await writer.write(batches: 60)
            (expected, sequence) = (writer.root, writer.sequence)
            try await writer.journal.finish()
            try store.close()
        }
    }

    @Test func recovery_afterCloseWithSnapshot_replaysOnlyWhatCameLater() async throws {
        let folder = try TemporaryFolder()
        var expected = Node.null
        for round in 0..<5 {
            let store = try JournalStore.open(folder: folder.path)
            let recovered = try store.recover("main")
            #expect(recovered.root == expected && recovered.root.hash == expected.hash)
            #expect(recovered.replayed == (round % 2 == 0 && round > 0 ? 30 : 0))
            var writer = Writer(store.journal(for: "main"), from: recovered, seed: UInt64(100 + round))
            try await writer.write(batches: 30)
            expected = writer.root
            try await writer.journal.finish(round % 2 == 0 ? JournalSnapshot(root: writer.root, sequence: writer.sequence) : nil)
            try store.close()
        }
    }

    @Test func recovery_afterAStoreIsDroppedWithoutClose_hasEveryCompletedBatch() async throws {
        let folder = try TemporaryFolder()
        var writer: Writer?
        do {
            let store = try JournalStore.open(folder: folder.path)
            var dropped = Writer(store.journal(for: "main"), seed: 5)
            try await dropped.write(batches: 80)
            // The last commit holds the store until it returns, a moment after its completion; the restart comes after that.
            #expect(try store.recover("main").sequence == dropped.sequence)
            writer = Writer(MemoryJournal(), from: Recovered(root: dropped.root, sequence: dropped.sequence, replayed: 0), seed: 0)
        }
        let store = try JournalStore.open(folder: folder.path)
        let recovered = try store.recover("main")
        #expect(recovered.root == writer?.root && recovered.sequence == writer?.sequence && recovered.replayed == 80)
        try store.close()
    }

    @Test func recovery_ofACopyTakenWhileOpen_hasEveryCompletedBatch() async throws {
        // The state after a power cut: the files as they are, with the log not checkpointed into the database.
        let (folder, copy) = (try TemporaryFolder(), try TemporaryFolder())
        let store = try JournalStore.open(folder: folder.path)
        var writer = Writer(store.journal(for: "main"), seed: 6)
        try await writer.write(batches: 50)
        for name in ["vigla.sqlite", "vigla.sqlite-wal"] { try FileCopy.copy("\(folder.path)/\(name)", "\(copy.path)/\(name)") }
        let second = try JournalStore.open(folder: copy.path)
        let recovered = try second.recover("main")
        #expect(recovered.root == writer.root && recovered.sequence == writer.sequence)
        try second.close()
        try store.close()
    }

    @Test func recovery_ofSeveralNamespaces_keepsThemApart() async throws {
        let folder = try TemporaryFolder()
        let names = ["main", "other", "x-default-rtdb", "é"]
        var roots: [String: (root: Node, sequence: UInt64)] = [:]
        do {
            let store = try JournalStore.open(folder: folder.path)
            var writers = names.enumerated().map { Writer(store.journal(for: $1), seed: UInt64($0)) }
            for _ in 0..<40 {
                for i in writers.indices { try await writers[i].write(batches: 1) }
            }
            try await writers[0].journal.finish(JournalSnapshot(root: writers[0].root, sequence: writers[0].sequence))
            for (name, writer) in zip(names, writers) { roots[name] = (writer.root, writer.sequence) }
            try store.close()
        }
        let store = try JournalStore.open(folder: folder.path)
        #expect(Set(store.namespaces()) == Set(names))
        for name in names {
            let recovered = try store.recover(name)
            #expect(recovered.root == roots[name]?.root && recovered.sequence == roots[name]?.sequence)
            #expect(recovered.replayed == (name == "main" ? 0 : 40))
        }
        try store.close()
    }

    @Test func journal_afterASnapshot_goesOnFromItsSequence() async throws {
        let folder = try TemporaryFolder()
        do {
            let store = try JournalStore.open(folder: folder.path)
            let journal = store.journal(for: "main")
            try await journal.store(JournalBatch(sequence: 7, after: 0, operations: [.set("a", 1)]))
            try await journal.finish(JournalSnapshot(root: ["a": 1], sequence: 7))
            try store.close()
        }
        let store = try JournalStore.open(folder: folder.path)
        let journal = store.journal(for: "main")
        await #expect(throws: JournalError.conflict(expected: 0, last: 7)) {
            try await journal.store(JournalBatch(sequence: 8, after: 0, operations: []))
        }
        try await journal.store(JournalBatch(sequence: 8, after: 7, operations: [.set("a", .null)]))
        let recovered = try store.recover("main")
        #expect(recovered.root.isNull && recovered.sequence == 8)
        try store.close()
    }
}
