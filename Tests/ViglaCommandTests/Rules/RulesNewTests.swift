import Foundation
import Testing
import TestSupport

@testable import vigla

/// `vigla rules new` offers what docs/recipes.md has, and spoils no file.
@Suite(.timeLimit(.minutes(30))) struct RulesNewTests {
    private func page() throws -> String {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../../..")
        return try String(contentsOf: root.appending(path: "docs/recipes.md"), encoding: .utf8)
    }

    private func text(_ folder: TemporaryFolder, _ name: String) throws -> String {
        try String(contentsOfFile: folder.at(name), encoding: .utf8)
    }

    @Test func list_hasEveryRecipe_inTheOrderOfThePage() throws {
        let page = try page()
        let headings = page.split(separator: "\n").filter { $0.hasPrefix("### ") }.map { $0.dropFirst(4) }
        #expect(Recipe.all.map { "\($0.title): `\($0.name)`" } == headings.map(String.init) && headings.count > 10)
        for recipe in Recipe.all {
            #expect(page.contains("```jsonc\n\(recipe.rules)```\n\n```jsonc\n\(recipe.cases)```\n"), "\(recipe.name)")
        }
        let result = try Command.run("rules", "new")
        #expect(result.code == 0)
        let lines = result.output.split(separator: "\n")
        #expect(lines.filter { $0.hasPrefix("  ") }.map { $0.split(separator: " ")[0] } == Recipe.all.map { Substring($0.name) })
        #expect(lines.contains("Content") && lines.contains { $0.hasSuffix("  Votes with a counter") }, "\(result.output)")
    }

    @Test func recipe_isWritten_andPasses() throws {
        let folder = try TemporaryFolder()
        let result = try Command.run("rules", "new", "votes", in: folder.url)
        #expect(result.code == 0 && result.output.contains("vigla rules test rules.json cases.json"), "\(result)")
        #expect(result.output.contains("vigla serve --dev --memory --rules rules.json"))
        let recipe = try #require(Recipe.all.first { $0.name == "votes" })
        #expect(try text(folder, "rules.json") == recipe.rules && text(folder, "cases.json") == recipe.cases)
        #expect(try Command.run("rules", "check", "--strict", "rules.json", in: folder.url).code == 0)
        #expect(try Command.run("rules", "test", "rules.json", "cases.json", in: folder.url).code == 0)
    }

    @Test(arguments: ["rules.json", "cases.json"]) func existingFile_isKept_andNothingIsWritten(name: String) throws {
        let folder = try TemporaryFolder()
        try folder.file(name, "mine")
        let result = try Command.run("rules", "new", "votes", in: folder.url)
        #expect(result.code == 1 && result.output.isEmpty)
        #expect(result.error.hasPrefix("vigla: \(name) exists already: nothing was written."), "\(result.error)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == [name])
        #expect(try text(folder, name) == "mine")
        let printed = try Command.run("rules", "new", "votes", "--print", in: folder.url)
        #expect(printed.code == 0 && printed.output == Recipe.all.first { $0.name == "votes" }?.rules)
    }

    @Test func danglingLink_isNotFollowed() throws {
        let folder = try TemporaryFolder()
        try FileManager.default.createSymbolicLink(atPath: folder.at("cases.json"), withDestinationPath: folder.at("elsewhere"))
        let result = try Command.run("rules", "new", "votes", in: folder.url)
        #expect(result.code == 1 && result.error.hasPrefix("vigla: cases.json: "), "\(result.error)")
        #expect(!FileManager.default.fileExists(atPath: folder.at("elsewhere")))
        #expect(!FileManager.default.fileExists(atPath: folder.at("rules.json")), "neither or both")
    }

    @Test func unknownName_isSuggested() throws {
        for (name, meant) in [("vote", "votes"), ("freinds", "friends")] where Recipe.all.contains(where: { $0.name == meant }) {
            let result = try Command.run("rules", "new", name)
            #expect(result.code == 64 && result.error.contains("There is no recipe '\(name)'. Did you mean '\(meant)'?"), "\(result.error)")
        }
        let other = try Command.run("rules", "new", "xyzzy")
        #expect(other.code == 64 && other.error.contains("There is no recipe 'xyzzy'. 'vigla rules new' lists all of them."))
        #expect(try Command.run("rules", "new", "--print").code == 64)
    }

    @Test func page_isReadWithoutItsOtherBlocks() {
        let block = { (text: String) in "```jsonc\n\(text)\n```\n\n" }
        let page = "# Page\n\n```sh\n### No: `heading`\n```\n\n## People\n\n### With `code`\n\n" + block("0")
            + "### Friends: `friends`\n\nText.\n\n```js\nno\n```\n\n" + block("{\n}") + block("[]") + block("more")
        let recipes = Recipe.parse(page)
        #expect(recipes.map(\.name) == ["friends"] && recipes.map(\.group) == ["People"] && recipes.map(\.title) == ["Friends"])
        #expect(recipes.map(\.rules) == ["{\n}\n"] && recipes.map(\.cases) == ["[]\n"])
    }
}
