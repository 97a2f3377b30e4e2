import ArgumentParser
import Glibc
import SecurityRules

/// `vigla rules …`: start, test, deploy and explain rules files.
struct Rules: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Work on security rules.",
        subcommands: [RulesNew.self, Check.self, RulesTest.self, RulesDeploy.self, RulesGet.self, RulesExplain.self])

    struct Check: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Check a rules file.",
            discussion: """
                Prints 'FILE: ok (N rules)', or each fault as FILE:LINE:COLUMN: message and exits with 1.

                Warns of probable mistakes: rules that never grant or never run, comparisons that grant because both sides \
                are missing, misspelled names, full access at the root, indexes in the wrong place. Warnings fail only with --strict.
                """)

        @Argument(help: "The rules file.") var file: String
        @Flag(help: "Exit with 1 if there are warnings.") var strict = false

        func run() throws {
            switch RulesSource.read(file) {
            case .success(let rules):
                let warnings = rules.warnings
                for warning in warnings {
                    StandardStream.error.line("\(file):\(warning.line):\(warning.column): warning: \(warning.message)")
                }
                if strict, !warnings.isEmpty { throw ExitCode(1) }
                let count = rules.rules.count
                StandardStream.output.line("\(file): ok (\(count) \(count == 1 ? "rule" : "rules"))")
            case .failure(let fault):
                for line in fault.lines { StandardStream.error.line(line) }
                throw ExitCode(1)
            }
        }
    }
}
