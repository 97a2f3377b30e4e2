import ArgumentParser
import Glibc
import SecurityRules

/// `vigla rules …`: work on rules files, without a hub.
struct Rules: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Work on security rules.", subcommands: [Check.self])

    struct Check: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Check a rules file.",
            discussion: "Prints 'FILE: ok (N rules)', or each fault as FILE:LINE:COLUMN: message and exits with 1.")

        @Argument(help: "The rules file.") var file: String

        func run() throws {
            switch RulesSource.read(file) {
            case .success(let rules):
                let count = RulesSource.count(in: rules.text)
                StandardStream.output.line("\(file): ok (\(count) \(count == 1 ? "rule" : "rules"))")
            case .failure(let fault):
                for line in fault.lines { StandardStream.error.line(line) }
                throw ExitCode(1)
            }
        }
    }
}
