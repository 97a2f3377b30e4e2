/// Base64 (RFC 4648): with the standard alphabet, or with the URL alphabet (`-` and `_`) without padding.
///
/// Decoding is strict: no other characters, no padding, no non-zero trailing bits. So two different texts never decode to the
/// same bytes.
public enum Base64 {
    private static let standard = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    private static let url = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    private static let standardValues = values(of: standard)
    /// The values of the URL alphabet by byte; 0xFF for other bytes.
    package static let urlValues = values(of: url)

    /// The values of an alphabet by byte; 0xFF for other bytes.
    private static func values(of alphabet: [UInt8]) -> [UInt8] {
        var values = [UInt8](repeating: 0xFF, count: 256)
        for (value, letter) in alphabet.enumerated() { values[Int(letter)] = UInt8(value) }
        return values
    }

    /// RFC 4648 §4.
    public static func encode(_ bytes: some Sequence<UInt8>, isPadded: Bool = true) -> String {
        var text: [UInt8] = []
        Array(bytes).withUnsafeBytes { append($0, standard, to: &text) }
        while isPadded, text.count % 4 != 0 { text.append(UInt8(ascii: "=")) }
        return String(decoding: text, as: UTF8.self)
    }

    /// RFC 4648 §5, not padded.
    public static func encodeURL(_ bytes: some Sequence<UInt8>) -> String {
        var text: [UInt8] = []
        Array(bytes).withUnsafeBytes { append($0, url, to: &text) }
        return String(decoding: text, as: UTF8.self)
    }

    /// Appends the encoding of `encodeURL` to a text.
    public static func appendURL(_ bytes: UnsafeRawBufferPointer, to text: inout [UInt8]) { append(bytes, url, to: &text) }

    /// RFC 4648 §4, padded, for short texts on hot paths: allocates only the result.
    static func encode(_ bytes: UnsafeRawBufferPointer) -> String {
        String(unsafeUninitializedCapacity: (bytes.count + 2) / 3 * 4) { letters in
            var count = write(bytes, standard, to: letters)
            while count % 4 != 0 {
                letters[count] = UInt8(ascii: "=")
                count += 1
            }
            return count
        }
    }

    private static func append(_ bytes: UnsafeRawBufferPointer, _ alphabet: [UInt8], to text: inout [UInt8]) {
        let old = text.count
        text.append(contentsOf: repeatElement(0, count: (bytes.count * 4 + 2) / 3))
        text.withUnsafeMutableBufferPointer { _ = write(bytes, alphabet, to: UnsafeMutableBufferPointer(rebasing: $0[old...])) }
    }

    /// - Parameter text: has capacity for (4 × bytes + 2) / 3 letters.
    /// - Returns: the number of letters written.
    private static func write(_ bytes: UnsafeRawBufferPointer, _ alphabet: [UInt8], to text: UnsafeMutableBufferPointer<UInt8>) -> Int {
        alphabet.withUnsafeBufferPointer { letters in
            var (i, count) = (0, 0)
            while i &+ 3 <= bytes.count {
                let bits = UInt32(bytes[i]) << 16 | UInt32(bytes[i &+ 1]) << 8 | UInt32(bytes[i &+ 2])
                text[count] = letters[Int(bits >> 18)]
                text[count &+ 1] = letters[Int(bits >> 12 & 63)]
                text[count &+ 2] = letters[Int(bits >> 6 & 63)]
                text[count &+ 3] = letters[Int(bits & 63)]
                i &+= 3
                count &+= 4
            }
            let left = bytes.count - i
            guard left > 0 else { return count }
            let bits = UInt32(bytes[i]) << 16 | (left == 2 ? UInt32(bytes[i &+ 1]) << 8 : 0)
            text[count] = letters[Int(bits >> 18)]
            text[count &+ 1] = letters[Int(bits >> 12 & 63)]
            if left == 2 { text[count &+ 2] = letters[Int(bits >> 6 & 63)] }
            return count &+ left &+ 1
        }
    }

    /// Decodes the standard alphabet without padding.
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        var text = String(text)
        return text.withUTF8 { decode(UnsafeRawBufferPointer($0), standardValues) }
    }

    /// Decodes the output of `encodeURL`.
    public static func decodeURL(_ text: some StringProtocol) -> [UInt8]? {
        var text = String(text)
        return text.withUTF8 { decodeURL(UnsafeRawBufferPointer($0)) }
    }

    public static func decodeURL(_ text: UnsafeRawBufferPointer) -> [UInt8]? { decode(text, urlValues) }

    private static func decode(_ text: UnsafeRawBufferPointer, _ values: [UInt8]) -> [UInt8]? {
        guard text.count % 4 != 1 else { return nil }
        // Non-zero high bits indicate an invalid character.
        var strange: UInt8 = 0
        let bytes = [UInt8](unsafeUninitializedCapacity: text.count / 4 * 3 + 2) { out, count in
            values.withUnsafeBufferPointer { values in
                var i = 0
                while i &+ 4 <= text.count {
                    let (a, b, c, d) = (
                        values[Int(text[i])], values[Int(text[i &+ 1])], values[Int(text[i &+ 2])], values[Int(text[i &+ 3])])
                    strange |= a | b | c | d
                    out[count] = a << 2 | b >> 4
                    out[count &+ 1] = b << 4 | c >> 2
                    out[count &+ 2] = c << 6 | d
                    count &+= 3
                    i &+= 4
                }
                guard i < text.count else { return }
                let (a, b) = (values[Int(text[i])], values[Int(text[i &+ 1])])
                let c = i &+ 2 < text.count ? values[Int(text[i &+ 2])] : 0
                strange |= a | b | c
                out[count] = a << 2 | b >> 4
                count &+= 1
                // Trailing bits beyond whole bytes must be zero.
                if i &+ 2 < text.count {
                    out[count] = b << 4 | c >> 2
                    count &+= 1
                    if c & 3 != 0 { strange = 0xFF }
                } else if b & 15 != 0 {
                    strange = 0xFF
                }
            }
        }
        return strange & 0xC0 == 0 ? bytes : nil
    }
}
