import JSONTree

extension SourceWatch {
    /// The place of a hit, with a wildcard for the key of what is found.
    var toWithItem: LocatedString { LocatedString(value: to.value.replacing("{item}", with: "*"), quote: to.quote) }
}

extension RulesLinter {
    /// Compiles the watches of a node for the warnings about their expressions.
    func watches(of node: SourceNode, _ steps: [RefusedTargets.Step], _ captures: [String: Int]) {
        if node.watches.isEmpty { return }
        let compiler = WatchCompiler(
            pattern: Path(steps.map { if case .key(let key) = $0 { key } else { Key("$") } }), captures: captures,
            functions: functions, geo: geo)
        for watch in node.watches {
            var builder = ProgramBuilder()
            _ = try? compiler.compile(watch, number: 0, &builder)
        }
    }

    /// Warns about hits that are always refused.
    mutating func watchTargets(
        _ node: SourceNode, captures: [String: Int], depth: Int, _ targets: inout RefusedTargets
    ) {
        for watch in node.watches {
            guard let to = try? PathTemplate(watch.toWithItem.value, captures: captures) else { continue }
            refused(watch.to.quote, "The hit", "every write that the watch finds", targets.refusal(at: to.steps, .something))
        }
    }
}
