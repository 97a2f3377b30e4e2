import SecurityRules

/// A rules file as `serve` and `rules check` read it.
enum RulesSource {
    /// Everything wrong with the file, one line each, beginning with the file's name.
    struct Fault: Error { let lines: [String] }

    static func read(_ path: String) -> Result<RuleSet, Fault> {
        switch WholeFile.read(path) {
        case .failure(let fault): return .failure(Fault(lines: ["\(path): \(fault)"]))
        case .success(let bytes):
            do throws(RulesErrors) {
                return .success(try RuleSet(parsing: String(decoding: bytes, as: UTF8.self)))
            } catch {
                return .failure(Fault(lines: error.errors.map { "\(path):\($0)" + ($0.hint.map { " (\($0))" } ?? "") }))
            }
        }
    }
}
