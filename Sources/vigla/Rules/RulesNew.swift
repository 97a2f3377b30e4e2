import ArgumentParser
import Glibc

/// `vigla rules new [NAME]`
struct RulesNew: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "new",
        abstract: "Start a rules file from a recipe, such as comments, votes or friends.",
        discussion: """
            Without a name it lists the recipes. With one it writes the recipe's rules.json and cases.json into the current folder:

              mkdir my-app && cd my-app
              vigla rules new votes
              vigla rules test rules.json cases.json

            It overwrites nothing: if one of the files is there already, it writes neither and exits with 1. --print shows the rules \
            instead, to copy from into a file that you have.

            docs/recipes.md describes each recipe.
            """)

    @Argument(help: "The recipe.", completion: .list(Recipe.all.map(\.name))) var name: String?
    @Flag(help: "Print the recipe's rules, and write no file.") var print = false

    func validate() throws {
        guard let name else {
            if print { throw ValidationError("--print needs the name of a recipe.") }
            return
        }
        guard !Recipe.all.contains(where: { $0.name == name }) else { return }
        let meant = Suggestion.nearest(to: name, of: Recipe.all.map(\.name)).map { " Did you mean '\($0)'?" } ?? ""
        throw ValidationError("There is no recipe '\(name)'.\(meant) 'vigla rules new' lists all of them.")
    }

    func run() throws {
        guard let recipe = Recipe.all.first(where: { $0.name == name }) else { return list() }
        if print { return StandardStream.output.write(Array(recipe.rules.utf8)) }
        write(recipe)
        StandardStream.output.line(
            """
            \(recipe.title): wrote rules.json and cases.json. Next:
              vigla rules test rules.json cases.json
              vigla serve --dev --memory --rules rules.json
            """)
    }

    private func list() {
        let width = Recipe.all.map(\.name.count).max() ?? 0
        var group = ""
        for recipe in Recipe.all {
            if recipe.group != group { StandardStream.output.line(recipe.group) }
            group = recipe.group
            let padding = String(repeating: " ", count: width - recipe.name.count)
            StandardStream.output.line("  \(recipe.name)\(padding)  \(recipe.title)")
        }
        StandardStream.output.line("Write the files of one into this folder: vigla rules new NAME")
    }

    /// Writes both files, or neither and ends the program.
    private func write(_ recipe: Recipe) {
        let files = [("rules.json", recipe.rules), ("cases.json", recipe.cases)]
        let existing = files.map(\.0).filter { access($0, F_OK) == 0 }
        guard existing.isEmpty else {
            fail(
                "\(existing.joined(separator: " and ")) \(existing.count == 1 ? "exists" : "exist") already: nothing was written. "
                    + "Use an empty folder, or show the recipe with --print.")
        }
        var written: [String] = []
        for (file, text) in files {
            if let fault = create(file, text) {
                for file in written { unlink(file) }
                fail("\(file): \(fault)")
            }
            written.append(file)
        }
    }

    /// Creates a file of the current folder, which must not exist.
    /// - Returns: the system's error. Then there is no such file, unless another program created it.
    private func create(_ file: String, _ text: String) -> FileFault? {
        let descriptor = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o666)
        guard descriptor >= 0 else { return FileFault(errno) }
        var (fault, sent): (FileFault?, Int) = (nil, 0)
        let bytes = Array(text.utf8)
        while sent < bytes.count, fault == nil {
            let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress.map { $0 + sent }, bytes.count - sent) }
            if count > 0 { sent += count } else if errno != EINTR { fault = FileFault(errno) }
        }
        if close(descriptor) != 0, fault == nil { fault = FileFault(errno) }
        if fault != nil { unlink(file) }
        return fault
    }
}
