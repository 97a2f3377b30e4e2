import Testing

@testable import Cryptography

struct KeyDerivationTests {
    /// RFC 7914 §12, except the case that takes 1 GiB.
    @Test(arguments: [
        (
            "", "", 16, 1, 1,
            """
            77d6576238657b203b19ca42c18a0497f16b4844e3074ae8dfdffa3fede21442
            fcd0069ded0948f8326a753a0fc81f17e8d3e0fb2e0d3628cf35e20c38d18906
            """
        ),
        (
            "password", "NaCl", 1024, 8, 16,
            """
            fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162
            2eaf30d92e22a3886ff109279d9830dac727afb94a83ee6d8360cbdfa2cc0640
            """
        ),
        (
            "pleaseletmein", "SodiumChloride", 16384, 8, 1,
            """
            7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2
            d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887
            """
        ),
    ])
    func scrypt_isTheStandards(password: String, salt: String, n: Int, r: Int, p: Int, key: String) throws {
        let derived = try Array(password.utf8).withUnsafeBytes { password in
            try KeyDerivation.scrypt(password, salt: Array(salt.utf8), n: n, r: r, p: p, count: 64)
        }
        #expect(derived.copy == hex(key))
    }

    /// 64 MiB: more than OpenSSL's default limit.
    @Test func scrypt_takesTheMemoryThatItIsTold() throws {
        let derived = try [UInt8](repeating: 1, count: 8).withUnsafeBytes {
            try KeyDerivation.scrypt($0, salt: [2], n: 1 << 16, r: 8, p: 2, count: 32)
        }
        #expect(derived.copy == hex("d6715e1f49985357d5d220d133dfc92991fadf552d10c36ddf406fc0a8e691b0"))
    }

    @Test(arguments: [
        (0, 8, 1), (1, 8, 1), (15, 8, 1), (-16, 8, 1), (16, 0, 1), (16, 8, 0), (16, 8, -1), (.max, 8, 1), (16, .max, 1), (16, 8, .max),
    ])
    func scrypt_isRefused_withParametersOutOfBounds(n: Int, r: Int, p: Int) {
        #expect(throws: CryptographyError.refused) {
            try [1, 2].withUnsafeBytes { try KeyDerivation.scrypt($0, salt: [], n: n, r: r, p: p, count: 32) }
        }
    }

    /// RFC 6070 §2 (SHA-1), except the case of 16,777,216 rounds; RFC 7914 §11 (SHA-256).
    @Test(arguments: [
        (HashFunction.sha1, "password", "salt", 1, "0c60c80f961f0e71f3a9b524af6012062fe037a6"),
        (.sha1, "password", "salt", 2, "ea6c014dc72d6f8ccd1ed92ace1d41f0d8de8957"),
        (.sha1, "password", "salt", 4096, "4b007901b765489abead49d926f721d065a429c1"),
        (
            .sha1, "passwordPASSWORDpassword", "saltSALTsaltSALTsaltSALTsaltSALTsalt", 4096,
            "3d2eec4fe41c849b80c8d83662c0e44a8b291a964cf2f07038"
        ),
        (.sha1, "pass\u{0}word", "sa\u{0}lt", 4096, "56fa6aa75548099dcc37d7f03425e0c3"),
        (
            .sha256, "passwd", "salt", 1,
            """
            55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc
            49ca9cccf179b645991664b39d77ef317c71b845b1e30bd509112041d3a19783
            """
        ),
        (
            .sha256, "Password", "NaCl", 80000,
            """
            4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56
            a1d425a1225833549adb841b51c9b3176a272bdebba1d078478f62b397f33c8d
            """
        ),
    ])
    func pbkdf2_isTheStandards(function: HashFunction, password: String, salt: String, rounds: Int, key: String) throws {
        let derived = try Array(password.utf8).withUnsafeBytes {
            try KeyDerivation.pbkdf2(function, $0, salt: Array(salt.utf8), rounds: rounds, count: hex(key).count)
        }
        #expect(derived.copy == hex(key))
    }

    @Test(arguments: [0, -1, .min, .max]) func pbkdf2_isRefused_withRoundsOutOfBounds(rounds: Int) {
        #expect(throws: CryptographyError.refused) {
            try [1, 2].withUnsafeBytes { try KeyDerivation.pbkdf2(.sha256, $0, salt: [], rounds: rounds, count: 32) }
        }
    }

    /// The first two blocks for a key of zeros are the hash key and the tag of test case 13 of the GCM specification (McGrew, Viega).
    @Test func aes256CTR_isTheCipherOfTheCounters() throws {
        let key = SecretBytes([UInt8](repeating: 0, count: 32))
        let stream = try KeyDerivation.aes256CTR([UInt8](repeating: 0, count: 40), key: key).copy
        #expect(Array(stream.prefix(32)) == hex("dc95c078a2408989ad48a21492842087 530f8afbc74536b9a963b4f1c4cb738b"))
        let text = Array("any text, of no whole number of blocks".utf8)
        let hidden = try KeyDerivation.aes256CTR(text, key: key).copy
        #expect(hidden == zip(text, stream).map { $0 ^ $1 })
        #expect(try KeyDerivation.aes256CTR(hidden, key: key).copy == text)
        #expect(throws: CryptographyError.refused) { try KeyDerivation.aes256CTR(text, key: SecretBytes([1, 2, 3])) }
    }
}
