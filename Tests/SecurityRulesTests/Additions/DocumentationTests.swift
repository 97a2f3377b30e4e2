import Foundation
import SecurityRules
import Testing

/// The examples of `docs/rules-extensions.md` and `docs/recipes.md`: a rules file, then its cases.
@Suite(.timeLimit(.minutes(30))) struct DocumentationTests {
    /// A rules file of a page, with the cases in the block after it.
    private struct Example {
        /// The heading above it, without its marks.
        let heading: String
        let rules: String
        let cases: String
    }

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

    private static func examples(_ name: String) throws -> [Example] {
        var examples: [Example] = []
        var (heading, rules): (String, String?) = ("", nil)
        let parts = try page(name).components(separatedBy: "```jsonc\n")
        for (before, part) in zip(parts, parts.dropFirst()) {
            // Code between two blocks may have lines that begin with `#` as well.
            let prose = before.components(separatedBy: "\n```").last ?? ""
            if let line = prose.split(separator: "\n").last(where: { $0.hasPrefix("## ") || $0.hasPrefix("### ") }) {
                heading = String(line.drop { $0 == "#" || $0 == " " })
            }
            let block = part.components(separatedBy: "\n```")[0]
            if let file = rules {
                examples.append(Example(heading: heading, rules: file, cases: block))
                rules = nil
            } else {
                rules = block
            }
        }
        #expect(rules == nil, "\(name): '\(heading)' has rules without cases")
        return examples
    }

    @Test(arguments: [("rules-extensions.md", 18), ("recipes.md", 34)])
    func examples_hold_andHaveNoWarnings(name: String, atLeast: Int) throws {
        let examples = try Self.examples(name)
        #expect(examples.count >= atLeast)
        for example in examples {
            do throws(RulesErrors) {
                let set = try RuleSet(parsing: example.rules)
                let result = set.run(try RuleCases(parsing: example.cases))
                let failures = result.failures.map { failure in
                    "\(failure.failed.line): \(failure.failed.name): \(failure.message)\n\(failure.trace.map(\.description) ?? "")"
                }
                #expect(failures.isEmpty, "\(example.heading): \(failures)")
                let warnings = set.warnings.filter { !$0.message.contains("at the root") }
                #expect(warnings.isEmpty, "\(example.heading): \(warnings)")
            } catch { Issue.record("\(example.heading): \(error)") }
        }
    }

    /// What no recipe allows: the whole tree, and a place that it does not name.
    private static let outside = """
        { "cases": [
          { "read": "/", "expect": "deny" }, { "write": "/", "value": 1, "expect": "deny" },
          { "read": "/other", "expect": "deny" }, { "write": "/other", "value": 1, "expect": "deny" }
        ] }
        """

    /// A recipe with only allowed cases would also pass with rules that allow everything.
    @Test func recipes_areClosed_andAreInTheTable() throws {
        let page = try Self.page("recipes.md")
        var names: Set<String> = []
        for example in try Self.examples("recipes.md") {
            let name = try #require(example.heading.split(separator: "`").dropFirst().first.map(String.init), "\(example.heading)")
            #expect(names.insert(name).inserted, "two recipes are called \(name)")
            #expect(page.contains("| [`\(name)`](#"), "\(name) is not in the table")
            for outcome in ["\"expect\": \"allow\"", "\"expect\": \"deny\"", "\"then\": {"] {
                #expect(example.cases.contains(outcome), "\(name) has no case with \(outcome)")
            }
            let rules = try RuleSet(parsing: example.rules)
            #expect(rules.run(try RuleCases(parsing: Self.outside)).failures.isEmpty, "\(name) is open to strangers")
        }
        #expect(page.components(separatedBy: "| [`").count - 1 == names.count, "the table has a recipe that is not there")
    }
}
