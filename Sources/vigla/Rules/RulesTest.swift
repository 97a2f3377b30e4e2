import ArgumentParser
import SecurityRules

/// `vigla rules test FILE CASES`
struct RulesTest: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "test",
        abstract: "Run allow and deny cases against a rules file, for CI.",
        discussion: """
            CASES is a JSON file: users, data, the time, and cases such as

              { "as": "eve", "write": "/users/ada/name", "value": "Eve", "expect": "deny" }

            docs/rules.md describes the format. Prints each failed case with the values of the evaluated rules, and the \
            rules that no case has seen both true and false. Exits with 1 if a case failed.
            """)

    @Argument(help: "The rules file.") var file: String
    @Argument(help: "The file of cases.") var cases: String
    @Flag(help: "List every rule with how often it was true and false.") var coverage = false
    @Flag(help: "Exit with 1 unless every rule was seen both true and false.") var requireCoverage = false

    func run() throws {
        let rules: RuleSet
        switch RulesSource.read(file) {
        case .success(let read): rules = read
        case .failure(let fault): throw failure(fault.lines)
        }
        let result = rules.run(try readCases())
        for failure in result.failures { report(failure) }
        report(result.coverage)
        let passed = result.count - result.failures.count
        StandardStream.output.line(
            "\(passed) of \(result.count) cases passed; \(result.coverage.coveredCount) of \(result.coverage.rules.count) rules seen both "
                + "ways")
        if !result.failures.isEmpty || (requireCoverage && !result.coverage.isComplete) { throw ExitCode(1) }
    }

    private func readCases() throws -> RuleCases {
        switch WholeFile.read(cases) {
        case .failure(let fault): throw failure(["\(cases): \(fault)"])
        case .success(let bytes):
            do throws(RulesErrors) {
                return try RuleCases(parsing: String(decoding: bytes, as: UTF8.self), file: besideCases)
            } catch { throw failure(error.errors.map { "\(cases):\($0)" + ($0.hint.map { " (\($0))" } ?? "") }) }
        }
    }

    /// Reads a file that the cases name, relative to their folder.
    private func besideCases(_ name: String) -> String? {
        let folder = cases.lastIndex(of: "/").map { cases[...$0] } ?? ""
        guard case .success(let bytes) = WholeFile.read(name.hasPrefix("/") ? name : folder + name) else { return nil }
        return String(decoding: bytes, as: UTF8.self)
    }

    private func failure(_ lines: [String]) -> ExitCode {
        for line in lines { StandardStream.error.line(line) }
        return ExitCode(1)
    }

    private func report(_ failure: RuleCaseFailure) {
        let place = "\(cases):\(failure.failed.line):\(failure.failed.column)"
        StandardStream.output.line("\(place): FAILED: \(failure.failed.name): \(failure.message)")
        guard let trace = failure.trace else { return }
        if !trace.isAllowed { StandardStream.output.line("    \(trace.reason)") }
        if trace.steps.isEmpty { StandardStream.output.line("    no rule was evaluated") }
        for step in trace.steps {
            let outcome: String
            switch step.outcome {
            case .allowed: outcome = "true"
            case .refused: outcome = "false"
            case .failed(let reason, _): outcome = "failed: \(reason)"
            }
            StandardStream.output.line(
                "    \(file):\(step.source.line):\(step.source.column): \(step.pattern)\(step.kind.rawValue) => \(outcome)")
            for part in step.parts {
                StandardStream.output.line("      " + String(repeating: "  ", count: part.depth) + part.description)
            }
        }
    }

    private func report(_ covered: RuleCoverage) {
        for name in covered.unknown { StandardStream.output.line("\(cases): 'neverFalse' names a rule that is not there: \(name)") }
        for rule in covered.rules where coverage || !rule.isCovered {
            let counts = coverage ? " (true \(rule.trueCount), not true \(rule.falseCount))" : ""
            StandardStream.output.line("\(file):\(rule.source.line):\(rule.source.column): \(rule.name): \(rule.gap ?? "covered")\(counts)")
        }
    }
}
