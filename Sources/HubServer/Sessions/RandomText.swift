/// Names that nobody can guess.
enum RandomText {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".utf8)

    /// Letters and digits from the system's generator, 5.9 bits each: safe in URLs and scripts.
    static func make(_ length: Int) -> String {
        String(decoding: (0..<length).map { _ in alphabet[Int.random(in: 0..<alphabet.count)] }, as: UTF8.self)
    }
}
