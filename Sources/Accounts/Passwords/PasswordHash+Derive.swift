import Cryptography

extension PasswordHash {
    /// What a password leads to under this hash's own parameters; nil if the library refuses or a pepper is missing. Takes as
    /// long and as much memory as they say: on a thread of `PasswordWorkers` only.
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
            // The derived key encrypts the project's signer key; that is the hash (accounts contract §10).
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
