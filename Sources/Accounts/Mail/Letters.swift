import Foundation

/// Writes letters: built-in words in English and Greek, or an operator's own.
public struct Letters: Sendable {
    private struct Key: Hashable {
        let kind: LetterKind
        let language: Language
    }

    private let app: String
    private let templates: [Key: LetterTemplate]

    /// What is wrong with a folder of templates: a line for each file.
    public struct Faults: Error, Sendable, CustomStringConvertible {
        public let lines: [String]
        public var description: String { lines.joined(separator: "; ") }
    }

    /// - Parameters:
    ///   - app: what users call what they sign in to.
    ///   - folder: files `<kind>.<language>.txt`, and beside one its HTML form `.html`; what is not there is built in. See
    ///     `LetterTemplate` for their form.
    /// - Throws: all that is wrong with the files.
    public init(app: String, folder: String? = nil) throws(Faults) {
        self.app = app
        var (templates, faults): ([Key: LetterTemplate], [String]) = ([:], [])
        var strangers = Set(folder.map { (try? FileManager.default.contentsOfDirectory(atPath: $0)) ?? [] } ?? [])
        if let folder, !Self.isFolder(folder) { faults.append("\(folder): no such folder") }
        for kind in LetterKind.allCases {
            for language in Language.allCases {
                let name = "\(kind.rawValue).\(language.rawValue)"
                let files = [name + ".txt", name + ".html"].map { strangers.remove($0) == nil ? nil : $0 }
                var source = BuiltInLetters.source(kind, language)
                var html: String?
                do throws(LetterTemplate.Fault) {
                    if let folder, let file = files[0] { source = try Self.read(folder, file) }
                    if let folder, let file = files[1] { html = try Self.read(folder, file) }
                    templates[Key(kind: kind, language: language)] = try LetterTemplate(source, html: html, hasLink: kind != .passwordChanged)
                } catch {
                    faults.append("\(files.compactMap(\.self).joined(separator: ", ")) \(error.text)")
                }
            }
        }
        for name in strangers.sorted() where name.hasSuffix(".txt") || name.hasSuffix(".html") {
            faults.append("\(name): templates are called \(LetterKind.allCases.map(\.rawValue).joined(separator: ", ")), then .en or .el, then .txt or .html")
        }
        guard faults.isEmpty else { throw Faults(lines: faults) }
        self.templates = templates
    }

    private static func isFolder(_ path: String) -> Bool {
        var isFolder: ObjCBool = false
        return FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) && isFolder.boolValue
    }

    private static func read(_ folder: String, _ file: String) throws(LetterTemplate.Fault) -> String {
        guard let data = FileManager.default.contents(atPath: folder + "/" + file), data.count <= 256 << 10 else {
            throw LetterTemplate.Fault(text: "cannot be read, or is larger than 256 KiB")
        }
        guard let text = String(validating: data, as: UTF8.self) else { throw LetterTemplate.Fault(text: "is not UTF-8") }
        return text
    }

    /// - Parameters:
    ///   - email: the account's address.
    ///   - newEmail: what it becomes or became, where that is the matter.
    ///   - lifeSeconds: how long the link lives.
    ///   - now: ms since the epoch.
    public func letter(
        _ kind: LetterKind, _ language: Language, to: MailAddress, email: String, newEmail: String? = nil, link: String? = nil, lifeSeconds: Int = 0,
        now: Int64
    ) -> Letter? {
        guard let template = templates[Key(kind: kind, language: language)] else { return nil }
        var values: [LetterTemplate.Place: String] = [.app: app, .email: email, .time: MailDate.short(now)]
        values[.newEmail] = newEmail
        values[.link] = link
        values[.life] = language.span(seconds: lifeSeconds)
        let html = template.html ?? BuiltInLetters.html(template, language, hasLink: link != nil)
        return Letter(
            kind: kind, language: language, to: to, subject: LetterTemplate.fill(template.subject, values),
            text: LetterTemplate.fill(template.text, values) + "\n", html: LetterTemplate.fill(html, values, escaping: HTMLText.escape), link: link)
    }
}
