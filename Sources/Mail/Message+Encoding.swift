import Glibc
import JSONTree

extension Message {
    /// Encodes the message for SMTP (RFC 5322, RFC 2045–2047): plain text and HTML, both UTF-8 in base64. No content can inject a header: addresses
    /// are restricted, all other text is encoded, and only this encoder writes line breaks.
    /// - Parameters:
    ///   - date: ms since the epoch.
    ///   - id: unique letters and digits, for Message-ID and the boundary.
    func encoded(from sender: MailSender, date: Int64, id: String) -> [UInt8] {
        let boundary = "=_\(id)"
        let lines = [
            "From: \(HeaderText.encode(sender.name)) <\(sender.address.text)>",
            "To: <\(to.text)>",
            "Subject: \(HeaderText.encode(subject))",
            "Date: \(MailDate.text(date))",
            "Message-ID: <\(id)@\(sender.address.domain)>",
            "MIME-Version: 1.0",
            "Auto-Submitted: auto-generated",
        ] + languageLines + [
            "Content-Type: multipart/alternative; boundary=\"\(boundary)\"",
            "",
            "--\(boundary)", "Content-Type: text/plain; charset=utf-8", "Content-Transfer-Encoding: base64", "", Self.base64(text),
            "--\(boundary)", "Content-Type: text/html; charset=utf-8", "Content-Transfer-Encoding: base64", "", Self.base64(html),
            "--\(boundary)--", "",
        ]
        return Array(lines.joined(separator: "\r\n").utf8)
    }

    /// Nothing for a tag with other characters than a tag has.
    private var languageLines: [String] {
        guard let language, !language.isEmpty, language.utf8.allSatisfy({ HeaderText.isPlainByte($0) && $0 != 0x20 }) else { return [] }
        return ["Content-Language: \(language.prefix(35))"]
    }

    /// Base64 in lines of 76 letters (RFC 2045 §6.8); the text's own line ends become CR LF.
    private static func base64(_ text: String) -> String {
        let crlf = text.replacing("\r\n", with: "\n").replacing("\n", with: "\r\n")
        let letters = Array(Base64.encode(crlf.utf8).utf8)
        let lines = stride(from: 0, to: letters.count, by: 76).map { letters[$0..<min($0 + 76, letters.count)] }
        return String(decoding: Array(lines.joined(separator: "\r\n".utf8)), as: UTF8.self)
    }
}

/// Encodes any text as the value of a header.
enum HeaderText {
    /// Text that would need a quoted string is encoded too, so that only plain words stay unencoded.
    static func encode(_ text: String) -> String {
        let isPlain = text.utf8.count <= 60 && text.utf8.allSatisfy { isPlainByte($0) }
        if isPlain { return text }
        var words: [String] = []
        var bytes: [UInt8] = []
        for character in text {
            // An encoded word contains whole characters and at most 75 bytes, of which 12 are syntax: 45 bytes become 60 in base64.
            let next = Array(character.utf8)
            if bytes.count + next.count > 45, !bytes.isEmpty { words.append(word(bytes)); bytes = [] }
            // A character of many scalars may exceed a word.
            for scalar in character.unicodeScalars {
                let part = Array(String(scalar).utf8)
                if bytes.count + part.count > 45 { words.append(word(bytes)); bytes = [] }
                bytes += part
            }
        }
        if !bytes.isEmpty { words.append(word(bytes)) }
        return words.joined(separator: "\r\n ")
    }

    static func isPlainByte(_ byte: UInt8) -> Bool {
        0x30...0x39 ~= byte || 0x41...0x5A ~= byte || 0x61...0x7A ~= byte || byte == 0x20 || byte == UInt8(ascii: "-")
    }

    private static func word(_ bytes: [UInt8]) -> String { "=?UTF-8?B?\(Base64.encode(bytes))?=" }
}

/// Dates of mails.
enum MailDate {
    private static let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// RFC 5322 §3.3, in UTC: `Sun, 22 Nov 2026 02:28:45 +0000`.
    static func text(_ ms: Int64) -> String {
        let t = parts(ms)
        let clock = [t.tm_hour, t.tm_min, t.tm_sec].map { two($0) }.joined(separator: ":")
        return "\(days[Int(t.tm_wday)]), \(t.tm_mday) \(months[Int(t.tm_mon)]) \(t.tm_year + 1900) \(clock) +0000"
    }

    /// `22.11. 02:28 UTC`: makes the subjects of two mails differ.
    static func short(_ ms: Int64) -> String {
        let t = parts(ms)
        return "\(t.tm_mday).\(t.tm_mon + 1). \(two(t.tm_hour)):\(two(t.tm_min)) UTC"
    }

    private static func parts(_ ms: Int64) -> tm {
        var (seconds, parts) = (time_t(ms / 1000), tm())
        gmtime_r(&seconds, &parts)
        return parts
    }

    private static func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
}
