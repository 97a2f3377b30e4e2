/// Bytes as text (RFC 4648): with the standard alphabet, or as URLs and tokens have it, with `-` and `_` and no padding.
///
/// Only what is written here is read: no other letters, no padding, no bits that would be lost. So two texts never stand for the
/// same bytes.
public enum Base64 {
    private static let standard = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    private static let url = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    private static let standardValues = values(of: standard)
    /// Of the letters of URLs: what each byte stands for, 0xFF for those that are none.
    package static let urlValues = values(of: url)

    /// What each byte stands for as a letter; 0xFF for those that are none.
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

    /// The same behind other text.
    public static func appendURL(_ bytes: UnsafeRawBufferPointer, to text: inout [UInt8]) { append(bytes, url, to: &text) }

    /// RFC 4648 §4, padded, for short texts that are made often: nothing is allocated but the text.
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

    /// - Parameter text: room for (4 × bytes + 2) / 3 letters.
    /// - Returns: the number of letters.
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

    /// Reads the standard alphabet without padding.
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        var text = String(text)
        return text.withUTF8 { decode(UnsafeRawBufferPointer($0), standardValues) }
    }

    /// Reads what `encodeURL` writes.
    public static func decodeURL(_ text: some StringProtocol) -> [UInt8]? {
        var text = String(text)
        return text.withUTF8 { decodeURL(UnsafeRawBufferPointer($0)) }
    }

    public static func decodeURL(_ text: UnsafeRawBufferPointer) -> [UInt8]? { decode(text, urlValues) }

    private static func decode(_ text: UnsafeRawBufferPointer, _ values: [UInt8]) -> [UInt8]? {
        guard text.count % 4 != 1 else { return nil }
        // Bits of any letter that is none.
        var strange: UInt8 = 0
        let bytes = [UInt8](unsafeUninitializedCapacity: text.count / 4 * 3 + 2) { out, count in
            values.withUnsafeBufferPointer { values in
                var i = 0
                while i &+ 4 <= text.count {
                    let (a, b, c, d) = (values[Int(text[i])], values[Int(text[i &+ 1])], values[Int(text[i &+ 2])], values[Int(text[i &+ 3])])
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
                // What the last letter holds beyond whole bytes must be nothing.
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
