import Cryptography
import JSONTree

/// A stored, self-describing password hash:
///
///     $scrypt$ln=15,r=8,p=3$<salt>$<hash>                      ours; with `,keyid=…` if a pepper was used
///     $pbkdf2-sha256$i=600000$<salt>$<hash>                    imported, replaced at the next sign-in
///     $firebase-scrypt$ln=14,r=8$<salt>$<separator>$<signer key>$<hash>
///
/// Binary parts are base64 without padding. Parsing is strict: any other text, or one that needs more work than the bounds allow, is not a
/// hash and matches no password.
enum PasswordHash: Equatable {
    case scrypt(ScryptParameters, keyID: String?, salt: [UInt8], hash: [UInt8])
    case pbkdf2(digest: Digest, rounds: Int, salt: [UInt8], hash: [UInt8])
    case firebaseScrypt(ScryptParameters, salt: [UInt8], separator: [UInt8], signerKey: [UInt8], hash: [UInt8])

    enum Digest: String { case sha1, sha256, sha512 }

    /// Bytes of the salt and of the hash in our own scheme.
    static let saltBytes = 16, hashBytes = 32
    /// Bounds of parsed parts, in bytes.
    static let parsedSaltBytes = 256, parsedHashBytes = 16...128
    /// Most rounds of an imported PBKDF2 hash.
    static let mostRounds = 2_000_000

    /// Complexity: O(length); refuses a text of more than 2 KiB unread.
    init?(_ text: String) {
        guard text.utf8.count <= 2048 else { return nil }
        var parts = text.split(separator: "$", omittingEmptySubsequences: false)
        guard parts.count >= 5, parts.removeFirst().isEmpty else { return nil }
        let scheme = parts.removeFirst()
        guard let given = Self.parameters(parts.removeFirst()) else { return nil }
        var binary: [[UInt8]] = []
        for part in parts {
            guard let bytes = Base64.decode(part) else { return nil }
            binary.append(bytes)
        }
        guard let hash = binary.last, Self.parsedHashBytes ~= hash.count, binary[0].count <= Self.parsedSaltBytes else { return nil }
        switch scheme {
        case "scrypt":
            guard binary.count == 2, given.names == ["ln", "r", "p"] || given.names == ["ln", "r", "p", "keyid"] else { return nil }
            guard let ln = given.int(0), let r = given.int(1), let p = given.int(2) else { return nil }
            guard let parameters = ScryptParameters(ln: ln, r: r, p: p) else { return nil }
            let keyID = given.values.count == 4 ? String(given.values[3]) : nil
            guard keyID.map(PasswordPepper.isKeyID) ?? true else { return nil }
            self = .scrypt(parameters, keyID: keyID, salt: binary[0], hash: hash)
        case "pbkdf2-sha1", "pbkdf2-sha256", "pbkdf2-sha512":
            guard binary.count == 2, given.names == ["i"], let rounds = given.int(0), 1...Self.mostRounds ~= rounds else { return nil }
            guard let digest = Digest(rawValue: String(scheme.dropFirst("pbkdf2-".count))) else { return nil }
            self = .pbkdf2(digest: digest, rounds: rounds, salt: binary[0], hash: hash)
        case "firebase-scrypt":
            guard binary.count == 4, given.names == ["ln", "r"], let ln = given.int(0), let r = given.int(1) else { return nil }
            guard let parameters = ScryptParameters(ln: ln, r: r, p: 1) else { return nil }
            guard binary[1].count <= 64, binary[2].count == hash.count else { return nil }
            self = .firebaseScrypt(parameters, salt: binary[0], separator: binary[1], signerKey: binary[2], hash: hash)
        default: return nil
        }
    }

    /// The stored form; `init` parses it.
    var text: String {
        switch self {
        case .scrypt(let parameters, let keyID, let salt, let hash):
            let key = keyID.map { ",keyid=\($0)" } ?? ""
            return "$scrypt$ln=\(parameters.ln),r=\(parameters.r),p=\(parameters.p)\(key)$\(Self.base64(salt))$\(Self.base64(hash))"
        case .pbkdf2(let digest, let rounds, let salt, let hash):
            return "$pbkdf2-\(digest.rawValue)$i=\(rounds)$\(Self.base64(salt))$\(Self.base64(hash))"
        case .firebaseScrypt(let parameters, let salt, let separator, let signerKey, let hash):
            let binary = [salt, separator, signerKey, hash].map(Self.base64).joined(separator: "$")
            return "$firebase-scrypt$ln=\(parameters.ln),r=\(parameters.r)$\(binary)"
        }
    }

    private static func base64(_ bytes: [UInt8]) -> String { Base64.encode(bytes, isPadded: false) }

    var expected: [UInt8] {
        switch self {
        case .scrypt(_, _, _, let hash), .pbkdf2(_, _, _, let hash), .firebaseScrypt(_, _, _, _, let hash): hash
        }
    }

    /// Parses `a=1,b=2`.
    private static func parameters(_ text: Substring) -> Parameters? {
        var parameters = Parameters()
        for pair in text.split(separator: ",", omittingEmptySubsequences: false) {
            let sides = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard sides.count == 2, !sides[0].isEmpty, !sides[1].isEmpty else { return nil }
            parameters.names.append(sides[0])
            parameters.values.append(sides[1])
        }
        return parameters
    }

    private struct Parameters {
        var names: [Substring] = [], values: [Substring] = []

        /// Digits only, at most seven, without a leading zero: each number has one spelling.
        func int(_ i: Int) -> Int? {
            let digits = values[i].utf8
            guard 1...7 ~= digits.count, digits.allSatisfy({ 0x30...0x39 ~= $0 }), digits.first != 0x30 else { return nil }
            return Int(values[i])
        }
    }
}

extension PasswordHash {
    /// Hashes a password with this hash's parameters; nil if the library refuses or a pepper is missing. Takes the time and memory of the
    /// parameters, so call it only on a thread of `PasswordWorkers`.
    func derive(_ password: [UInt8], pepper: PasswordPepper?) -> SecretBytes? {
        switch self {
        case .scrypt(let parameters, let keyID, let salt, let hash):
            guard let keyID else { return password.withUnsafeBytes { Self.scrypt($0, salt, parameters, bytes: hash.count) } }
            return pepper?.apply(password, keyID: keyID)?.withUnsafeBytes { Self.scrypt($0, salt, parameters, bytes: hash.count) }
        case .pbkdf2(let digest, let rounds, let salt, let hash):
            return password.withUnsafeBytes {
                try? KeyDerivation.pbkdf2(digest.function, $0, salt: salt, rounds: rounds, count: hash.count)
            }
        case .firebaseScrypt(let parameters, let salt, let separator, let signerKey, _):
            // The derived key encrypts the project's signer key; the result is the hash (accounts contract §10).
            let key = password.withUnsafeBytes { Self.scrypt($0, salt + separator, parameters, bytes: 32) }
            return key.flatMap { try? KeyDerivation.aes256CTR(signerKey, key: $0) }
        }
    }

    private static func scrypt(
        _ password: UnsafeRawBufferPointer, _ salt: [UInt8], _ parameters: ScryptParameters, bytes: Int
    ) -> SecretBytes? {
        try? KeyDerivation.scrypt(password, salt: salt, n: 1 << parameters.ln, r: parameters.r, p: parameters.p, count: bytes)
    }
}

extension PasswordHash.Digest {
    fileprivate var function: HashFunction {
        switch self {
        case .sha1: .sha1
        case .sha256: .sha256
        case .sha512: .sha512
        }
    }
}

/// The cost of a password hash: scrypt's parameters (RFC 7914), bounded so that no stored row can need more memory or time than a sign-in may
/// cost.
public struct ScryptParameters: Sendable, Equatable {
    /// log₂ of the number of blocks in memory.
    public let ln: Int
    /// Block size, in units of 128 bytes.
    public let r: Int
    /// Parallelization parameter; computed sequentially.
    public let p: Int

    /// Most memory of one hash: 2^ln × r × 128 bytes.
    public static let mostBytes = 256 << 20
    /// Most work of one hash, as 2^ln × r × p: four times the strongest recommendation.
    public static let mostWork = 1 << 22

    /// Nil if out of bounds (ln 1…20, r 1…16, p 1…16, `mostBytes`, `mostWork`).
    public init?(ln: Int, r: Int, p: Int) {
        guard 1...20 ~= ln, 1...16 ~= r, 1...16 ~= p, ln < 16 * r else { return nil }
        guard (1 << ln) * r * 128 <= Self.mostBytes, (1 << ln) * r * p <= Self.mostWork else { return nil }
        (self.ln, self.r, self.p) = (ln, r, p)
    }

    private init(trusted ln: Int, _ r: Int, _ p: Int) { (self.ln, self.r, self.p) = (ln, r, p) }

    /// The parameters of new hashes (accounts contract §13): 32 MiB while hashing.
    public static let standard = ScryptParameters(trusted: 15, 8, 3)
    /// Minimal work, for tests.
    public static let quick = ScryptParameters(trusted: 4, 8, 1)

    /// Memory of one hash.
    public var bytes: Int { (1 << ln) * r * 128 }
    /// Work of one hash; the unit is a block of 128 bytes mixed twice.
    public var work: Int { (1 << ln) * r * p }

    /// Whether these parameters are weaker than the others: less memory or less work.
    func isWeaker(than other: ScryptParameters) -> Bool { work < other.work || bytes < other.bytes }
}
