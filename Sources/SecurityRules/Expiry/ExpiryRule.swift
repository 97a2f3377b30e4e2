import JSONTree

/// One `.expire` rule of a node: `{"at": "data.child('dueAt').val()", "if": …, "patch": {"status": "'overdue'"}}`.
struct ExpiryRule: Sendable {
    /// The instruction that yields the time, in ms since the epoch.
    let at: Int32
    /// The instruction of the `if`; -1 for always.
    let condition: Int32
    /// The writes below the node that replace its removal; empty for a removal.
    let patch: [(path: Path, value: ValueTemplate)]
    /// The place of the log row, and the row.
    let log: (to: PathTemplate, value: ValueTemplate)?
}

/// Compiles one `.expire` rule of a node.
struct ExpiryCompiler {
    /// The depth of the node's place.
    let depth: Int
    let captures: [String: Int]
    let functions: Functions

    func compile(_ source: SourceExpiry, _ builder: inout ProgramBuilder) throws(TextFault) -> ExpiryRule {
        let at = try located(source.at) { expression throws(ExpressionError) in
            builder.lower(try Checker.value(expression, scope: scope(.time), functions: functions), depth: depth)
        }
        var condition: Int32 = -1
        if let text = source.condition {
            condition = try located(text) { expression throws(ExpressionError) in
                builder.lower(try Checker.rule(expression, scope: scope(.time), functions: functions), depth: depth)
            }
        }
        var patch: [(path: Path, value: ValueTemplate)] = []
        for member in source.patch ?? [] {
            guard let path = try? Path(parsing: member.name.value), !path.isRoot, !PathTemplate.isMeant(by: member.name.value) else {
                throw fault("A 'patch' has paths below the node, such as \"status\".", member.name)
            }
            guard !patch.contains(where: { $0.path.contains(path) || path.contains($0.path) }) else {
                throw fault("A 'patch' names no place twice.", member.name)
            }
            patch.append((path, try value(member.value, .patch, &builder)))
        }
        guard let log = source.log, let row = source.value else {
            return ExpiryRule(at: at, condition: condition, patch: patch, log: nil)
        }
        let to: PathTemplate
        do throws(ExpressionError) { to = try PathTemplate(log.value, captures: captures).refusingGeneratedKeys() } catch {
            throw TextFault(error: error, text: log)
        }
        if to.segments.contains(where: { if case .every = $0 { true } else { false } }) {
            throw fault("The place of a 'log' has keys, wildcards of the node's place, and values such as {user}.", log)
        }
        return ExpiryRule(at: at, condition: condition, patch: patch, log: (to, try value(row, .row, &builder)))
    }

    private func scope(_ part: ExpiryScope) -> Scope {
        var scope = Scope(kind: .write, captures: captures)
        scope.expiry = part
        return scope
    }

    private func fault(_ message: String, _ text: LocatedString) -> TextFault {
        TextFault(error: ExpressionError(offset: 0, message: message), text: text)
    }

    private func located<R>(_ text: LocatedString, _ body: (Expression) throws(ExpressionError) -> R) throws(TextFault) -> R {
        do throws(ExpressionError) { return try body(ExpressionParser.parse(text.value)) } catch {
            throw TextFault(error: error, text: text)
        }
    }

    private func value(_ json: LocatedJSON, _ part: ExpiryScope, _ builder: inout ProgramBuilder) throws(TextFault) -> ValueTemplate {
        try TemplateCompiler(depth: depth, scope: scope(part), functions: functions).compile(json, &builder)
    }
}

/// The part of an `.expire` that an expression belongs to.
enum ExpiryScope {
    /// `at` and `if`: evaluated again at each start and deploy, so they depend only on the node and `written`.
    case time
    /// `patch`: also depends on the time at which it is applied.
    case patch
    /// The log row, written once.
    case row
}
