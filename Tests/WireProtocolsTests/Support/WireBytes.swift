import Testing
import TestSupport
@testable import WireProtocols

/// Rounds of a fuzz test: `debug` in an unoptimised build, thirty times as many in a release build.
func fuzzRounds(_ debug: Int) -> Int {
    #if DEBUG
        debug
    #else
        debug * 30
    #endif
}

/// Every way to feed `bytes` that must not affect the parsers: whole, byte by byte, and all splits in two.
func feedings(of bytes: [UInt8]) -> [[[UInt8]]] {
    var ways = [[bytes], bytes.map { [$0] }]
    for cut in 0...bytes.count { ways.append([Array(bytes[..<cut]), Array(bytes[cut...])]) }
    return ways
}

/// `bytes` with a few structured faults: flipped bits, replaced, removed, doubled and swapped pieces.
func mutated(_ bytes: [UInt8], _ generator: inout SeededRandom) -> [UInt8] {
    var result = bytes
    for _ in 0...generator.below(3) {
        guard !result.isEmpty else { break }
        let at = generator.below(result.count)
        switch generator.below(6) {
        case 0: result[at] ^= 1 << UInt8(generator.below(8))
        case 1: result[at] = UInt8(truncatingIfNeeded: generator.next())
        case 2: result.remove(at: at)
        case 3: result.insert(contentsOf: result[at..<min(result.count, at + 1 + generator.below(8))], at: at)
        case 4: result.removeSubrange(at..<min(result.count, at + 1 + generator.below(16)))
        default: result.swapAt(at, generator.below(result.count))
        }
    }
    return result
}

/// `bytes` cut at up to three random places.
func randomPieces(_ bytes: [UInt8], _ generator: inout SeededRandom) -> [[UInt8]] {
    var cuts = (0..<generator.below(4)).map { _ in generator.below(bytes.count + 1) }
    cuts = ([0, bytes.count] + cuts).sorted()
    return zip(cuts, cuts.dropFirst()).map { Array(bytes[$0..<$1]) }
}

func utf8(_ text: String) -> [UInt8] { Array(text.utf8) }

func text(_ bytes: some Sequence<UInt8>) -> String { String(decoding: Array(bytes), as: UTF8.self) }
