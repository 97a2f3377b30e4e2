internal import COpenSSL

/// Derives keys from passwords and from shared secrets, and encrypts with them.
public enum KeyDerivation {
    /// scrypt (RFC 7914). Takes 128 × `r` × (`n` + `p` + 2) bytes of memory while running.
    /// - Parameters:
    ///   - n: blocks in memory, a power of 2 above 1 and below 2^(16 × r).
    ///   - count: length of the key in bytes.
    /// - Throws: `refused` for other parameters, or if out of memory.
    public static func scrypt(
        _ password: UnsafeRawBufferPointer, salt: [UInt8], n: Int, r: Int, p: Int, count: Int
    ) throws(CryptographyError) -> SecretBytes {
        guard n > 0, r > 0, p > 0 else { throw .refused }
        return try SecretBytes(count: count) { key throws(CryptographyError) in
            let isDone = vigla_scrypt(
                password.baseAddress, password.count, salt, salt.count, UInt64(n), UInt64(r), UInt64(p), key.baseAddress, key.count)
            if !isDone { throw .refused }
        }
    }

    /// PBKDF2 with HMAC (RFC 8018 §5.2).
    /// - Parameters:
    ///   - rounds: from 1.
    ///   - count: length of the key in bytes.
    /// - Throws: `refused` for other parameters.
    public static func pbkdf2(
        _ function: HashFunction, _ password: UnsafeRawBufferPointer, salt: [UInt8], rounds: Int, count: Int
    ) throws(CryptographyError) -> SecretBytes {
        guard rounds > 0, let rounds = Int32(exactly: rounds) else { throw .refused }
        return try SecretBytes(count: count) { key throws(CryptographyError) in
            let isDone = vigla_pbkdf2(
                function.code, password.baseAddress, password.count, salt, salt.count, rounds, key.baseAddress, key.count)
            if !isDone { throw .refused }
        }
    }

    /// AES-256 in counter mode from counter 0 (NIST SP 800-38A §6.5), for encryption and decryption. Never use one key for two texts.
    /// - Throws: `refused` if the key does not have 32 bytes.
    public static func aes256CTR(_ bytes: [UInt8], key: SecretBytes) throws(CryptographyError) -> SecretBytes {
        guard key.count == 32 else { throw .refused }
        return try SecretBytes(count: bytes.count) { out throws(CryptographyError) in
            let isDone = key.withUnsafeBytes { key in
                vigla_aes256_ctr(key.baseAddress, bytes, bytes.count, out.baseAddress)
            }
            if !isDone { throw .refused }
        }
    }

    /// HKDF with SHA-256 (RFC 5869).
    /// - Parameter count: length of the key in bytes, at most 32: one block.
    public static func hkdfSHA256(secret: SecretBytes, salt: [UInt8], info: [UInt8], count: Int) -> SecretBytes {
        precondition(0...32 ~= count)
        let extracted = secret.withUnsafeBytes { secret in
            salt.withUnsafeBytes { HashFunction.sha256.authenticationCode(of: secret, key: $0) }
        }
        let block = HashFunction.sha256.authenticationCode(of: info + [1], key: extracted)
        return block.withUnsafeBytes { SecretBytes(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
    }

    /// AES-128 in Galois/counter mode without additional data (NIST SP 800-38D). Never use one key and nonce for two texts.
    /// - Returns: the encrypted bytes, followed by the tag of 16 bytes.
    /// - Throws: `refused` unless the key has 16 bytes and the nonce 12.
    public static func aes128GCM(_ bytes: [UInt8], key: SecretBytes, nonce: [UInt8]) throws(CryptographyError) -> [UInt8] {
        guard key.count == 16, nonce.count == 12 else { throw .refused }
        var isDone = false
        let sealed = [UInt8](unsafeUninitializedCapacity: bytes.count + 16) { out, count in
            isDone = key.withUnsafeBytes { vigla_aes128_gcm($0.baseAddress, nonce, bytes, bytes.count, out.baseAddress) }
            count = isDone ? bytes.count + 16 : 0
        }
        guard isDone else { throw .refused }
        return sealed
    }
}
