import JSONTree

/// Compiles one `.inbox` of a node.
struct InboxCompiler {
    /// The depth of the node's place.
    let depth: Int
    let captures: [String: Int]
    let functions: Functions
    /// Whether rows of two nodes may share a place: earlier versions accepted that.
    var mayShareRows = false

    func compile(_ source: SourceInbox, number: Int, _ builder: inout ProgramBuilder) throws(TextFault) -> InboxRule {
        let each = try template(source.each, captures)
        if each.hasGeneratedKey { throw fault("A generated key ('+') stands in 'to': 'each' ranges over keys that exist.", source.each) }
        var wildcards: [String?] = []
        for case .every(let name) in each.segments { wildcards.append(name) }
        guard wildcards.count == 1, let wildcard = wildcards[0] else {
            throw fault("'each' has one wildcard of its own, such as $u: it ranges over those who get a row.", source.each)
        }
        guard depth < Path.maxDepth else { throw fault("The wildcard of 'each' is too deep here.", source.each) }
        var all = captures
        all[wildcard] = depth + 1
        let to = try template(source.to, all)
        guard !to.segments.contains(where: { if case .every = $0 { true } else { false } }) else {
            throw fault("A wildcard of the place of a row is one of the node's place, or that of 'each'.", source.to)
        }
        guard to.uses(depth + 1) else { throw fault("The place of a row has the wildcard of 'each', \(wildcard).", source.to) }
        if !to.hasGeneratedKey, let own = captures.first(where: { $0.value == depth })?.key, !to.uses(depth) {
            throw fault(
                "The place of a row has the key of its node, \(own), or a generated one, +: else two nodes would share a row.", source.to)
        }
        let others = captures.sorted { $0.value < $1.value }
        if !mayShareRows, !to.hasGeneratedKey, let missing = others.first(where: { !to.uses($0.value) })?.key {
            throw fault("The place of a row has every wildcard of its node's, also \(missing): else two nodes share a row.", source.to)
        }

        let scope = Scope(kind: .write, captures: captures)
        var rowScope = Scope(kind: .write, captures: all)
        (rowScope.isRowFilter, rowScope.each) = (true, CopyCompiler.snapshot(each, all))
        var members: [InboxRule.Names]?
        if let texts = source.members {
            members = []
            for text in texts { members?.append(try names(text, scope, wildcard, &builder)) }
        }
        var not: [InboxRule.Names] = []
        for text in source.not { not.append(try names(text, scope, wildcard, &builder)) }
        let condition = try rule(source.condition, rowScope, &builder)
        if let changes = source.changes { try mustNotSee(wildcard, changes) }
        let changes = try rule(source.changes, scope, &builder)
        let value = try TemplateCompiler(depth: depth, scope: scope, functions: functions, mustNotSee: { text throws(TextFault) in
            try mustNotSee(wildcard, text)
        }).compile(source.value, &builder)
        if case .node(.null) = value { throw fault("The value of a row is something.", source.to) }
        return InboxRule(
            to: to, each: each, members: members, not: not, condition: condition, changes: changes, value: value, nodeDepth: depth,
            number: number)
    }

    private func fault(_ message: String, _ text: LocatedString) -> TextFault { TextFault(message, text) }

    private func template(_ text: LocatedString, _ captures: [String: Int]) throws(TextFault) -> PathTemplate {
        do throws(ExpressionError) { return try PathTemplate(text.value, captures: captures) } catch {
            throw TextFault(error: error, text: text)
        }
    }

    private func rule(_ text: LocatedString?, _ scope: Scope, _ builder: inout ProgramBuilder) throws(TextFault) -> Int32 {
        guard let text else { return -1 }
        do throws(ExpressionError) {
            let expression = try ExpressionParser.parse(text.value)
            return builder.lower(try Checker.rule(expression, scope: scope, functions: functions), depth: depth)
        } catch { throw TextFault(error: error, text: text) }
    }

    private func names(
        _ text: LocatedString, _ scope: Scope, _ wildcard: String, _ builder: inout ProgramBuilder
    ) throws(TextFault) -> InboxRule.Names {
        try mustNotSee(wildcard, text)
        do throws(ExpressionError) {
            let expression = try ExpressionParser.parse(text.value)
            switch try Checker(scope: scope, functions: functions).check(expression) {
            case .snapshot(let snapshot): return .keys(builder.lower(snapshot, depth: depth))
            case .value(let term, let type) where type.isEquatable && type != .boolean: return .value(builder.lower(term, depth: depth))
            default:
                throw ExpressionError(
                    at: expression.span, message: "This yields keys: a value such as 't0', or a snapshot such as newData.child('tags').")
            }
        } catch { throw TextFault(error: error, text: text) }
    }

    /// Refuses expressions that see the recipient: all rows of a node are equal, so the row is stored once for any number of recipients.
    private func mustNotSee(_ wildcard: String, _ text: LocatedString) throws(TextFault) {
        guard let expression = try? ExpressionParser.parse(text.value) else { return }
        var found: ExpressionError?
        expression.forEach { part in
            guard found == nil, case .variable(let name) = part.kind, name == "each" || name == wildcard else { return }
            found = ExpressionError(
                at: part.span, message: "'\(name)' is seen in 'if' alone: all rows of a node are alike, and found out once.")
        }
        if let found { throw TextFault(error: found, text: text) }
    }
}
