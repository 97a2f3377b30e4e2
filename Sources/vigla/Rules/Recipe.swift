import CRecipes

/// A recipe of `docs/recipes.md`: a rules file and the cases that prove it.
///
/// The page is compiled into the program, so the command and the page cannot differ.
struct Recipe {
    let name: String
    let title: String
    /// The heading above it, such as `People`.
    let group: String
    let rules: String
    let cases: String

    /// In the order of the page.
    static let all: [Recipe] = {
        var count = 0
        let page = UnsafeBufferPointer(start: vigla_recipes(&count), count: count)
        return parse(String(decoding: page, as: UTF8.self))
    }()

    /// Reads the recipes of a page: ``### Title: `name` ``, then two blocks of JSON with comments. Other text and blocks are ignored.
    static func parse(_ page: String) -> [Recipe] {
        var recipes: [Recipe] = []
        var group = ""
        var heading: (title: String, name: String)?
        var blocks: [String] = []
        // The language and the lines of the open block.
        var open: (language: Substring, lines: [Substring])?
        for line in page.split(separator: "\n", omittingEmptySubsequences: false) {
            if let block = open {
                guard line == "```" else {
                    open?.lines.append(line)
                    continue
                }
                open = nil
                guard block.language == "jsonc", let recipe = heading else { continue }
                blocks.append(block.lines.joined(separator: "\n") + "\n")
                guard blocks.count == 2 else { continue }
                recipes.append(Recipe(name: recipe.name, title: recipe.title, group: group, rules: blocks[0], cases: blocks[1]))
                heading = nil
            } else if line.hasPrefix("```") {
                open = (line.dropFirst(3), [])
            } else if line.hasPrefix("## ") {
                group = String(line.dropFirst(3))
                heading = nil
            } else if line.hasPrefix("### ") {
                let parts = line.dropFirst(4).split(separator: "`")
                heading = parts.count == 2 && parts[0].hasSuffix(": ") ? (String(parts[0].dropLast(2)), String(parts[1])) : nil
                blocks = []
            }
        }
        return recipes
    }
}
