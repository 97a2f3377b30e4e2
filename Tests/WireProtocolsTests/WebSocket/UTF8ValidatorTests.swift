import Testing
import TestSupport
@testable import WireProtocols

@Suite(.timeLimit(.minutes(30))) struct UTF8ValidatorTests {
    /// Decodes by the definition: length from the lead byte, then range checks on the scalar.
    static func naive(_ bytes: [UInt8]) -> Bool {
        var at = 0
        while at < bytes.count {
            let lead = bytes[at]
            let size = lead < 0x80 ? 1 : lead >> 5 == 0b110 ? 2 : lead >> 4 == 0b1110 ? 3 : lead >> 3 == 0b11110 ? 4 : 0
            guard size > 0, at + size <= bytes.count else { return false }
            var scalar = size == 1 ? UInt32(lead) : UInt32(lead) & (0x7F >> UInt32(size))
            for byte in bytes[(at + 1)..<(at + size)] {
                guard byte >> 6 == 0b10 else { return false }
                scalar = scalar << 6 | UInt32(byte & 0x3F)
            }
            let smallest: UInt32 = [0, 0x80, 0x800, 0x10000][size - 1]
            guard scalar >= smallest, scalar <= 0x10FFFF, !(0xD800...0xDFFF).contains(scalar) else { return false }
            at += size
        }
        return true
    }

    static func validated(_ bytes: [UInt8]) -> Bool { bytes.withUnsafeBytes(UTF8Validator.isValid) }

    @Test func everySequenceOfTwoBytes_agreesWithTheNaiveDecoder() {
        for first in UInt8.min...UInt8.max {
            let wrong = (UInt8.min...UInt8.max).filter { Self.validated([first, $0]) != Self.naive([first, $0]) }
            #expect(wrong.isEmpty, "after \(first)")
            #expect(Self.validated([first]) == Self.naive([first]))
        }
    }

    @Test func randomBytes_agreeWithTheNaiveDecoder_wholeAndInPieces() {
        var generator = SeededRandom(6455)
        let interesting: [UInt8] = [0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xDF, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5]
        var valid = 0
        for _ in 0..<fuzzRounds(10_000) {
            var bytes: [UInt8] = []
            for _ in 0..<generator.below(6) {
                switch generator.below(4) {
                case 0: bytes.append(interesting[generator.below(interesting.count)])
                case 1: bytes += Array(repeating: 0x61, count: generator.below(20))
                default:
                    let scalar = Unicode.Scalar(UInt32(generator.below(0x11_0000))) ?? "é"
                    bytes += Array(String(scalar).utf8)
                }
            }
            if generator.below(3) == 0 { bytes = mutated(bytes, &generator) }
            let expected = Self.naive(bytes)
            valid += expected ? 1 : 0
            var validator = UTF8Validator()
            let whole = randomPieces(bytes, &generator).allSatisfy { $0.withUnsafeBytes { validator.consume($0) } }
            let inPieces = whole && validator.isAtBoundary
            if Self.validated(bytes) != expected || inPieces != expected { Issue.record("\(bytes)") }
        }
        #expect(valid > fuzzRounds(10_000) / 6 && valid < fuzzRounds(10_000) * 5 / 6, "both kinds must occur")
    }
}
