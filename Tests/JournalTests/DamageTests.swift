import GRDB
import JSONTree
import Testing

@testable import Journal

/// What was changed behind the journal's back is refused, with the place, and never half read.
@Suite struct DamageTests {
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
        "UPDATE chunk SET entries = zeroblob(length(entries)) WHERE number = 0",
        "UPDATE chunk SET number = 7 WHERE number = 0",
        "DELETE FROM chunk",
        "UPDATE namespace SET snapshot_chunks = snapshot_chunks + 1",
        "UPDATE namespace SET snapshot_sequence = snapshot_sequence + 1",
    ]

    /// Commits 1–20 in a snapshot, 21–30 behind it.
    private func filled(_ folder: TemporaryFolder) async throws {
        var store = try JournalStore.open(folder: folder.path)
        var journal = store.journal(for: "main")
        func batch(_ i: UInt64) -> JournalBatch { JournalBatch(sequence: i, after: i - 1, operations: [.set("n", .int(Int64(i)))]) }
        for i in UInt64(1)...20 { try await journal.store(batch(i)) }
        try await journal.finish(JournalSnapshot(root: ["n": 20], sequence: 20))
        try store.close()
        store = try JournalStore.open(folder: folder.path)
        journal = store.journal(for: "main")
        for i in UInt64(21)...30 { try await journal.store(batch(i)) }
        try store.close()
    }

    private func make(_ change: String, in folder: TemporaryFolder) throws {
        let other = try DatabaseQueue(path: folder.path + "/vigla.sqlite")
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

    @Test func entries_thatAreNone_areRefused() {
        for text in ["", "{}", "[1]", "[[]]", "[[\"s\"]]", "[[\"s\",\"a\"]]", "[[\"x\",\"a\",1]]", "[[\"s\",\"a.b\",1]]", "[[\"s\",\"a\",1,2]]", "[[\"s\",1,1]]",
            "[[\"s\",\"a\",{\".sv\":\"timestamp\"}]]", "[[\"s\",\"a\",1]", "[[\"s\",\"a\",1]]x", "[[\"o\",\"s\"]]", "[[\"o\",\"s\",\"n\",\"a\",1]]", "[[\"i\",\"s\",null]]", "[[\"f\"]]", "[[\"c\",\"s\"]]"]
        {
            #expect(throws: EntryFault.self) {
                var state = DurableState()
                try Array(text.utf8).withUnsafeBytes { try state.apply(entries: $0) }
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
        var random = SplitMix(state: 4)
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
