import ArgumentParser

/// Suggests the probable command for an unknown one. (The argument parser does so for options.)
enum Suggestion {
    /// Other tools' words for commands.
    private static let synonyms = [
        "start": "serve", "run": "serve", "server": "serve", "up": "serve", "delete": "remove", "del": "remove", "rm": "remove",
        "put": "set", "write": "set", "patch": "update", "post": "push", "add": "push", "read": "get", "show": "get", "cat": "get",
        "listen": "watch", "observe": "watch", "stream": "watch", "tail": "watch", "status": "health", "ping": "health", "check": "doctor",
        "restore": "backup", "users": "user", "account": "user", "accounts": "user", "secrets": "secret", "tokens": "token", "ls": "list",
        "dump": "export", "load": "import", "restart": "serve",
    ]

    /// A message for the first word in a command's place that is not a command; nil when all are known.
    static func unknownCommand(_ arguments: some Sequence<String>) -> String? {
        var command: any ParsableCommand.Type = Vigla.self
        var line = "vigla"
        for word in arguments {
            let names = command.configuration.subcommands.map(name)
            guard !names.isEmpty, !word.hasPrefix("-"), word != "help" else { return nil }
            if let index = names.firstIndex(of: word) {
                command = command.configuration.subcommands[index]
                line += " \(word)"
                continue
            }
            let meant = nearest(to: word, of: names).map { " Did you mean '\(line) \($0)'?" } ?? ""
            return "There is no command '\(line) \(word)'.\(meant)\nThere are: \(names.joined(separator: ", ")).  See '\(line) --help'."
        }
        return nil
    }

    /// A hint behind the argument parser's message, where that message alone would not help; nil otherwise.
    static func hint(_ arguments: some Collection<String>, _ message: String) -> String? {
        let command = arguments.first ?? ""
        if message.contains("nexpected argument"), ["set", "update", "push"].contains(command) || arguments.contains("claims") {
            return WrittenValue.shellQuotes
        }
        let isQuery = queries.contains { message.contains("Unknown option '\($0)'") }
        return isQuery && !["get", "watch"].contains(command) ? "Only 'vigla get' and 'vigla watch' take queries." : nil
    }

    private static let queries = [
        "--order-by", "--start", "--end", "--equal", "--limit", "--last", "--where", "--near", "--within", "--shallow",
    ]

    private static func name(_ command: any ParsableCommand.Type) -> String {
        command.configuration.commandName ?? "\(command)".lowercased()
    }

    /// The name that a word probably means: a synonym, a prefix of a name, or a name within an edit distance of a third of its letters and at most
    /// two.
    static func nearest(to word: String, of names: [String]) -> String? {
        let word = word.lowercased()
        if let meant = synonyms[word], names.contains(meant) { return meant }
        if word.count >= 2, let longer = names.first(where: { $0.hasPrefix(word) }) { return longer }
        return slip(word, of: names)
    }

    /// The name within an edit distance of a third of a word's letters, at most two.
    static func slip(_ word: String, of names: [String]) -> String? {
        let most = min(2, max(1, word.count / 3))
        return names.map { ($0, distance(Array(word), Array($0))) }.filter { $0.1 <= most }.min { $0.1 < $1.1 }?.0
    }

    /// Edit distance: letters to insert, remove, replace or swap with the next one. O(a · b)
    private static func distance(_ a: [Character], _ b: [Character]) -> Int {
        var rows = [Array(0...b.count)]
        for i in a.indices {
            var row = [i + 1]
            for j in b.indices {
                var least = min(rows[i][j + 1] + 1, row[j] + 1, rows[i][j] + (a[i] == b[j] ? 0 : 1))
                if i > 0, j > 0, a[i] == b[j - 1], a[i - 1] == b[j] { least = min(least, rows[i - 1][j - 1] + 1) }
                row.append(least)
            }
            rows.append(row)
        }
        return rows[a.count][b.count]
    }
}
