import JSONTree
import SecurityRules
import TestSupport

/// A rule node of the model, and the cascade as the contract defines it (§10).
final class ModelRules {
    var rules: [RuleKind: ModelExpression] = [:]
    var literals: [String: ModelRules] = [:]
    var wildcard: (name: String, node: ModelRules)?

    init(_ random: inout SeededRandom, depth: Int, captures: [String] = []) {
        for (kind, percent) in [(RuleKind.read, 30), (.write, 40), (.validate, 45)] where random.chance(percent) {
            var maker = ExpressionMaker(random: SeededRandom(random.next()), captures: captures, allowsNewData: kind != .read)
            rules[kind] = random.chance(25) ? .literal(.bool(random.chance(80))) : maker.boolean(3)
        }
        guard depth > 0 else { return }
        for key in ["a", "b", "0"] where random.chance(40) { literals[key] = ModelRules(&random, depth: depth - 1, captures: captures) }
        if random.chance(50) {
            let name = "$w\(depth)"
            wildcard = (name, ModelRules(&random, depth: depth - 1, captures: captures + [name]))
        }
    }

    var json: String {
        var members = rules.map { "\(quoted($0.key.rawValue)):\(quoted($0.value.text))" }
        members += literals.map { "\(quoted($0.key)):\($0.value.json)" }
        if let wildcard { members.append("\(quoted(wildcard.name)):\(wildcard.node.json)") }
        return "{" + members.joined(separator: ",") + "}"
    }

    /// The rule nodes along a path with their contexts, as deep as the rules go.
    private func chain(_ path: [String], _ context: ModelInterpreter) -> [(ModelRules, ModelInterpreter)] {
        var (node, context) = (self, context)
        var chain = [(node, context)]
        for key in path {
            context.path.append(key)
            if let next = node.literals[key] {
                node = next
            } else if let (name, next) = node.wildcard {
                context.captures[name] = key
                node = next
            } else {
                break
            }
            chain.append((node, context))
        }
        return chain
    }

    private func isTrue(_ kind: RuleKind, _ context: ModelInterpreter) -> Bool? {
        rules[kind].map { (try? context.truth($0)) ?? false }
    }

    func allowsRead(_ path: [String], _ context: ModelInterpreter) -> Bool {
        chain(path, context).contains { $0.0.isTrue(.read, $0.1) == true }
    }

    func allowsWrite(_ paths: [[String]], _ context: ModelInterpreter) -> Bool {
        paths.allSatisfy { path in
            let chain = chain(path, context)
            guard chain.contains(where: { $0.0.isTrue(.write, $0.1) == true }) else { return false }
            let isValid = chain.allSatisfy { node, context in
                let stored = context.path.reduce(context.new) { $0.child(Key($1)) }
                return stored.isNull || node.isTrue(.validate, context) ?? true
            }
            guard isValid, chain.count == path.count + 1, let (node, context) = chain.last else { return isValid }
            return node.areDescendantsValid(context)
        }
    }

    private func areDescendantsValid(_ context: ModelInterpreter) -> Bool {
        let stored = context.path.reduce(context.new) { $0.child(Key($1)) }
        for (key, _) in stored.children {
            guard let (node, below) = chain([key.string], context).dropFirst().first else { continue }
            guard node.isTrue(.validate, below) ?? true, node.areDescendantsValid(below) else { return false }
        }
        return true
    }
}

/// The shortest decimal that parses to the same number, laid out as in JavaScript, for the few numbers that the model makes.
enum NumberTextModel {
    static func shown(_ x: Double) -> String {
        // Swift writes the same digits and, between 10^-4 and 10^16, the same layout.
        let text = x.description
        return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }
}
