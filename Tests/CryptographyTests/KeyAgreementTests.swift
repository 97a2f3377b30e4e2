import Testing

@testable import Cryptography

/// Secrets of two keys, and the keys and ciphertexts derived from them, as the standards compute them.
struct KeyAgreementTests {
    /// A key in the form of SEC 1, from its number alone.
    private func key(_ number: String) throws -> PrivateKey {
        try PrivateKey(der: SecretBytes(hex("3031 0201 01 0420") + hex(number) + hex("a00a 0608 2a8648ce3d030107")))
    }

    /// RFC 5903 §8.1.
    @Test func sharedSecret_isTheStandards_fromBothSides() throws {
        let first = try key("C88F01F510D9AC3F70A292DAA2316DE544E9AAB8AFE84049C62A9C57862D1433")
        let second = try key("C6EF9C5D78AE012A011164ACB397CE2088685D8F06BF9BE0B283AB46476BEE53")
        #expect(first.publicKey.point == hex("""
            04 DAD0B65394221CF9B051E1FECA5787D098DFE637FC90B9EF945D0C3772581180 \
            5271A0461CDB8252D61F1C456FA3E59AB1F45B33ACCF5F58389E0577B8990BB3
            """))
        let secret = hex("D6840F6B42F6EDAFD13116E0E12565202FEF8E9ECE7DCE03812464D04B9442DE")
        #expect(try first.sharedSecret(with: second.publicKey).copy == secret)
        #expect(try second.sharedSecret(with: first.publicKey).copy == secret)
    }

    @Test func sharedSecret_isRefused_withAKeyOfAnotherKind() throws {
        let (rsa, p256) = (try PrivateKey.make(.rsa), try PrivateKey.make(.p256))
        #expect(throws: CryptographyError.refused) { try rsa.sharedSecret(with: p256.publicKey) }
        #expect(throws: CryptographyError.refused) { try p256.sharedSecret(with: rsa.publicKey) }
        #expect(rsa.publicKey.point == nil)
    }

    @Test func point_isRefused_unlessItIsOnTheCurveAndWhole() throws {
        let point = try #require(try PrivateKey.make(.p256).publicKey.point)
        #expect(try PublicKey(point: point).point == point)
        var moved = point
        moved[64] ^= 1
        for wrong in [moved, Array(point.dropLast()), point + [0], [2] + point.dropFirst(), [UInt8](repeating: 0, count: 65), []] {
            #expect(throws: CryptographyError.malformedKey) { try PublicKey(point: wrong) }
        }
    }

    /// RFC 5869, appendix A.1 and A.3: their first 32 bytes.
    @Test func hkdf_isTheStandards() {
        let secret = SecretBytes([UInt8](repeating: 0x0B, count: 22))
        let key = KeyDerivation.hkdfSHA256(
            secret: secret, salt: hex("000102030405060708090a0b0c"), info: hex("f0f1f2f3f4f5f6f7f8f9"), count: 32)
        #expect(key.copy == hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"))
        let bare = KeyDerivation.hkdfSHA256(secret: secret, salt: [], info: [], count: 16)
        #expect(bare.copy == hex("8da4e775a563c18f715f802a063c5a31"))
    }

    /// Test case 3 of "The Galois/Counter Mode of Operation".
    @Test func aes128GCM_isTheStandards() throws {
        let key = SecretBytes(hex("feffe9928665731c6d6a8f9467308308"))
        let nonce = hex("cafebabefacedbaddecaf888")
        let sealed = try KeyDerivation.aes128GCM(
            hex("""
                d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72
                1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255
                """), key: key, nonce: nonce)
        #expect(sealed == hex("""
            42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e
            21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985
            4d5c2af327cd64a62cf35abd2ba6fab4
            """))
        #expect(try KeyDerivation.aes128GCM([], key: key, nonce: nonce).count == 16)
        #expect(throws: CryptographyError.refused) { try KeyDerivation.aes128GCM([1], key: SecretBytes([1]), nonce: nonce) }
        #expect(throws: CryptographyError.refused) { try KeyDerivation.aes128GCM([1], key: key, nonce: [1]) }
    }
}
