import Glibc

/// Lines about accounts for a terminal.
enum UserText {
    /// Columns separated by two spaces. Control characters in users' texts are replaced, so that none reaches the terminal.
    static func line(_ columns: [String?]) -> String {
        var line = columns.compactMap { $0 }.map(plain).joined(separator: "  ")
        while line.last == " " { line.removeLast() }
        return line
    }

    /// Replaces control characters and marks of writing direction.
    static func plain(_ text: String) -> String {
        String(String.UnicodeScalarView(
            text.unicodeScalars.map { $0.value < 0x20 || 0x7F...0x9F ~= $0.value || $0.properties.isBidiControl ? "?" : $0 }))
    }

    /// `2026-01-31T12:00:00Z`
    static func time(_ ms: Int64) -> String {
        var (seconds, parts) = (time_t(ms / 1000), tm())
        gmtime_r(&seconds, &parts)
        var text = [CChar](repeating: 0, count: 32)
        strftime(&text, text.count, "%Y-%m-%dT%H:%M:%SZ", &parts)
        let length = text.firstIndex(of: 0) ?? text.count
        return String(decoding: text[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Percent-encodes a text for a query string.
    static func escaped(_ text: String) -> String {
        text.utf8.map { byte in
            0x30...0x39 ~= byte || 0x41...0x5A ~= byte
                || 0x61...0x7A ~= byte ? String(UnicodeScalar(byte)) : "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }.joined()
    }
}
