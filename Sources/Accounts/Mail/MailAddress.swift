/// A mail address that can be put into an SMTP command and a header as it is (RFC 5321 §4.1.2, dot-string form).
public struct MailAddress: Sendable, Equatable {
    public let text: String

    /// Nil: more than 254 bytes, anything but printable ASCII without the characters that quote or separate, or no
    /// `local@domain`. Addresses with other letters need SMTPUTF8, which few servers take; they get no mail.
    public init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard bytes.count <= 254, let at = bytes.firstIndex(of: UInt8(ascii: "@")) else { return nil }
        let (local, domain) = (bytes[..<at], bytes[(at + 1)...])
        guard 1...64 ~= local.count, !domain.isEmpty, Self.isDotted(local, Self.isAtom), Self.isDotted(domain, Self.isHost) else { return nil }
        self.text = text
    }

    public var domain: String { String(text.drop { $0 != "@" }.dropFirst()) }

    private static func isDotted(_ bytes: ArraySlice<UInt8>, _ isAllowed: (UInt8) -> Bool) -> Bool {
        bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).allSatisfy { !$0.isEmpty && $0.allSatisfy(isAllowed) }
    }

    /// RFC 5322 `atext`.
    private static func isAtom(_ byte: UInt8) -> Bool { isHost(byte) || "!#$%&'*+/=?^_`{|}~".utf8.contains(byte) }

    private static func isHost(_ byte: UInt8) -> Bool {
        0x30...0x39 ~= byte || 0x41...0x5A ~= byte || 0x61...0x7A ~= byte || byte == UInt8(ascii: "-")
    }
}
