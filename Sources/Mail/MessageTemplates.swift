import Foundation

/// Creates messages from templates: built-in ones in English and Greek, or the operator's.
public struct MessageTemplates: Sendable {
    private struct Key: Hashable {
        let kind: MessageKind
        let language: Language
    }

    private let app: String
    private let templates: [Key: MessageTemplate]

    /// The faults of a folder of templates: one line per file.
    public struct Faults: Error, Sendable, CustomStringConvertible {
        public let lines: [String]
        public var description: String { lines.joined(separator: "; ") }
    }

    /// - Parameters:
    ///   - app: the app's name, as users know it.
    ///   - folder: contains `<kind>.<language>.txt` files, each with an optional HTML version `.html`. Missing ones are built in. See
    ///     `MessageTemplate` for their format.
    /// - Throws: all faults of the files.
    public init(app: String, folder: String? = nil) throws(Faults) {
        self.app = app
        var (templates, faults): ([Key: MessageTemplate], [String]) = ([:], [])
        var others = Set(folder.map { (try? FileManager.default.contentsOfDirectory(atPath: $0)) ?? [] } ?? [])
        if let folder, !Self.isFolder(folder) { faults.append("\(folder): no such folder") }
        for kind in MessageKind.allCases {
            for language in Language.allCases {
                let name = "\(kind.rawValue).\(language.rawValue)"
                let files = [name + ".txt", name + ".html"].map { others.remove($0) == nil ? nil : $0 }
                var source = BuiltInTemplates.source(kind, language)
                var html: String?
                do throws(MessageTemplate.Fault) {
                    if let folder, let file = files[0] { source = try Self.read(folder, file) }
                    if let folder, let file = files[1] { html = try Self.read(folder, file) }
                    let template = try MessageTemplate(source, html: html, hasLink: kind != .passwordChanged)
                    templates[Key(kind: kind, language: language)] = template
                } catch {
                    faults.append("\(files.compactMap(\.self).joined(separator: ", ")) \(error.text)")
                }
            }
        }
        for name in others.sorted() where name.hasSuffix(".txt") || name.hasSuffix(".html") {
            let kinds = MessageKind.allCases.map(\.rawValue).joined(separator: ", ")
            faults.append("\(name): templates are called \(kinds), then .en or .el, then .txt or .html")
        }
        guard faults.isEmpty else { throw Faults(lines: faults) }
        self.templates = templates
    }

    private static func isFolder(_ path: String) -> Bool {
        var isFolder: ObjCBool = false
        return FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) && isFolder.boolValue
    }

    private static func read(_ folder: String, _ file: String) throws(MessageTemplate.Fault) -> String {
        guard let data = FileManager.default.contents(atPath: folder + "/" + file), data.count <= 256 << 10 else {
            throw MessageTemplate.Fault(text: "cannot be read, or is larger than 256 KiB")
        }
        guard let text = String(validating: data, as: UTF8.self) else { throw MessageTemplate.Fault(text: "is not UTF-8") }
        return text
    }

    /// - Parameters:
    ///   - email: the account's address.
    ///   - newEmail: the new address, for a change of address.
    ///   - lifeSeconds: the lifetime of the link in seconds.
    ///   - now: ms since the epoch.
    public func message(
        _ kind: MessageKind, _ language: Language, to: MailAddress, email: String, newEmail: String? = nil, link: String? = nil,
        lifeSeconds: Int = 0, now: Int64
    ) -> Message? {
        guard let template = templates[Key(kind: kind, language: language)] else { return nil }
        var values: [MessageTemplate.Place: String] = [.app: app, .email: email, .time: MailDate.short(now)]
        values[.newEmail] = newEmail
        values[.link] = link
        values[.life] = language.span(seconds: lifeSeconds)
        let html = template.html ?? BuiltInTemplates.html(template, language, hasLink: link != nil)
        return Message(
            kind: kind, language: language.rawValue, to: to, subject: MessageTemplate.fill(template.subject, values),
            text: MessageTemplate.fill(template.text, values) + "\n",
            html: MessageTemplate.fill(html, values, escaping: HTMLText.escape), link: link)
    }
}

/// The text of one kind of message in one language, with placeholders:
///
///     Subject: Choose a new password for {{app}} ({{time}})
///     Button: Choose a new password
///
///     Hello,
///
///     someone, probably you, asked for a new password for {{email}}.
///
///     {{link}}
///
/// Header lines, an empty line, paragraphs. Without an HTML version, HTML is generated from the same text, with a button for a link on a line of
/// its own.
struct MessageTemplate: Sendable, Equatable {
    /// The placeholders. `life` is a duration in words, `time` the time of sending.
    enum Place: String, CaseIterable { case app, email, newEmail, link, life, time }

    var subject: String
    var button: String?
    var text: String
    var html: String?

    /// A fault of a template, as text.
    struct Fault: Error, Equatable { let text: String }

    init(_ source: String, html: String? = nil, hasLink: Bool) throws(Fault) {
        // `\r\n` is one character, so a search for "\n" would miss it.
        var lines = source.replacing("\r\n", with: "\n").split(separator: "\n", omittingEmptySubsequences: false)[...]
        var headers: [Substring: Substring] = [:]
        while let line = lines.popFirst(), !line.isEmpty {
            guard let colon = line.firstIndex(of: ":"), ["Subject", "Button"].contains(line[..<colon]) else {
                throw Fault(
                    text: "begins with lines `Subject: …` and `Button: …`, then an empty line; \"\(line.prefix(40))\" is none of them")
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

    /// Replaces the placeholders once; inserted text is not expanded again.
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
