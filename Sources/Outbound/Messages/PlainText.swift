import Cryptography
import JSONTree

extension String {
    /// The longest prefix of whole characters with at most this many bytes of UTF-8; an ellipsis replaces what is cut. A single character
    /// that is longer is cut between its scalars, as some have hundreds. O(bytes kept)
    func cut(toBytes limit: Int) -> String {
        guard utf8.count > limit else { return self }
        let ellipsis = "…"
        let room = limit - ellipsis.utf8.count
        guard room > 0 else { return "" }
        var (kept, bytes) = ("", 0)
        for character in self {
            let count = character.utf8.count
            guard bytes + count <= room else {
                guard kept.isEmpty else { break }
                for scalar in character.unicodeScalars {
                    guard bytes + UTF8.width(scalar) <= room else { break }
                    kept.unicodeScalars.append(scalar)
                    bytes += UTF8.width(scalar)
                }
                break
            }
            kept.append(character)
            bytes += count
        }
        return kept + ellipsis
    }

    /// The text if it has 1 to `limit` letters of the URL-safe base64 alphabet, else letters of its hash: the same for the same text.
    func urlSafe(limit: Int) -> String {
        let isSafe = 1...limit ~= utf8.count && utf8.allSatisfy { Base64.urlValues[Int($0)] != 0xFF }
        return isSafe ? self : String(Base64.encodeURL(HashFunction.sha256.hash(utf8)).prefix(limit))
    }

    /// The bytes as printable ASCII on one line, for texts of strangers that operators see: others become spaces, and several one.
    /// - Parameter limit: most bytes.
    init(printable bytes: some Sequence<UInt8>, limit: Int) {
        let text = String(decoding: bytes.prefix(limit).map { 0x20...0x7E ~= $0 ? $0 : 0x20 }, as: UTF8.self)
        self = text.split(separator: " ").joined(separator: " ")
    }

    /// An id made of several texts: 32 hexadecimal digits, the same for the same texts. Their lengths are part of it, so ["a", "bc"] and
    /// ["ab", "c"] differ.
    static func id(of parts: [String]) -> String {
        let hash = HashFunction.sha256.hash(parts.map { "\($0.utf8.count):\($0)" }.joined().utf8)
        return hash.prefix(16).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }

    /// Whether it can be the value of a header field: printable ASCII (RFC 9110 §5.5, without the obsolete bytes).
    var isFieldValue: Bool { utf8.allSatisfy { 0x20...0x7E ~= $0 } }

    /// Whether it can be the name of a header field (RFC 9110 §5.1).
    var isFieldName: Bool {
        !isEmpty && utf8.allSatisfy {
            0x30...0x39 ~= $0 || 0x41...0x5A ~= $0 || 0x61...0x7A ~= $0 || "!#$%&'*+-.^_`|~".utf8.contains($0)
        }
    }
}
