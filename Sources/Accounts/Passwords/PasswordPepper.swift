import Cryptography

/// A key kept outside the database that goes into every hash (accounts contract §13): who has only the database cannot even
/// try passwords. Lost, no password made with it matches any more, so it belongs into the backup of the configuration.
public struct PasswordPepper: Sendable {
    /// Names the key in stored hashes: 1…16 of `a-z A-Z 0-9 -`.
    let keyID: String
    private let key: SecretBytes

    /// Nil: fewer than 32 bytes, or no such key id.
    public init?(key: [UInt8], keyID: String) {
        guard key.count >= 32, Self.isKeyID(keyID) else { return nil }
        self.keyID = keyID
        self.key = SecretBytes(key)
    }

    /// What is hashed in the password's stead; nil if the hash was made with another key.
    func apply(_ password: [UInt8], keyID: String) -> SecretBytes? {
        guard keyID == self.keyID else { return nil }
        return HashFunction.sha256.authenticationCode(of: password, key: key)
    }

    static func isKeyID(_ text: String) -> Bool {
        1...16 ~= text.utf8.count && text.utf8.allSatisfy { 0x30...0x39 ~= $0 || 0x41...0x5A ~= $0 || 0x61...0x7A ~= $0 || $0 == 0x2D }
    }
}
