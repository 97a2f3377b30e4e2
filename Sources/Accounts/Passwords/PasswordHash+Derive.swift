import Crypto
import CryptoExtras

extension PasswordHash {
    /// What a password leads to under this hash's own parameters; nil if the library refuses or a pepper is missing. Takes as
    /// long and as much memory as they say: on a thread of `PasswordWorkers` only.
    func derive(_ password: [UInt8], pepper: PasswordPepper?) -> [UInt8]? {
        switch self {
        case .scrypt(let parameters, let keyID, let salt, let hash):
            guard let keyID else { return Self.scrypt(password, salt, parameters, bytes: hash.count) }
            guard let peppered = pepper?.apply(password, keyID: keyID) else { return nil }
            return Self.scrypt(peppered, salt, parameters, bytes: hash.count)
        case .pbkdf2(let digest, let rounds, let salt, let hash):
            return try? KDF.Insecure.PBKDF2.deriveKey(
                from: password, salt: salt, using: digest.function, outputByteCount: hash.count, unsafeUncheckedRounds: rounds
            ).bytes
        case .firebaseScrypt(let parameters, let salt, let separator, let signerKey, _):
            // The derived key encrypts the project's signer key; that is the hash (accounts contract §10).
            guard let key = Self.scrypt(password, salt + separator, parameters, bytes: 32) else { return nil }
            guard let nonce = try? AES._CTR.Nonce(nonceBytes: [UInt8](repeating: 0, count: 16)) else { return nil }
            return (try? AES._CTR.encrypt(signerKey, using: SymmetricKey(data: key), nonce: nonce)).map { Array($0) }
        }
    }

    private static func scrypt(_ password: [UInt8], _ salt: [UInt8], _ parameters: ScryptParameters, bytes: Int) -> [UInt8]? {
        try? KDF.Scrypt.deriveKey(
            from: password, salt: salt, outputByteCount: bytes, rounds: 1 << parameters.ln, blockSize: parameters.r, parallelism: parameters.p
        ).bytes
    }
}

extension PasswordHash.Digest {
    fileprivate var function: KDF.Insecure.PBKDF2.HashFunction {
        switch self {
        case .sha1: .insecureSHA1
        case .sha256: .sha256
        case .sha512: .sha512
        }
    }
}

extension SymmetricKey {
    fileprivate var bytes: [UInt8] { withUnsafeBytes { Array($0) } }
}
