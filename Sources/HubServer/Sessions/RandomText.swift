import Cryptography

/// Names that cannot be guessed.
enum RandomText {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".utf8)

    /// Letters and digits, 5.9 bits each: safe in URLs and scripts.
    static func make(_ length: Int) -> String {
        var generator = SecureRandom()
        return String(decoding: (0..<length).map { _ in alphabet[Int.random(in: 0..<alphabet.count, using: &generator)] }, as: UTF8.self)
    }
}
