import JSONTree

/// How the password hashes of an import were made (accounts contract §10). Only slow schemes are accepted: a
/// fast hash gives its password away. Each is replaced by one of ours at its user's first sign-in.
struct ImportedPasswords {
    private enum Scheme {
        case scrypt(ScryptParameters)
        case firebaseScrypt(ScryptParameters, separator: [UInt8], signerKey: [UInt8])
        case pbkdf2(PasswordHash.Digest, rounds: Int)
    }

    private let scheme: Scheme

    /// - Throws: `INVALID_HASH_ALGORITHM : why`.
    init(_ call: AccountCall) throws(AccountError) {
        let name = try call.filled("hashAlgorithm") ?? ""
        switch name {
        case "STANDARD_SCRYPT":
            let cost = call.number("cpuMemCost")
            guard cost > 1, cost & (cost - 1) == 0 else { throw Self.refused(name, "cpuMemCost is a power of two") }
            let (r, p) = (call.number("blockSize"), call.number("parallelization"))
            scheme = .scrypt(try Self.parameters(name, ln: cost.trailingZeroBitCount, r: r, p: p))
        case "SCRYPT":
            guard let key = try call.binary("signerKey"), !key.isEmpty else { throw Self.refused(name, "signerKey is missing") }
            let parameters = try Self.parameters(name, ln: call.number("memoryCost"), r: call.number("rounds"), p: 1)
            scheme = .firebaseScrypt(parameters, separator: try call.binary("saltSeparator") ?? [], signerKey: key)
        case "PBKDF2_SHA256", "PBKDF_SHA1":
            let rounds = call.number("rounds")
            guard 1...PasswordHash.mostRounds ~= rounds else { throw Self.refused(name, "rounds are from 1 to \(PasswordHash.mostRounds)") }
            scheme = .pbkdf2(name == "PBKDF_SHA1" ? .sha1 : .sha256, rounds: rounds)
        default:
            throw Self.refused(
                name, "taken are SCRYPT, STANDARD_SCRYPT, PBKDF2_SHA256 and PBKDF_SHA1; other users import without password and reset it")
        }
    }

    /// The hash of one user, in the form that is stored.
    func hash(of user: AccountCall) throws(AccountError) -> PasswordHash {
        let salt = try user.binary("salt") ?? []
        guard let hash = try user.binary("passwordHash") else { throw AccountError("INVALID_PASSWORD_HASH") }
        let made: PasswordHash = switch scheme {
        case .scrypt(let parameters): .scrypt(parameters, keyID: nil, salt: salt, hash: hash)
        case .firebaseScrypt(let parameters, let separator, let key):
            .firebaseScrypt(parameters, salt: salt, separator: separator, signerKey: key, hash: hash)
        case .pbkdf2(let digest, let rounds): .pbkdf2(digest: digest, rounds: rounds, salt: salt, hash: hash)
        }
        // What could not be read back could never sign in.
        guard PasswordHash(made.text) == made else {
            throw AccountError("INVALID_PASSWORD_HASH", "Its length or its salt's does not fit the hashAlgorithm")
        }
        return made
    }

    private static func parameters(_ name: String, ln: Int, r: Int, p: Int) throws(AccountError) -> ScryptParameters {
        guard let parameters = ScryptParameters(ln: ln, r: r, p: p) else {
            throw refused(name, "its parameters ask for too little or too much work")
        }
        return parameters
    }

    private static func refused(_ name: String, _ why: String) -> AccountError {
        AccountError("INVALID_HASH_ALGORITHM", "hashAlgorithm \"\(name.prefix(32))\", \(why)")
    }
}

extension AccountCall {
    /// 0 when it is absent or none.
    fileprivate func number(_ name: String) -> Int { body[name]?.int.flatMap { Int(exactly: $0) } ?? 0 }

    /// Base64 in either alphabet, padded or not; nil when absent.
    fileprivate func binary(_ name: String) throws(AccountError) -> [UInt8]? {
        guard let text = try text(name) else { return nil }
        let plain = text.filter { $0 != "=" }
        guard let bytes = Base64.decode(plain) ?? Base64.decodeURL(plain) else { throw .invalid(name, "base64 is expected") }
        return bytes
    }
}
