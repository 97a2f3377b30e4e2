import Foundation
import SecurityRules
import Testing

/// The examples of `docs/rules-extensions.md`: a rules file, then its cases.
@Suite(.timeLimit(.minutes(30))) struct DocumentationTests {
    /// A page of the documentation, searched for upwards from this file.
    private static func page(_ name: String) throws -> String {
        var folder = URL(fileURLWithPath: #filePath)
        while folder.path != "/" {
            folder.deleteLastPathComponent()
            let page = folder.appending(path: "docs/" + name)
            if FileManager.default.fileExists(atPath: page.path) { return try String(contentsOf: page, encoding: .utf8) }
        }
        throw CocoaError(.fileNoSuchFile)
    }

    @Test func examples_hold_andHaveNoWarnings() throws {
        let page = try Self.page("rules-extensions.md")
        let blocks = page.components(separatedBy: "```jsonc\n").dropFirst().map { $0.components(separatedBy: "\n```")[0] }
        #expect(blocks.count >= 18 && blocks.count % 2 == 0)
        for (rules, cases) in zip(blocks.enumerated().filter { $0.offset % 2 == 0 }, blocks.enumerated().filter { $0.offset % 2 == 1 }) {
            do throws(RulesErrors) {
                let set = try RuleSet(parsing: rules.element)
                let result = set.run(try RuleCases(parsing: cases.element))
                let failures = result.failures.map { failure in
                    "\(failure.failed.line): \(failure.failed.name): \(failure.message)\n\(failure.trace.map(\.description) ?? "")"
                }
                #expect(failures.isEmpty, "example \(rules.offset / 2 + 1): \(failures)")
                let warnings = set.warnings.filter { !$0.message.contains("at the root") }
                #expect(warnings.isEmpty, "example \(rules.offset / 2 + 1): \(warnings)")
            } catch { Issue.record("example \(rules.offset / 2 + 1): \(error)") }
        }
    }
}
