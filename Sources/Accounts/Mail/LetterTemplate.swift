/// The words of one kind of letter in one language, with places to fill in:
///
///     Subject: Choose a new password for {{app}} ({{time}})
///     Button: Choose a new password
///
///     Hello,
///
///     somebody, probably you, asked for a new password for {{email}}.
///
///     {{link}}
///
/// Header lines, an empty line, paragraphs. The HTML form is made of the same words, with a button where the link stands
/// alone, unless it is given too.
struct LetterTemplate: Sendable, Equatable {
    /// What can be filled in. `life` is a span of time in words, `time` the time of day of sending.
    enum Place: String, CaseIterable { case app, email, newEmail, link, life, time }

    var subject: String
    var button: String?
    var text: String
    var html: String?

    /// What is wrong with a template, in words.
    struct Fault: Error, Equatable { let text: String }

    init(_ source: String, html: String? = nil, hasLink: Bool) throws(Fault) {
        // `\r\n` is one character: it would not be found as a line's end.
        var lines = source.replacing("\r\n", with: "\n").split(separator: "\n", omittingEmptySubsequences: false)[...]
        var headers: [Substring: Substring] = [:]
        while let line = lines.popFirst(), !line.isEmpty {
            guard let colon = line.firstIndex(of: ":"), ["Subject", "Button"].contains(line[..<colon]) else {
                throw Fault(text: "begins with lines `Subject: …` and `Button: …`, then an empty line; \"\(line.prefix(40))\" is none of them")
            }
            headers[line[..<colon]] = line[line.index(after: colon)...].drop { $0 == " " }
        }
        guard let subject = headers["Subject"], !subject.isEmpty else { throw Fault(text: "has no line `Subject: …` at its beginning") }
        self.subject = String(subject)
        button = headers["Button"].map { String($0) }
        var paragraphs = lines.joined(separator: "\n")
        while paragraphs.hasSuffix("\n") { paragraphs.removeLast() }
        text = paragraphs
        self.html = html
        for part in [self.subject, button ?? "", text, html ?? ""] { try Self.check(part) }
        guard hasLink else { return }
        guard text.contains("{{link}}"), html?.contains("{{link}}") ?? true else { throw Fault(text: "does not say {{link}}") }
    }

    private static func check(_ text: String) throws(Fault) {
        var rest = text[...]
        while let open = rest.firstRange(of: "{{") {
            guard let close = rest[open.upperBound...].firstRange(of: "}}") else { throw Fault(text: "has {{ without }}") }
            let name = rest[open.upperBound..<close.lowerBound]
            guard Place(rawValue: String(name)) != nil else {
                throw Fault(text: "says {{\(name.prefix(40))}}; there are \(Place.allCases.map(\.rawValue).joined(separator: ", "))")
            }
            rest = rest[close.upperBound...]
        }
    }

    /// Text with its places filled in, once: what is filled in is not looked at again.
    static func fill(_ text: String, _ values: [Place: String], escaping escape: (String) -> String = { $0 }) -> String {
        var out = ""
        var rest = text[...]
        while let open = rest.firstRange(of: "{{"), let close = rest[open.upperBound...].firstRange(of: "}}") {
            out += rest[..<open.lowerBound]
            if let place = Place(rawValue: String(rest[open.upperBound..<close.lowerBound])) { out += escape(values[place] ?? "") }
            rest = rest[close.upperBound...]
        }
        return out + rest
    }
}
