import Testing
import TestSupport

@testable import SQLiteJournal

/// Writes as SQLite makes them to its log, and others, gathered, compared with the same writes made one by one.
@Suite struct FrameGathererTests {
    /// A file that gets the gatherer's output, and one that gets each write immediately.
    private struct Files {
        var gatherer = FrameGatherer()
        var kept: [UInt8] = []
        var (file, plain): ([UInt8], [UInt8]) = ([], [])
        var writes = 0

        private static func put(_ bytes: [UInt8], at offset: Int, in file: inout [UInt8]) {
            if file.count < offset + bytes.count { file += [UInt8](repeating: 0, count: offset + bytes.count - file.count) }
            file.replaceSubrange(offset..<offset + bytes.count, with: bytes)
        }

        mutating func write(_ piece: [UInt8], at offset: Int) {
            Self.put(piece, at: offset, in: &plain)
            let step = piece.withUnsafeBytes { gatherer.step($0, at: Int64(offset)) }
            if step != .pass { kept += piece }
            #expect(kept.count == gatherer.count)
            #expect(gatherer.count <= FrameGatherer.capacity)
            if step == .keep { return }
            flush()
            guard step == .pass else { return }
            gatherer.passed(piece.count, at: Int64(offset))
            Self.put(piece, at: offset, in: &file)
            writes += 1
        }

        mutating func flush() {
            if kept.isEmpty { return }
            Self.put(kept, at: Int(gatherer.start), in: &file)
            writes += 1
            kept = []
            gatherer.written()
        }
    }

    private static func header(isCommit: Bool, _ mark: UInt8) -> [UInt8] {
        [0, 0, 0, 9, 0, 0, 0, isCommit ? 9 : 0] + [UInt8](repeating: mark, count: 16)
    }

    private static func page(_ mark: UInt8, _ bytes: Int = 4096) -> [UInt8] { [UInt8](repeating: mark, count: bytes) }

    @Test func commitOfFivePages_isOneWrite() {
        var files = Files()
        files.write([UInt8](repeating: 1, count: 32), at: 0)
        #expect(files.writes == 1, "the header of the log")
        var offset = 32
        for i: UInt8 in 1...5 {
            files.write(Self.header(isCommit: i == 5, i), at: offset)
            files.write(Self.page(i), at: offset + 24)
            offset += 4120
        }
        #expect(files.writes == 2)
        #expect(files.file == files.plain)
    }

    @Test func commitThatIsLargerThanWhatIsKept_isFewWrites() {
        var files = Files()
        var offset = 32
        for i in 1...200 {
            files.write(Self.header(isCommit: i == 200, 7), at: offset)
            files.write(Self.page(UInt8(i)), at: offset + 24)
            offset += 4120
        }
        #expect(files.writes == 7)
        #expect(files.file == files.plain)
    }

    @Test func headersThatAreWrittenAnew_areNotKept() {
        var files = Files()
        for i in 0..<3 {
            files.write(Self.header(isCommit: i == 2, 1), at: 32 + i * 4120)
            files.write(Self.page(1), at: 56 + i * 4120)
        }
        for i in 0..<3 {
            files.write(Self.header(isCommit: i == 2, 2), at: 32 + i * 4120)
            #expect(files.file == files.plain)
        }
    }

    @Test func logThatBeginsAnew_isGatheredAgain() {
        var files = Files()
        for round: UInt8 in 1...3 {
            files.write([UInt8](repeating: round, count: 32), at: 0)
            let before = files.writes
            for i in 0..<4 {
                files.write(Self.header(isCommit: i % 2 == 1, round), at: 32 + i * 4120)
                files.write(Self.page(round), at: 56 + i * 4120)
            }
            #expect(files.writes == before + 2)
        }
        #expect(files.file == files.plain)
    }

    /// After each commit and each flush the files are equal, for all page sizes and unaligned writes.
    @Test(arguments: 1...40 as ClosedRange<UInt64>) func anyPieces_endInTheFile_asIfWrittenOneByOne(_ seed: UInt64) {
        var random = SeededRandom(seed)
        var files = Files()
        let pageBytes = [512, 4096, 65_536].randomElement(using: &random) ?? 4096
        var offset = 32
        for i in 0..<150 {
            let mark = UInt8(truncatingIfNeeded: i)
            switch Int.random(in: 0..<20, using: &random) {
            case 0..<14:
                let isCommit = Int.random(in: 0..<4, using: &random) == 0
                files.write(Self.header(isCommit: isCommit, mark), at: offset)
                files.write(Self.page(mark, pageBytes), at: offset + 24)
                offset += 24 + pageBytes
                if isCommit { #expect(files.file == files.plain) }
            case 14: files.write(Self.header(isCommit: Bool.random(using: &random), mark), at: offset)
            case 15: files.write(Self.header(isCommit: true, mark), at: Int.random(in: 0...offset, using: &random))
            case 16:
                let piece = Self.page(mark, Int.random(in: 0...pageBytes, using: &random))
                files.write(piece, at: Int.random(in: 0...offset, using: &random))
            case 17: offset = max(32, offset - Int.random(in: 0...3, using: &random) * (24 + pageBytes))
            case 18:
                files.write([UInt8](repeating: mark, count: 32), at: 0)
                offset = 32
            default:
                files.flush()
                #expect(files.file == files.plain)
            }
        }
        files.flush()
        #expect(files.file == files.plain)
    }
}
