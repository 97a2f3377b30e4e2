import SecurityRules

/// A rules file as `serve` and `rules check` read it.
enum RulesSource {
    /// All faults of the file, one line each, beginning with the file's name.
    struct Fault: Error { let lines: [String] }

    static func read(_ path: String) -> Result<RuleSet, Fault> {
        switch WholeFile.read(path) {
        case .failure(let fault): return .failure(Fault(lines: ["\(path): \(fault)"]))
        case .success(let bytes):
            do throws(RulesErrors) { return .success(try RuleSet(parsing: bytes)) } catch {
                return .failure(Fault(lines: error.errors.map { "\(path):\($0)" + ($0.hint.map { " (\($0))" } ?? "") }))
            }
        }
    }

    /// Probable mistakes in the file, one line each.
    static func warnings(of rules: RuleSet, in path: String) -> [String] {
        let warnings = rules.warnings
        let most = 50
        let lines = warnings.prefix(most).map { "\(path):\($0.line):\($0.column): warning: \($0.message)" }
        return warnings.count > most ? lines + ["\(path): \(warnings.count - most) more warnings: see vigla rules check"] : lines
    }
}
