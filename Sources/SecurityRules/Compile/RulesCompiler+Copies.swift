import JSONTree

/// Compiles one of a node's copies.
struct CopyCompiler {
    /// Depth of the node's place.
    let depth: Int
    let captures: [String: Int]
    let functions: Functions

    func compile(_ copy: SourceCopy, _ builder: inout ProgramBuilder) throws(TextFault) -> CopyRule {
        var text = copy.to
        do throws(ExpressionError) {
            var all = captures
            var each: PathTemplate?
            if let source = copy.each {
                text = source
                let template = try PathTemplate(source.value, captures: captures).refusingGeneratedKeys()
                for case .every(let name?) in template.segments { all[name] = depth + 1 + all.count - captures.count }
                guard depth + all.count - captures.count <= Path.maxDepth else {
                    throw ExpressionError(offset: 0, message: "Too many wildcards for so deep a place.")
                }
                each = template
            }
            text = copy.to
            let to = try PathTemplate(copy.to.value, captures: all)
            if to.segments.contains(where: { if case .every = $0 { true } else { false } }) {
                throw ExpressionError(offset: 0, message: "A wildcard of the place of a copy is one of the node's place, or of 'each'.")
            }
            if let each, !all.keys.filter({ captures[$0] == nil }).allSatisfy({ name in to.uses(all[name] ?? 0) }) || each.hasStar {
                throw ExpressionError(offset: 0, message: "The place of a copy has every wildcard of 'each': else two would be one.")
            }
            var condition: Int32 = -1
            if let source = copy.condition {
                text = source
                guard let each else { throw ExpressionError(offset: 0, message: "'if' belongs to 'each'.") }
                var scope = Scope(kind: .write, captures: all)
                scope.each = Self.snapshot(each, all)
                let expression = try ExpressionParser.parse(source.value)
                condition = builder.lower(try Checker.rule(expression, scope: scope, functions: functions), depth: depth)
            }
            return CopyRule(to: to, each: each, condition: condition, nodeDepth: depth)
        } catch { throw TextFault(error: error, text: text) }
    }

    /// The place that `each` ranges over, as the expression's snapshot.
    static func snapshot(_ template: PathTemplate, _ captures: [String: Int]) -> SnapshotTerm {
        template.segments.reduce(SnapshotTerm.newRoot) { parent, segment in
            let name: Term.Kind = switch segment {
            case .key(let key): .constant(.string(key.string))
            case .capture(let depth): .capture(depth: depth)
            case .every(let name): .capture(depth: captures[name ?? ""] ?? 1)
            // `each` has none.
            case .generated(let name): .constant(.string(name))
            case .value(let path):
                .val(path.keys.reduce(SnapshotTerm.newData) { parent, key in
                    .child(parent, Term(kind: .constant(.string(key.string)), span: .none))
                })
            }
            return .child(parent, Term(kind: name, span: .none))
        }
    }
}

extension PathTemplate {
    /// Whether places of different keys at a wildcard differ.
    func uses(_ depth: Int) -> Bool { segments.contains { if case .capture(depth) = $0 { true } else { false } } }
    fileprivate var hasStar: Bool { segments.contains { if case .every(nil) = $0 { true } else { false } } }
}
