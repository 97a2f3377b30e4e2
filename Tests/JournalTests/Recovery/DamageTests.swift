import GRDB
import JSONTree
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

/// Data changed outside the journal is refused, with its position, and never partly recovered.
@Suite(.timeLimit(.minutes(30))) struct DamageTests {
    private static let changes = [
        "UPDATE batch SET operations = cast(replace(cast(operations AS TEXT), '\"n\"', '\"m\"') AS BLOB) WHERE sequence = 25",
        "UPDATE batch SET operations = substr(operations, 1, length(operations) - 1) WHERE sequence = 25",
        "UPDATE batch SET operations = 'text' WHERE sequence = 25",
        "UPDATE batch SET checksum = checksum + 1 WHERE sequence = 25",
        "UPDATE batch SET checksum = 'x' WHERE sequence = 25",
        "UPDATE batch SET sequence = 99 WHERE sequence = 30",
        "UPDATE batch SET previous = 3 WHERE sequence = 25",
        "DELETE FROM batch WHERE sequence = 25",
        "DELETE FROM batch WHERE sequence = 21",
        "UPDATE batch SET part = 1 WHERE sequence = 25",
        "UPDATE batch SET more = 1 WHERE sequence = 25",
        "UPDATE batch SET more = 1 WHERE sequence = 30",
        "UPDATE chunk SET entries = zeroblob(length(entries))",
        "UPDATE chunk SET entries = 'text'",
        "UPDATE chunk SET id = id + 1",
        "UPDATE chunk SET namespace = namespace + 1",
        "DELETE FROM chunk",
        "DELETE FROM snapshot",
        "UPDATE snapshot SET sequence = sequence + 1",
        "UPDATE snapshot SET sequence = sequence - 1",
        "UPDATE snapshot SET checksum = checksum + 1",
        "UPDATE snapshot SET manifest = substr(manifest, 1, length(manifest) - 1)",
        "UPDATE snapshot SET manifest = cast(replace(cast(manifest AS TEXT), '[[1,', '[[2,') AS BLOB)",
    ]

    /// Commits 1–20 in a snapshot, 21–30 after it.
    private func filled(_ folder: TemporaryFolder) async throws {
        var store = try JournalStore.open(folder: folder.path)
        var journal = store.journal(for: "main")
        for i in UInt64(1)...20 { try await journal.store(.small(i)) }
        try await journal.finish(JournalSnapshot(root: ["n": 20], sequence: 20))
        try store.close()
        store = try JournalStore.open(folder: folder.path)
        journal = store.journal(for: "main")
        for i in UInt64(21)...30 { try await journal.store(.small(i)) }
        try store.close()
    }

    private func make(_ change: String, in folder: TemporaryFolder) throws {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        let other = try DatabaseQueue(path: folder.path + "/vigla.sqlite", configuration: configuration)
        try other.write { db in
            try db.execute(sql: change)
            #expect(db.changesCount > 0)
        }
        try other.close()
    }

    @Test func recovery_ofTheUnchangedFile_works() async throws {
        let folder = try TemporaryFolder()
        try await filled(folder)
        let store = try JournalStore.open(folder: folder.path)
        let recovered = try store.recover("main")
        #expect(recovered.root == ["n": 30] && recovered.sequence == 30 && recovered.replayed == 10)
        try store.close()
    }

    @Test(arguments: changes) func recovery_ofAChangedRow_isRefused(change: String) async throws {
        let folder = try TemporaryFolder()
        try await filled(folder)
        try make(change, in: folder)
        let store = try JournalStore.open(folder: folder.path)
        #expect { try store.recover("main") } throws: { isCorrupt($0) && "\($0)".contains("namespace main") && "\($0)".contains("restore") }
        try store.close()
    }

    /// Any byte of the file may be flipped: recovery returns the written content, or refuses.
    @Test(arguments: 1...60) func recovery_ofAFlippedBit_isRefusedOrRight(seed: Int) async throws {
        let folder = try TemporaryFolder()
        try await filled(folder)
        var random = SeededRandom(UInt64(seed))
        try FileCopy.change(folder.path + "/vigla.sqlite") { bytes in
            bytes[Int.random(in: 0..<bytes.count, using: &random)] ^= 1 << UInt8.random(in: 0..<8, using: &random)
        }
        try expectRightOrRefused(folder, allowing: [["n": 30]])
    }

    @Test(arguments: 1...20) func recovery_ofATruncatedFile_isRefusedOrRight(seed: Int) async throws {
        let folder = try TemporaryFolder()
        try await filled(folder)
        var random = SeededRandom(UInt64(seed))
        try FileCopy.change(folder.path + "/vigla.sqlite") { bytes in bytes.removeLast(Int.random(in: 1..<bytes.count, using: &random)) }
        try expectRightOrRefused(folder, allowing: [["n": 30]])
    }

    /// SQLite's log as a power cut leaves it: cut anywhere, or with garbage at its end. Everything acknowledged before is recovered.
    @Test(arguments: 1...40) func recovery_ofATornLog_isAPrefixOfTheCommits(seed: Int) async throws {
        let (folder, copy) = (try TemporaryFolder(), try TemporaryFolder())
        let store = try JournalStore.open(folder: folder.path)
        let journal = store.journal(for: "main")
        for i in UInt64(1)...30 {
            try await journal.store(JournalBatch(sequence: i, after: i - 1, operations: [.set("n", .int(Int64(i)))]))
        }
        for name in ["vigla.sqlite", "vigla.sqlite-wal"] { try FileCopy.copy("\(folder.path)/\(name)", "\(copy.path)/\(name)") }
        try store.close()
        var random = SeededRandom(UInt64(seed))
        try FileCopy.change(copy.path + "/vigla.sqlite-wal") { bytes in
            // After its last commit it is empty.
            let end = bytes.lastIndex { $0 != 0 } ?? 0
            let kept = Int.random(in: end / 2..<end, using: &random)
            if seed % 2 == 0 {
                bytes.removeLast(bytes.count - kept)
            } else {
                for i in kept..<bytes.count { bytes[i] = UInt8.random(in: 0...255, using: &random) }
            }
        }
        let again = try JournalStore.open(folder: copy.path)
        let recovered = try again.recover("main")
        #expect(recovered.sequence > 0 && recovered.sequence <= 30 && recovered.root == ["n": .int(Int64(recovered.sequence))])
        try again.close()
    }

    private func expectRightOrRefused(_ folder: TemporaryFolder, allowing roots: [Node]) throws {
        var fault: (any Error)?
        do { try expectRight(folder, allowing: roots) } catch { fault = error }
        guard let fault else { return }
        let text = "\(fault)"
        #expect(
            text.contains("vigla.sqlite") && (text.contains("restore a backup") || text.contains("--data") || text.contains("version")),
            "\(text)")
    }

    private func expectRight(_ folder: TemporaryFolder, allowing roots: [Node]) throws {
        let store = try JournalStore.open(folder: folder.path)
        // A namespace whose row was damaged is not found under its name, so no wrong content can be returned for it.
        if store.namespaces() == ["main"] {
            let recovered = try store.recover("main")
            #expect(roots.contains(recovered.root))
        }
        try store.close()
    }

    @Test func entries_thatAreNone_areRefused() {
        for text in [
            "", "{}", "[1]", "[[]]", "[[\"s\"]]", "[[\"s\",\"a\"]]", "[[\"x\",\"a\",1]]", "[[\"s\",\"a.b\",1]]", "[[\"s\",\"a\",1,2]]",
            "[[\"s\",1,1]]", "[[\"s\",\"a\",{\".sv\":\"timestamp\"}]]", "[[\"s\",\"a\",1]", "[[\"s\",\"a\",1]]x", "[[\"o\",\"s\"]]",
            "[[\"o\",\"s\",\"n\",\"a\",1]]", "[[\"i\",\"s\",null]]", "[[\"f\"]]", "[[\"c\",\"s\"]]", "[[\"r\",\"a\"]]", "[[\"s\",\"a\",1],[\"r\",\"b\",1]]",
        ] {
            #expect(throws: EntryFault.self) {
                try Array(text.utf8).withUnsafeBytes { _ = try [JournalOperation](entries: $0) }
            }
        }
    }

    @Test func checksum_ofTheStandardText_isTheStandardValue() {
        for split in 0...9 {
            let text = Array("123456789".utf8)
            var crc = CRC32()
            text[..<split].withUnsafeBytes { crc.add($0) }
            text[split...].withUnsafeBytes { crc.add($0) }
            #expect(crc.value == 0xCBF4_3926)
        }
    }

    @Test func checksum_ofLongTexts_isTheBitwiseOne() {
        var random = SeededRandom(4)
        for length in [0, 1, 7, 8, 9, 15, 16, 17, 1000] {
            let bytes = (0..<length).map { _ in UInt8.random(in: 0...255, using: &random) }
            var expected: UInt32 = 0xFFFF_FFFF
            for byte in bytes {
                expected ^= UInt32(byte)
                for _ in 0..<8 { expected = expected & 1 == 1 ? expected >> 1 ^ 0xEDB8_8320 : expected >> 1 }
            }
            var crc = CRC32()
            bytes.withUnsafeBytes { crc.add($0) }
            #expect(crc.value == ~expected)
        }
    }
}
