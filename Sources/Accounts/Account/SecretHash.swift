import Cryptography

/// What is kept of refresh tokens and mailed codes. A hash without salt or stretching is enough: they are 256 random bits, not
/// somebody's word. Rows are found by it, so that no comparison's time tells anything of the secret itself.
enum SecretHash {
    static func of(_ secret: String) -> [UInt8] { HashFunction.sha256.hash(secret.utf8) }
}
