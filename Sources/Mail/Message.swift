/// A mail to one user.
public struct Message: Sendable, Equatable {
    /// Nil for a notification.
    public var kind: MessageKind?
    /// Letters and digits, the same for each attempt, by which receivers recognise a repetition; nil: another for each attempt.
    public var id: String?
    /// The language of its texts, a tag of BCP 47; nil: not stated.
    public var language: String?
    public var to: MailAddress
    public var subject: String
    public var text: String
    public var html: String
    /// The link in the message, if any. Only `PrintedMail` shows it.
    public var link: String?

    public init(
        kind: MessageKind?, id: String? = nil, language: String?, to: MailAddress, subject: String, text: String, html: String,
        link: String?
    ) {
        self.kind = kind
        self.id = id
        self.language = language
        self.to = to
        self.subject = subject
        self.text = text
        self.html = html
        self.link = link
    }
}

extension Message {
    /// The kind, for logs.
    var label: String { kind?.rawValue ?? "notification" }
}

/// The kinds of mails that accounts send. The raw value is the `mode` of the mail's link, if any, and part of its templates' names.
public enum MessageKind: String, Sendable, CaseIterable {
    case verifyEmail, resetPassword, signIn
    /// To the new address.
    case verifyAndChangeEmail
    /// To the old address, after the change.
    case recoverEmail
    /// No link: the password was changed.
    case passwordChanged
}

/// A mail address that is valid in an SMTP command and a header without encoding (RFC 5321 §4.1.2, dot-string form).
public struct MailAddress: Sendable, Equatable {
    public let text: String

    /// Nil if it has more than 254 bytes, characters other than printable ASCII without those that quote or separate, or is not `local@domain`.
    /// Addresses with other letters need SMTPUTF8, which few servers support; they get no mail.
    public init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard bytes.count <= 254, let at = bytes.firstIndex(of: UInt8(ascii: "@")) else { return nil }
        let (local, domain) = (bytes[..<at], bytes[(at + 1)...])
        guard 1...64 ~= local.count, !domain.isEmpty else { return nil }
        guard Self.isDotted(local, Self.isAtom), Self.isDotted(domain, Self.isHost) else { return nil }
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

/// The sender of all mails.
public struct MailSender: Sendable, Equatable {
    public var address: MailAddress
    /// The name shown with the address; any text.
    public var name: String

    public init(_ address: MailAddress, name: String) {
        self.address = address
        self.name = name
    }
}

/// The languages of mails and pages.
public enum Language: String, Sendable, CaseIterable {
    case english = "en"
    case greek = "el"

    /// The first supported language that a client requests: its `X-Firebase-Locale`, then `Accept-Language` by weight (accounts contract §2.4).
    /// English if none matches.
    public init(locale: String?, acceptLanguage: String?) {
        self = locale.flatMap { Language(tag: $0) } ?? Self.accepted(acceptLanguage ?? "") ?? .english
    }

    /// `el`, `el-GR`, `el_GR`
    public init?(tag: some StringProtocol) {
        let primary = tag.prefix { $0 != "-" && $0 != "_" }.lowercased()
        self.init(rawValue: primary)
    }

    private static func accepted(_ header: String) -> Language? {
        var best: (language: Language, weight: Double)?
        for item in header.prefix(1000).split(separator: ",").prefix(20) {
            let parts = item.split(separator: ";").map { $0.trimmed }
            guard let tag = parts.first, let language = Language(tag: tag) else { continue }
            let weight = parts.dropFirst().first { $0.hasPrefix("q=") }.flatMap { Double($0.dropFirst(2)) } ?? 1
            if weight > best?.weight ?? 0 { best = (language, weight) }
        }
        return best?.language
    }

    /// Replaces the address of an account without one.
    package var noAddress: String {
        switch self {
        case .english: "none"
        case .greek: "καμία"
        }
    }

    /// A duration in words, rounded down to its unit: `1 hour`, `3 days`.
    func span(seconds: Int) -> String {
        let (count, unit) =
            if seconds >= 2 * 86_400 { (seconds / 86_400, 2) } else if seconds >= 3600 { (seconds / 3600, 1) } else {
                (max(1, seconds / 60), 0)
            }
        let names: [(one: String, many: String)] = switch self {
        case .english: [("minute", "minutes"), ("hour", "hours"), ("day", "days")]
        case .greek: [("λεπτό", "λεπτά"), ("ώρα", "ώρες"), ("ημέρα", "ημέρες")]
        }
        return "\(count) \(count == 1 ? names[unit].one : names[unit].many)"
    }
}

extension Substring {
    fileprivate var trimmed: Substring {
        let start = drop { $0 == " " || $0 == "\t" }
        return start.lastIndex { $0 != " " && $0 != "\t" }.map { start[...$0] } ?? ""
    }
}
