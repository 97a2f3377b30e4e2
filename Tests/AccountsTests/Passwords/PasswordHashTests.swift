import Cryptography
import Foundation
import Testing

@testable import Accounts

/// The format of stored hashes, and invalid texts.
@Suite(.timeLimit(.minutes(30))) struct PasswordHashTests {
    let salt = Array("randomsaltis16by".utf8)

    @Test func hash_readsBackAsWritten_allForms() throws {
        let parameters = try #require(ScryptParameters(ln: 15, r: 8, p: 3))
        let some: [UInt8] = (0..<32).map { UInt8($0) }
        for hash in [
            PasswordHash.scrypt(parameters, keyID: nil, salt: salt, hash: some), .scrypt(parameters, keyID: "k1", salt: salt, hash: some),
            .pbkdf2(digest: .sha256, rounds: 600_000, salt: salt, hash: some),
            .firebaseScrypt(parameters1, salt: salt, separator: [7], signerKey: some, hash: some),
        ] {
            #expect(PasswordHash(hash.text) == hash)
        }
        #expect(PasswordHash.scrypt(parameters, keyID: nil, salt: salt, hash: some).text.hasPrefix("$scrypt$ln=15,r=8,p=3$"))
    }

    private var parameters1: ScryptParameters { ScryptParameters(ln: 14, r: 8, p: 1) ?? .standard }

    @Test(arguments: [
        "", "$", "$$$$", "$scrypt$", "scrypt$ln=4,r=8,p=1$AAAA$AAAAAAAAAAAAAAAAAAAAAA",
        "$scrypt$ln=4,r=8$AAAA$AAAAAAAAAAAAAAAAAAAAAA", "$scrypt$r=8,ln=4,p=1$AAAA$AAAAAAAAAAAAAAAAAAAAAA",
        "$scrypt$ln=4,r=8,p=1$AAAA$AAAA", "$scrypt$ln=4,r=8,p=1$AAAA$AAAAAAAAAAAAAAAAAAAAAA==",
        "$scrypt$ln=4,r=8,p=1$A*AA$AAAAAAAAAAAAAAAAAAAAAA",
        "$scrypt$ln=04,r=8,p=1$AAAA$AAAAAAAAAAAAAAAAAAAAAA", "$scrypt$ln=-4,r=8,p=1$AAAA$AAAAAAAAAAAAAAAAAAAAAA",
        "$scrypt$ln=4,r=8,p=1,keyid=a b$AAAA$AAAAAAAAAAAAAAAAAAAAAA", "$scrypt$ln=4,r=8,p=1,more=1$AAAA$AAAAAAAAAAAAAAAAAAAAAA",
        "$scrypt$ln=4,r=8,p=1$AAAA$AAAAAAAAAAAAAAAAAAAAAA$AAAA", "$scrypt$ln=4,r=8,p=1$AAAA$AAAAAAAAAAAAAAAAAAAAAA\n",
        "$bcrypt$ln=4$AAAA$AAAAAAAAAAAAAAAAAAAAAA", "$pbkdf2-md5$i=1000$AAAA$AAAAAAAAAAAAAAAAAAAAAA",
        "$2b$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy",
    ])
    func text_isNoHash_malformed(_ text: String) {
        #expect(PasswordHash(text) == nil)
    }

    /// A manipulated row must not be able to use up all memory, or a core for minutes.
    @Test(arguments: [
        "$scrypt$ln=21,r=8,p=1$AAAA$AAAAAAAAAAAAAAAAAAAAAA", "$scrypt$ln=20,r=8,p=1$AAAA$AAAAAAAAAAAAAAAAAAAAAA",
        "$scrypt$ln=17,r=16,p=16$AAAA$AAAAAAAAAAAAAAAAAAAAAA", "$scrypt$ln=1,r=8,p=9999999$AAAA$AAAAAAAAAAAAAAAAAAAAAA",
        "$scrypt$ln=99999999999999999999,r=8,p=1$AAAA$AAAAAAAAAAAAAAAAAAAAAA", "$pbkdf2-sha256$i=2000001$AAAA$AAAAAAAAAAAAAAAAAAAAAA",
        "$firebase-scrypt$ln=20,r=16$AAAA$Bw$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA",
    ])
    func hash_isRefused_tooExpensive(_ text: String) {
        #expect(PasswordHash(text) == nil)
    }

    @Test func bounds_admitWhatIsRecommended() {
        for (ln, r, p) in [(17, 8, 1), (16, 8, 2), (15, 8, 3), (14, 8, 5), (13, 8, 10), (18, 8, 1)] {
            #expect(ScryptParameters(ln: ln, r: r, p: p) != nil)
        }
    }

    /// RFC 7914 §12.
    @Test func scrypt_matchesTheStandard() throws {
        let parameters = try #require(ScryptParameters(ln: 10, r: 8, p: 16))
        let hash = PasswordHash.scrypt(parameters, keyID: nil, salt: Array("NaCl".utf8), hash: [UInt8](repeating: 0, count: 64))
        let derived = try #require(hash.derive(Array("password".utf8), pepper: nil)).copy
        #expect(derived.prefix(16).map { $0 } == [
            0xfd, 0xba, 0xbe, 0x1c, 0x9d, 0x34, 0x72, 0x00, 0x78, 0x56, 0xe7, 0x19, 0x0d, 0x01, 0xe9, 0xfe,
        ])
    }

    /// RFC 7914 §11 covers PBKDF2-HMAC-SHA-256 too.
    @Test func pbkdf2_matchesTheStandard() throws {
        let hash = PasswordHash.pbkdf2(digest: .sha256, rounds: 1, salt: Array("salt".utf8), hash: [UInt8](repeating: 0, count: 64))
        let derived = try #require(hash.derive(Array("passwd".utf8), pepper: nil)).copy
        #expect(derived.prefix(16).map { $0 } == [
            0x55, 0xac, 0x04, 0x6e, 0x56, 0xe3, 0x08, 0x9f, 0xec, 0x16, 0x91, 0xc2, 0x25, 0x44, 0xb6, 0x05,
        ])
    }

    /// The vendor's published example of its variant, which all implementations of such hashes are checked against.
    @Test func firebaseScrypt_matchesThePublicExample() throws {
        func bytes(_ text: String) throws -> [UInt8] { Array(try #require(Data(base64Encoded: text))) }
        let parameters = try #require(ScryptParameters(ln: 14, r: 8, p: 1))
        let hash = PasswordHash.firebaseScrypt(
            parameters, salt: try bytes("42xEC+ixf3L2lw=="), separator: try bytes("Bw=="),
            signerKey: try bytes("jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA=="),
            hash: try bytes("lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ=="))
        #expect(hash.derive(Array("user1password".utf8), pepper: nil)?.copy == hash.expected)
        #expect(hash.derive(Array("user1passwore".utf8), pepper: nil)?.copy != hash.expected)
        #expect(PasswordHash(hash.text) == hash)
    }
}
