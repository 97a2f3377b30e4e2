/// The languages of mails and pages.
public enum Language: String, Sendable, CaseIterable {
    case english = "en"
    case greek = "el"

    /// The first language a client asks for that there is: its `X-Firebase-Locale`, then `Accept-Language` by weight
    /// (accounts contract §2.4); English if none.
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

    /// In the place of an address, for an account that has none any more.
    var noAddress: String {
        switch self {
        case .english: "none"
        case .greek: "καμία"
        }
    }

    /// A span of time in words, rounded down to its unit: `1 hour`, `3 days`.
    func span(seconds: Int) -> String {
        let (count, unit) = seconds >= 2 * 86_400 ? (seconds / 86_400, 2) : seconds >= 3600 ? (seconds / 3600, 1) : (max(1, seconds / 60), 0)
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
