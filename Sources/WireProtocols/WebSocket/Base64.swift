/// The standard base64 alphabet with padding (RFC 4648 §4), as far as the handshake needs it.
enum Base64 {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text: [UInt8] = []
        var bits: UInt32 = 0
        var held = 0
        for byte in bytes {
            bits = bits << 8 | UInt32(byte)
            held += 8
            while held >= 6 {
                held -= 6
                text.append(alphabet[Int(bits >> UInt32(held) & 0x3F)])
            }
        }
        if held > 0 { text.append(alphabet[Int(bits << UInt32(6 - held) & 0x3F)]) }
        while text.count % 4 != 0 { text.append(UInt8(ascii: "=")) }
        return String(decoding: text, as: UTF8.self)
    }

    /// Whether `text` is 16 bytes in base64: 22 letters of the alphabet and `==`.
    static func isSixteenBytes(_ text: String) -> Bool {
        let letters = Array(text.utf8)
        return letters.count == 24 && letters[22...].allSatisfy { $0 == UInt8(ascii: "=") }
            && letters[..<22].allSatisfy(alphabet.contains)
    }
}
