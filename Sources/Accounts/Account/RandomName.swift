import Cryptography

/// Names and secrets that cannot be guessed.
enum RandomName {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".utf8)

    /// Letters and digits, 5.9 bits each: safe in URLs, paths and scripts.
    static func make(_ length: Int) -> String {
        var generator = SecureRandom()
        return String(decoding: (0..<length).map { _ in alphabet[Int.random(in: 0..<alphabet.count, using: &generator)] }, as: UTF8.self)
    }

    /// `localId` of a new account: 28 of them (accounts contract §4).
    static func accountID() -> String { make(28) }

    /// Names a session; no secret.
    static func sessionID() -> String { make(20) }

    /// 43 of them are 256 bits: refresh tokens and mailed codes.
    static func secret() -> String { make(43) }
}
