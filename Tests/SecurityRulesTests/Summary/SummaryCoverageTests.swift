import Foundation
import Testing

@testable import SecurityRules

/// Every key of every rules file of this repository yields a sentence, and what a sentence quotes stands in the file.
@Suite struct SummaryCoverageTests {
    private static let root: URL = {
        var folder = URL(fileURLWithPath: #filePath)
        while !FileManager.default.fileExists(atPath: folder.appending(path: "Package.swift").path), folder.path != "/" {
            folder.deleteLastPathComponent()
        }
        return folder
    }()

    /// Rules files below a folder, and the rules in the documents' blocks, with their names.
    private static func files() throws -> [(name: String, rules: RuleSet)] {
        var found: [(name: String, rules: RuleSet)] = []
        func add(_ name: String, _ text: String) {
            if let rules = try? RuleSet(parsing: text) { found.append((name, rules)) }
        }
        for folder in ["Tests/SecurityRulesTests/Corpora/rules", "Examples"] {
            let folder = root.appending(path: folder)
            for case let file as URL in FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil) ?? .init() {
                guard file.pathExtension == "json", let text = try? String(contentsOf: file, encoding: .utf8) else { continue }
                add(file.lastPathComponent, text)
            }
        }
        for page in try FileManager.default.contentsOfDirectory(at: root.appending(path: "docs"), includingPropertiesForKeys: nil)
        where page.pathExtension == "md" {
            let blocks = try String(contentsOf: page, encoding: .utf8).components(separatedBy: "```json").dropFirst()
            for (i, block) in blocks.enumerated() {
                let text = block.components(separatedBy: "\n```")[0].drop { $0 != "\n" }
                add("\(page.lastPathComponent), block \(i + 1)", String(text))
            }
        }
        return found
    }

    /// All texts of a file, in one line each.
    private static func texts(of rules: RuleSet) throws -> [String] {
        var parser = LocatedJSONParser(RulesText(rules.text))
        var texts: [String] = []
        func collect(_ json: LocatedJSON) {
            switch json.value {
            case .string(let text): texts.append(oneLine(text.value))
            case .array(let elements): for element in elements { collect(element) }
            case .object(let members): for member in members { collect(member.value) }
            default: break
            }
        }
        collect(try parser.parse())
        return texts
    }

    private static func oneLine(_ text: String) -> String { text.replacing(/\s*\n\s*/, with: " ") }

    @Test func everyKey_hasASentence() throws {
        let files = try Self.files()
        #expect(files.count >= 40)
        for (name, rules) in files {
            let summary = rules.summary
            let (declared, told) = (Set(rules.declarations.map(\.name)), Set(summary.flatMap { $0.sentences.flatMap(\.keys) }))
            #expect(declared == told, "\(name): \(declared.symmetricDifference(told).sorted())")
            #expect(Set(summary.map(\.place)).count == summary.count, "\(name)")
            for place in summary {
                #expect(place.sentences.count { $0.kind == .read } >= (place.place.hasPrefix("/") ? 1 : 0), "\(name) \(place.place)")
                for sentence in place.sentences {
                    #expect(sentence.text.first?.isUppercase == true && !sentence.text.contains("\n"), "\(name): \(sentence.text)")
                    #expect(sentence.text.hasSuffix(".") || sentence.text.hasSuffix("\""), "\(name): \(sentence.text)")
                }
            }
        }
    }

    @Test func quotes_standInTheFile() throws {
        for (name, rules) in try Self.files() {
            let texts = try Self.texts(of: rules)
            for sentence in rules.summary.flatMap(\.sentences) {
                for quote in sentence.quotes {
                    #expect(sentence.text.contains(quote), "\(name): \(quote)")
                    #expect(texts.contains { $0.contains(Self.oneLine(quote)) }, "\(name): \(quote)")
                }
            }
        }
    }

    @Test func places_areThoseOfTheFile() throws {
        for (name, rules) in try Self.files() {
            for place in rules.summary where place.place.hasPrefix("/") && place.place != "/" {
                let keys = place.place.dropFirst().split(separator: "/")
                #expect(keys.allSatisfy { rules.text.contains("\"\($0)\"") }, "\(name): \(place.place)")
            }
        }
    }
}
