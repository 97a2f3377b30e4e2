/// A mail address as accounts are found by: in lower case, checked loosely (accounts contract §4).
struct EmailAddress: Sendable, Equatable {
    let text: String

    static let maxBytes = 255

    /// Nil unless there is exactly one `@` with something on both sides, no space or control character, and fewer than 256 bytes.
    init?(_ text: String) {
        let lower = text.lowercased()
        let sides = lower.utf8.split(separator: UInt8(ascii: "@"), omittingEmptySubsequences: false)
        guard sides.count == 2, sides.allSatisfy({ !$0.isEmpty }), lower.utf8.count <= Self.maxBytes,
            lower.unicodeScalars.allSatisfy({ $0.value > 0x20 && $0.value != 0x7F && !$0.properties.isWhitespace })
        else { return nil }
        self.text = lower
    }
}
