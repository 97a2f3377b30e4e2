import JSONTree
import Testing
import TestSupport

/// Broken texts of every kind: never a crash, and both readers accept the same texts as JSON.
@Suite(.timeLimit(.minutes(30))) struct JSONFuzzTests {
    @Test(arguments: 1...8) func mutatedTexts_anyChange_areReadOrRefused(seed: Int) throws {
        var random = SeededRandom(UInt64(seed) &* 1_000_003)
        let pieces = [
            "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u", "\\ud83d", "null", "true", "-", "1e", ".sv", "\".sv\":\"timestamp\"",
            "\".value\":", "\".priority\":", "0", "9223372036854775808", "\u{0}", " ",
        ]
        var (read, refused) = (0, 0)
        for _ in 0..<400 {
            var bytes = Array(random.node(depth: 3).json.utf8)
            for _ in 0...random.below(3) {
                let at = random.below(bytes.count + 1)
                switch random.below(5) {
                case 0: bytes.insert(UInt8(truncatingIfNeeded: random.next()), at: at)
                case 1: bytes.insert(contentsOf: random.pick(pieces).utf8, at: at)
                case 2 where at < bytes.count: bytes[at] ^= 1 << UInt8(random.below(8))
                case 3 where at < bytes.count: bytes.removeSubrange(at..<min(bytes.count, at + 1 + random.below(8)))
                default: bytes.removeLast(min(bytes.count, random.below(4)))
                }
            }
            let skipped = Result { try Parsed.skip(bytes) }
            switch Result(catching: { try Parsed.write(bytes) }) {
            case .success(let value):
                read += 1
                #expect(throws: Never.self) { try skipped.get() }
                let node = value.resolved(current: 1, now: 1)
                #expect(try Node(json: node.json) == node)
                #expect(NaiveTree(try Node(json: node.json)) == NaiveTree(node))
            case .failure(let error):
                refused += 1
                let fault = try #require(error as? JSONError)
                #expect((0...bytes.count).contains(fault.offset))
                // A text refused for its meaning may be broken after the fault; a broken one is broken for both.
                if fault.isMalformed { #expect(throws: JSONError.self) { try skipped.get() } }
            }
        }
        #expect(read > 0 && refused > 0)
    }
}
