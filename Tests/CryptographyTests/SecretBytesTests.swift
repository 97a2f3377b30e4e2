import Testing

@testable import Cryptography

struct SecretBytesTests {
    @Test func secret_isWhatWasGiven() {
        let secret = SecretBytes([1, 2, 3])
        #expect(secret.count == 3 && secret.copy == [1, 2, 3])
        #expect(SecretBytes([]).copy == [] && SecretBytes(count: 4) { _ in }.copy == [0, 0, 0, 0])
        #expect([1, 2, 3].withUnsafeBytes { SecretBytes($0) }.count == 24)
    }

    @Test func secret_isZeros_whenErased() {
        let secret = SecretBytes((0..<100).map { UInt8($0) })
        secret.erase()
        #expect(secret.copy == [UInt8](repeating: 0, count: 100))
    }

    @Test func comparison_isOfAllBytes() {
        let bytes = (0..<40).map { UInt8($0) }
        #expect(isSameSecret(bytes, bytes) && SecretBytes(bytes).isSame(as: bytes))
        for i in bytes.indices {
            var other = bytes
            other[i] ^= 0x80
            #expect(!isSameSecret(bytes, other) && !SecretBytes(bytes).isSame(as: other))
        }
        #expect(!isSameSecret(bytes, Array(bytes.dropLast())) && !isSameSecret([], [0]) && isSameSecret([], []))
    }
}

struct SecureRandomTests {
    /// The probability of two equal ones is 2^-128.
    @Test func bytes_areOthersEachTime() {
        #expect(Set((0..<1_000).map { _ in SecureRandom.bytes(16) }).count == 1_000)
        #expect(SecureRandom.bytes(0).isEmpty && SecureRandom.bytes(1_000_000).count == 1_000_000)
    }

    /// 62,000 letters: about 1,000 of each. 8 standard deviations away is a fault, not chance.
    @Test func text_hasEachLetterAlike() {
        var counts: [UInt8: Int] = [:]
        for length in [1, 63, 64, 65, 200] + [Int](repeating: 43, count: 1_433) {
            let text = SecureRandom.text(length)
            #expect(text.utf8.count == length)
            for letter in text.utf8 { counts[letter, default: 0] += 1 }
        }
        #expect(counts.count == 62 && counts.values.allSatisfy { 750...1_250 ~= $0 })
        #expect(Set(counts.keys) == Set((0x30...0x39).map { $0 } + (0x41...0x5A).map { $0 } + (0x61...0x7A).map { $0 }))
        #expect(SecureRandom.text(0).isEmpty)
    }

    /// Each bit is set in about half of 4,000 numbers; 12 standard deviations away is a fault, not chance.
    @Test func numbers_haveEachBitHalfTheTime() {
        var random = SecureRandom()
        var counts = [Int](repeating: 0, count: 64)
        for _ in 0..<4_000 {
            let number = random.next()
            for bit in 0..<64 { counts[bit] += Int(number >> UInt64(bit) & 1) }
        }
        #expect(counts.allSatisfy { 1_600...2_400 ~= $0 })
    }
}
