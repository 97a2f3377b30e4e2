import Foundation

/// A mail address as accounts are found by: in lower case, checked loosely (accounts contract §4).
struct EmailAddress: Sendable, Equatable {
    let text: String

    static let maxBytes = 255

    /// Nil unless there is exactly one `@` with something on both sides, the domain in ASCII, and fewer than 256 bytes. What looks like
    /// another address is none: no space, control or invisible format character, and only Unicode's composed form (NFC).
    init?(_ text: String) {
        let lower = Self.lowercased(text)
        let sides = lower.utf8.split(separator: UInt8(ascii: "@"), omittingEmptySubsequences: false)
        guard sides.count == 2, sides.allSatisfy({ !$0.isEmpty }), sides[1].allSatisfy({ $0 < 0x80 }), lower.utf8.count <= Self.maxBytes,
            lower.unicodeScalars.allSatisfy(Self.isVisible), lower.utf8.elementsEqual(lower.precomposedStringWithCanonicalMapping.utf8)
        else { return nil }
        self.text = lower
    }

    /// A to Z alone: other letters that have one of these in lower case, as the Kelvin sign has, are other addresses.
    static func lowercased(_ text: String) -> String {
        String(decoding: text.utf8.map { 0x41...0x5A ~= $0 ? $0 | 0x20 : $0 }, as: UTF8.self)
    }

    private static func isVisible(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .surrogate, .privateUse, .unassigned: false
        default: !scalar.properties.isWhitespace
        }
    }
}
