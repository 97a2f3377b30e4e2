import Testing

@testable import Cryptography

struct SignatureTests {
    /// RFC 7515 A.2: this kind of signature is deterministic.
    @Test func rs256_isTheStandards() throws {
        let signed = Array(RFC7515.rs256Signed.utf8)
        let signature = base64(RFC7515.rs256Signature)
        #expect(try PublicKey(RFC7515.rsaNumbers).isSignature(signature, of: signed))
        let key = try PrivateKey(der: SecretBytes(base64(RFC7515.rsaDER)))
        #expect(key.kind == .rsa && key.publicKey.numbers == RFC7515.rsaNumbers)
        #expect(try key.sign(signed) == signature)
    }

    /// RFC 7515 A.3: a signature has a random part.
    @Test func es256_isTheStandards() throws {
        let signed = Array(RFC7515.es256Signed.utf8)
        let known = try PublicKey(RFC7515.p256Numbers)
        #expect(known.isSignature(base64(RFC7515.es256Signature), of: signed))
        let key = try PrivateKey(der: SecretBytes(base64(RFC7515.p256DER)))
        #expect(key.kind == .p256 && key.publicKey.numbers == RFC7515.p256Numbers)
        for _ in 0..<50 {
            let signature = try key.sign(signed)
            #expect(signature.count == 64 && known.isSignature(signature, of: signed))
        }
        #expect(try key.sign(signed) != key.sign(signed))
    }

    /// Each bit of a signature counts, and its length.
    @Test(arguments: KeyKind.allCases) func signature_isRefused_whenChanged(kind: KeyKind) throws {
        let (numbers, text, good) =
            kind == .rsa
            ? (RFC7515.rsaNumbers, RFC7515.rs256Signed, base64(RFC7515.rs256Signature))
            : (RFC7515.p256Numbers, RFC7515.es256Signed, base64(RFC7515.es256Signature))
        let key = try PublicKey(numbers)
        let signed = Array(text.utf8)
        #expect(key.isSignature(good, of: signed))
        for bit in 0..<(good.count * 8) {
            var signature = good
            signature[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(!key.isSignature(signature, of: signed), "bit \(bit)")
        }
        for signature in [[], [0], good.dropLast(), good + [0], [0] + good, good + good].map({ Array($0) }) {
            #expect(!key.isSignature(signature, of: signed))
        }
        for byte in [0, 0xff] as [UInt8] { #expect(!key.isSignature([UInt8](repeating: byte, count: good.count), of: signed)) }
        #expect(!key.isSignature(good, of: signed.dropLast()))
        #expect(!key.isSignature(good, of: []))
        #expect(key.isSignature(good, of: signed), "the refusals before spoil nothing")
    }

    /// P-256 signatures with r or s equal to 0 or not below the order (FIPS 186-5 §6.4.2, step 1), and another encoding.
    @Test func es256_isRefused_withNumbersOutOfRange() throws {
        let key = try PublicKey(RFC7515.p256Numbers)
        let good = base64(RFC7515.es256Signature)
        let order = hex("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551")
        let zero = [UInt8](repeating: 0, count: 32)
        let (r, s) = (Array(good.prefix(32)), Array(good.suffix(32)))
        for signature in [zero + s, r + zero, zero + zero, order + s, r + order] {
            #expect(!key.isSignature(signature, of: RFC7515.es256Signed.utf8))
        }
        // The same numbers in DER, as in OpenSSL and certificates.
        let der = [0x30, 69, 0x02, 32] + r + [0x02, 33, 0] + s
        #expect(!key.isSignature(der, of: RFC7515.es256Signed.utf8))
    }

    @Test(arguments: KeyKind.allCases) func key_signsForItselfAlone(kind: KeyKind) throws {
        let (ours, other) = (try PrivateKey.make(kind), try PrivateKey.make(kind))
        #expect(ours.kind == kind && ours.publicKey.numbers != other.publicKey.numbers)
        for text in ["", "a", String(repeating: "long ", count: 10_000)] {
            let signature = try ours.sign(text.utf8)
            #expect(ours.publicKey.isSignature(signature, of: text.utf8))
            #expect(!other.publicKey.isSignature(signature, of: text.utf8))
        }
        guard case .rsa(let modulus, let exponent) = ours.publicKey.numbers else { return }
        #expect(modulus.count == 256 && modulus[0] >= 0x80 && exponent == [1, 0, 1])
    }

    /// More threads than contexts that a key keeps.
    @Test(arguments: KeyKind.allCases) func key_isUsedByManyAtOnce(kind: KeyKind) async throws {
        let key = try PrivateKey.make(kind)
        let all = await withTaskGroup(of: Bool.self) { group in
            for task in 0..<12 {
                group.addTask {
                    (0..<20).allSatisfy { step in
                        guard let signature = try? key.sign("\(task) \(step)".utf8) else { return false }
                        return key.publicKey.isSignature(signature, of: "\(task) \(step)".utf8)
                            && !key.publicKey.isSignature(signature, of: "\(task) other".utf8)
                    }
                }
            }
            return await group.reduce(true) { $0 && $1 }
        }
        #expect(all)
    }
}
