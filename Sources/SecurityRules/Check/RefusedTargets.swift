import JSONTree

/// Finds system writes that the rules declare and that their own `.validate` always refuses, such as a counter below
/// `"$other": {".validate": false}`. Such a refusal would reject every write that causes the system write.
///
/// A rule is evaluated with `auth.provider == 'hub'` and the known part of the written value; the rest may be anything.
struct RefusedTargets {
    /// One segment of a written place.
    enum Step {
        case key(Key)
        /// A key of the node's own place that no literal rule node matches.
        case wildcard
        /// Any key.
        case any
    }

    /// The `.validate` that refuses.
    struct Refusal {
        /// The rule's name, such as `/events/$event/$other.validate`.
        let rule: String
        /// The offset of the rule's value in the rules file.
        let offset: Int
    }

    let root: SourceNode
    let functions: Functions
    /// The expressions of `.validate` rules, by their offsets in the file; nil for one with a fault.
    private var terms: [Int: Term?] = [:]
    /// The budget of rule nodes that may still be checked: a file may have thousands of nodes and thousands of targets.
    private var left = RulesLimits.targetsTried

    init(root: SourceNode, functions: Functions) { (self.root, self.functions) = (root, functions) }

    /// The rule that refuses every write of `content` at a place; nil if some data may satisfy all rules.
    /// - Parameters:
    ///   - content: `.nothing` for a removal. Then only the rules above the place are evaluated, since their nodes still exist.
    ///   - isOfHub: whether the hub is the writer, not the client that causes the write.
    mutating func refusal(at steps: [Step], _ content: PartialValue, isOfHub: Bool = true) -> Refusal? {
        refusal(root, steps, 0, Place(), content, isOfHub)
    }

    /// A rule node on the path to the target.
    private struct Place {
        var pattern = Path.root
        var captures: [String: Int] = [:]
        /// The known keys of wildcards, by depth.
        var keys: [Int: String] = [:]
        /// The place's names, in the form that `PartialEvaluator` uses.
        var names: [String] = []

        func below(literal key: Key) -> Place {
            var place = self
            place.pattern = pattern.appending(key)
            place.names.append(key.string)
            return place
        }

        func below(wildcard name: String, _ key: Key?) -> Place {
            var place = self
            let depth = pattern.depth + 1
            place.pattern = pattern.appending(Key(name))
            place.captures[name] = depth
            if let key { place.keys[depth] = key.string }
            place.names.append(key?.string ?? "$\(depth)")
            return place
        }
    }

    private mutating func refusal(
        _ node: SourceNode, _ steps: [Step], _ i: Int, _ place: Place, _ content: PartialValue, _ isOfHub: Bool
    ) -> Refusal? {
        left -= 1
        guard left > 0 else { return nil }
        var isRemoved: Bool { content.exists == false }
        if i < steps.count || !isRemoved, let refusal = asked(node, steps, i, place, content, isOfHub) { return refusal }
        guard i < steps.count else { return isRemoved ? nil : members(node, place, content, isOfHub) }
        switch steps[i] {
        case .key(let key):
            guard let (next, below) = child(key, of: node, place) else { return nil }
            return refusal(next, steps, i + 1, below, content, isOfHub)
        case .wildcard:
            guard let (name, next) = node.wildcard else { return nil }
            return refusal(next, steps, i + 1, place.below(wildcard: name.value, nil), content, isOfHub)
        case .any:
            // It must be refused for every possible key.
            guard let (name, next) = node.wildcard else { return nil }
            for child in node.children {
                guard refusal(child.node, steps, i + 1, place.below(literal: child.key), content, isOfHub) != nil else { return nil }
            }
            return refusal(next, steps, i + 1, place.below(wildcard: name.value, nil), content, isOfHub)
        }
    }

    private func child(_ key: Key, of node: SourceNode, _ place: Place) -> (SourceNode, Place)? {
        if let child = node.children.first(where: { $0.key == key }) { return (child.node, place.below(literal: key)) }
        return node.wildcard.map { ($0.node, place.below(wildcard: $0.name.value, key)) }
    }

    /// The refusal of a known child of the written value, assuming that the child exists.
    private mutating func members(_ node: SourceNode, _ place: Place, _ content: PartialValue, _ isOfHub: Bool) -> Refusal? {
        guard case .children(let all) = content else { return nil }
        for (key, member) in all.sorted(by: { $0.key < $1.key }) where member.exists != false {
            guard let (next, below) = child(key, of: node, place) else { continue }
            if let refusal = refusal(next, [], 0, below, member.assumingExists, isOfHub) { return refusal }
        }
        return nil
    }

    /// The refusal by the `.validate` of a rule node; nil if something can satisfy it.
    private mutating func asked(
        _ node: SourceNode, _ steps: [Step], _ i: Int, _ place: Place, _ content: PartialValue, _ isOfHub: Bool
    ) -> Refusal? {
        guard let rule = node.rules[.validate] else { return nil }
        let refusal = Refusal(rule: "\(place.pattern)\(RuleKind.validate.rawValue)", offset: rule.offset)
        guard case .expression(let text) = rule.text else { return rule.source == "false" ? refusal : nil }
        if terms[rule.offset] == nil {
            let expression = try? ExpressionParser.parse(text.value)
            let scope = Scope(kind: .validate, captures: place.captures)
            terms[rule.offset] = .some(expression.flatMap { try? Checker.rule($0, scope: scope, functions: functions) })
        }
        guard let term = terms[rule.offset] ?? nil else { return nil }
        let rest = steps[i...].map { step in if case .key(let key) = step { key.string } else { "?" } }
        var known = PartialEvaluator()
        (known.isOfHub, known.captures) = (isOfHub, place.keys)
        known.written = ([["newData"] + rest, ["newRoot"] + place.names + rest], content)
        return known.outcomes(term).canBe(.yes) ? nil : refusal
    }
}

extension PartialValue {
    /// The same content, for a place that is known to exist.
    fileprivate var assumingExists: PartialValue { if case .anything = self { .something } else { self } }

    /// The content of a value in the rules file.
    /// - Parameter scope: the scope of its expressions.
    init(_ json: LocatedJSON, _ scope: Scope, _ functions: Functions) {
        switch json.value {
        case .null: self = .nothing
        case .bool(let value): self = .leaf(.bool(value))
        case .number(let node): self = .leaf(node)
        case .string(let text): self.init(text, scope, functions)
        case .array(let elements):
            self = .children(Dictionary(uniqueKeysWithValues: elements.enumerated().map { (Key(index: $0), .init($1, scope, functions)) }))
        case .object(let members):
            self = .children(Dictionary(members.map { (Key($0.name.value), .init($0.value, scope, functions)) }) { first, _ in first })
        }
    }

    init(_ text: LocatedString, _ scope: Scope, _ functions: Functions) {
        self = .anything
        guard let expression = try? ExpressionParser.parse(text.value),
            let term = try? Checker.value(expression, scope: scope, functions: functions)
        else { return }
        let value = PartialEvaluator().value(term)
        if case .failure = value { return }
        self = value
    }

    init(_ node: Node) {
        self = node.hasChildren ? .children(Dictionary(uniqueKeysWithValues: node.children.map { ($0, .init($1)) })) : .leaf(node)
    }
}

extension PathTemplate {
    var steps: [RefusedTargets.Step] { segments.map { if case .key(let key) = $0 { .key(key) } else { .any } } }
}

extension RulesLinter {
    /// Warns about system writes of a node that are always refused.
    /// - Parameters:
    ///   - steps: the node's place.
    ///   - captures: its wildcards, and the depth of each.
    mutating func refusedTargets(
        _ node: SourceNode, at steps: [RefusedTargets.Step], captures: [String: Int], _ targets: inout RefusedTargets
    ) {
        let depth = steps.count
        let scope = Scope(kind: .write, captures: captures)
        for counter in node.counts {
            refused(counter.text.quote, "The counter '\(counter.name)'", "every write of its node, and of what it counts,",
                targets.refusal(at: steps + [.key(counter.name)], .number))
        }
        for copy in node.copies {
            var all = captures
            if let each = copy.each, let template = try? PathTemplate(each.value, captures: captures) {
                for case .every(let name?) in template.segments { all[name] = depth + 1 + all.count - captures.count }
            }
            guard let to = try? PathTemplate(copy.to.value, captures: all) else { continue }
            refused(copy.to.quote, "The copy", "every write of its node", targets.refusal(at: to.steps, .something))
        }
        for inbox in node.inboxes {
            var all = captures
            guard let each = try? PathTemplate(inbox.each.value, captures: captures) else { continue }
            for case .every(let name?) in each.segments { all[name] = depth + 1 }
            guard let to = try? PathTemplate(inbox.to.value, captures: all) else { continue }
            let row = PartialValue(inbox.value, scope, functions)
            refused(inbox.to.quote, "The row", "every write of its node", targets.refusal(at: to.steps, row))
        }
        watchTargets(node, captures: captures, depth: depth, &targets)
        for text in node.removes.flatMap(\.to) {
            guard let template = try? PathTemplate(text.value, captures: captures) else { continue }
            guard let refusal = targets.refusal(at: template.steps, .nothing) else { continue }
            refused(text.quote, "Where something else remains beside it, this removal", "that of the node", refusal)
        }
        for expiry in node.expiries { refusedEnd(expiry, at: steps, scope, &targets) }
        if let value = node.defaultValue {
            let content = switch value.value {
            case .expression(let text): PartialValue(text, scope, functions)
            case .node(let node): PartialValue(node)
            }
            guard content.exists != false else { return }
            let refusal = targets.refusal(at: steps, content, isOfHub: false)
            refused(value.offset, "This default", "every write that leaves the child out", refusal)
        }
    }

    private mutating func refusedEnd(
        _ expiry: SourceExpiry, at steps: [RefusedTargets.Step], _ scope: Scope, _ targets: inout RefusedTargets
    ) {
        var scope = scope
        scope.expiry = .patch
        for member in expiry.patch ?? [] {
            guard let path = try? Path(parsing: member.name.value) else { continue }
            let content = PartialValue(member.value, scope, functions)
            let refusal = targets.refusal(at: steps + path.keys.map { .key($0) }, content)
            refused(member.name.quote, "This patch", "the end of the node", refusal)
        }
        guard let log = expiry.log, let value = expiry.value else { return }
        guard let to = try? PathTemplate(log.value, captures: scope.captures) else { return }
        scope.expiry = .row
        let refusal = targets.refusal(at: to.steps + [.any], PartialValue(value, scope, functions))
        refused(log.quote, "This row", "the end of the node", refusal)
    }

    mutating func refused(_ offset: Int, _ what: String, _ also: String, _ refusal: RefusedTargets.Refusal?) {
        guard let refusal else { return }
        let (line, column) = text.position(at: refusal.offset)
        warn(offset, "\(what) is always refused by \(refusal.rule) (\(line):\(column)), and \(also) with it.")
    }
}
