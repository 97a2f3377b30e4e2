internal import COpenSSL

/// Derives keys from passwords, and decrypts a stored hash of an older scheme.
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
}
