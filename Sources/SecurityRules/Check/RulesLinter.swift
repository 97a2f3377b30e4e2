import JSONTree

extension RuleSet {
    /// Warnings about a valid file, in the order of the text: a rule never grants or is never evaluated, a name looks misspelt, or
    /// everything is public.
    public var warnings: [RuleError] {
        let text = RulesText(self.text)
        var parser = LocatedJSONParser(text)
        guard let json = try? parser.parse() else { return [] }
        var reader = RulesFileReader()
        let root = reader.read(json)
        var linter = RulesLinter(text: text)
        var faults: [LocatedError] = []
        linter.functions.add(reader.functions, text, &faults)
        linter.findWrittenByHub(root, [], [:])
        linter.geo = GeoPlaces(root: root)
        linter.visit(root, LintScope())
        linter.functionsWithoutCalls()
        var targets = RefusedTargets(root: root, functions: linter.functions)
        linter.targets(root, [], [:], &targets)
        return RulesErrors(linter.warnings, in: text).errors
    }
}

/// The context that a rule node inherits from those above it.
private struct LintScope {
    var depth = 0
    var steps: [RefusedTargets.Step] = []
    var captures: [String: Int] = [:]
    var hasWrite = false
    /// Kinds that an ancestor grants to all clients.
    var granted: Set<RuleKind> = []
    /// The write budgets of the ancestors.
    var rates: [WriteRate] = []
}

struct RulesLinter {
    let text: RulesText
    private(set) var warnings: [LocatedError] = []
    let functions = Functions()
    /// The places with a `.geoIndex`.
    fileprivate(set) var geo = GeoPlaces(root: SourceNode(offset: 0))
    /// Offsets of comparisons already reported, so that a function's are reported once.
    private var reportedComparisons: Set<String> = []
    /// The places that consequences write.
    private var writtenByHub: [[RefusedTargets.Step]] = []
    /// Whether the place of the current rule has a `.geoIndex`.
    private var hasGeoIndex = false

    init(text: RulesText) { self.text = text }

    mutating func warn(_ offset: Int, _ message: String) { warnings.append(LocatedError(offset: offset, message: message)) }

    fileprivate mutating func visit(_ node: SourceNode, _ above: LintScope) {
        var here = above
        hasGeoIndex = node.geoIndex != nil
        here.hasWrite = above.hasWrite || node.rules[.write] != nil
        for (kind, rule) in node.rules { visit(kind, rule, &here, above) }
        for counter in node.counts {
            let compiler = CounterCompiler(place: 0, pattern: .root, captures: above.captures, functions: functions)
            var builder = ProgramBuilder()
            _ = try? compiler.compile(counter, &builder)
        }
        for copy in node.copies {
            var builder = ProgramBuilder()
            let compiler = CopyCompiler(depth: above.depth, captures: above.captures, functions: functions)
            guard let rule = try? compiler.compile(copy, &builder) else { continue }
            let own = above.captures.sorted { $0.value < $1.value }
            if !rule.to.hasGeneratedKey, let missing = own.first(where: { !rule.to.uses($0.value) })?.key {
                warn(copy.to.quote, "Copies of two nodes can have one place, and overwrite each other: it does not have \(missing).")
            }
        }
        for inbox in node.inboxes {
            var builder = ProgramBuilder()
            _ = try? InboxCompiler(depth: above.depth, captures: above.captures, functions: functions).compile(inbox, number: 0, &builder)
        }
        watches(of: node, above.steps, above.captures)
        if node.account?.isOfLeaf == false, let counter = node.counts.first(where: \.creates) {
            warn(
                counter.text.quote,
                "The node is created again after .account removes it, while anything counts: let that go with the account, too.")
        }
        for text in node.notifications.compactMap(\.condition) + node.webhooks.compactMap(\.condition) { visit(text, above) }
        for removal in node.removes { if let condition = removal.condition { visit(condition, above) } }
        for text in Self.askedAsHub(node) where Self.mentionsAuth(text) {
            warn(text.quote, "'auth' is the hub here, whoever writes: auth.uid is null. Let the node hold who wrote it.")
        }
        for expiry in node.expiries {
            var builder = ProgramBuilder()
            _ = try? ExpiryCompiler(depth: above.depth, captures: above.captures, functions: functions).compile(expiry, &builder)
        }
        if case .expression(let string)? = node.drop?.text { visit(string, above) }
        if case .expression(let string)? = node.defaultValue?.value { visit(string, above) }
        indexes(node)
        counts(node)
        if let rate = node.rate { self.rate(rate, node, &here) }
        if let validate = node.rules[.validate], !here.hasWrite, !Self.hasWrite(below: node), !isWrittenByHub(here.steps) {
            warn(validate.offset, ".validate never runs: no .write above, at or below this place grants a write.")
        }
        here.depth += 1
        for child in node.children {
            // Data may have children with these names. An empty node of such a name is probably a slip.
            if child.node.isEmpty, Self.accessNames.contains(child.key) {
                warn(child.node.offset, "'\(child.key)' is a child of this name: did you mean '.\(child.key)'?")
            }
            var inner = here
            inner.steps.append(.key(child.key))
            visit(child.node, inner)
        }
        if let (name, child) = node.wildcard { wildcard(name, child, here) }
    }

    /// Collects the places that consequences write: there a `.validate` is evaluated although no client may write.
    fileprivate mutating func findWrittenByHub(_ node: SourceNode, _ steps: [RefusedTargets.Step], _ captures: [String: Int]) {
        writtenByHub += node.counts.map { steps + [.key($0.name)] }
        for text in node.copies.map(\.to) + node.inboxes.map(\.to) + node.watches.map(\.toWithItem) {
            if let to = try? PathTemplate(text.value, captures: captures) { writtenByHub.append(to.steps) }
        }
        for log in node.expiries.compactMap(\.log) {
            if let to = try? PathTemplate(log.value, captures: captures) { writtenByHub.append(to.steps + [.any]) }
        }
        for child in node.children { findWrittenByHub(child.node, steps + [.key(child.key)], captures) }
        guard let (name, child) = node.wildcard else { return }
        findWrittenByHub(child, steps + [.any], captures.merging([name.value: steps.count + 1]) { $1 })
    }

    private func isWrittenByHub(_ steps: [RefusedTargets.Step]) -> Bool {
        writtenByHub.contains { written in
            zip(written, steps).allSatisfy { a, b in
                if case .key(let a) = a, case .key(let b) = b { a == b } else { true }
            }
        }
    }

    /// Checks the system writes of a node and of all nodes below it.
    fileprivate mutating func targets(
        _ node: SourceNode, _ steps: [RefusedTargets.Step], _ captures: [String: Int], _ targets: inout RefusedTargets
    ) {
        refusedTargets(node, at: steps, captures: captures, &targets)
        for child in node.children { self.targets(child.node, steps + [.key(child.key)], captures, &targets) }
        guard let (name, child) = node.wildcard else { return }
        var inner = captures
        inner[name.value] = steps.count + 1
        self.targets(child, steps + [.wildcard], inner, &targets)
    }

    private mutating func wildcard(_ name: LocatedString, _ child: SourceNode, _ above: LintScope) {
        var inner = above
        inner.captures[name.value] = above.depth
        inner.steps.append(.wildcard)
        visit(child, inner)
    }

    private static let accessNames: Set<Key> = ["read", "write", "validate", "indexOn"]

    mutating func functionsWithoutCalls() {
        for function in functions.all where !functions.called.contains(function.source.name) {
            warn(function.source.key.quote, "Function '\(function.source.name)' is never called.")
        }
    }

    // MARK: Expressions

    private mutating func visit(_ kind: RuleKind, _ rule: SourceRule, _ here: inout LintScope, _ above: LintScope) {
        let scope = Scope(kind: kind, captures: above.captures)
        var constant: Bool?
        // A literal `false` is intended: it denies everyone.
        var isPlain = false
        switch rule.text {
        case .constant(let value): (constant, isPlain) = (value, true)
        case .expression(let string):
            guard let expression = try? ExpressionParser.parse(string.value) else { return }
            if case .literal = expression.kind { isPlain = true }
            check(expression, string, scope)
            guard let term = try? Checker.rule(expression, scope: scope, functions: functions) else { break }
            if case .constant(.bool(let value)) = term.folded.kind { constant = value }
            comparisons(term, string, kind)
        }
        guard kind == .read || kind == .write else { return }
        if above.granted.contains(kind) {
            warn(
                rule.offset,
                "\(kind.rawValue) changes nothing: a place above grants it to everybody, and nothing below can take that back.")
        } else if constant == false, !isPlain {
            warn(rule.offset, "\(kind.rawValue) never grants. Without a rule that grants the answer is no already.")
        } else if constant == true {
            if above.depth == 0 { warn(rule.offset, "\(kind.rawValue) at the root hands out everything to everybody, signed in or not.") }
            here.granted.insert(kind)
        }
    }

    /// The expressions of a node's consequences that are evaluated as the hub.
    private static func askedAsHub(_ node: SourceNode) -> [LocatedString] {
        let inboxes = node.inboxes.flatMap { inbox in
            [inbox.condition, inbox.changes].compactMap { $0 } + (inbox.members ?? []) + inbox.not + inbox.value.texts
        }
        let deliveries = node.notifications.flatMap(\.texts) + node.webhooks.compactMap(\.condition)
        return node.removes.compactMap(\.condition) + node.copies.compactMap(\.condition) + inboxes + deliveries
            + node.watches.flatMap(\.expressions)
    }

    private static func mentionsAuth(_ text: LocatedString) -> Bool {
        var found = false
        try? ExpressionParser.parse(text.value).forEach { if case .variable("auth") = $0.kind { found = true } }
        return found
    }

    /// Checks an expression that is not an access rule.
    private mutating func visit(_ string: LocatedString, _ above: LintScope) {
        let scope = Scope(kind: .write, captures: above.captures)
        guard let expression = try? ExpressionParser.parse(string.value) else { return }
        check(expression, string, scope)
        _ = try? Checker(scope: scope, functions: functions).check(expression)
    }

    /// Warns about comparisons with null that make a rule grant or fail.
    private mutating func comparisons(_ rule: Term, _ string: LocatedString, _ kind: RuleKind) {
        for found in kind.isOfReads ? NullComparisons.find(in: rule) : [] {
            let when = NullComparisons.fields[found.field] ?? ""
            // A comparison in a function is reported where the alternative calls it.
            warn(
                found.comparison.function == found.alternative.function ? found.comparison : found.alternative, string,
                "query.\(found.field) is null \(when): the whole rule fails then, with what stands behind this ||. Ask for it first: "
                    + "(query.\(found.field) != null && …) || …")
        }
        for span in kind != .validate ? MissingSides.find(in: rule) : [] {
            warn(
                span, string,
                "Both sides of this == can be missing, and the rule then grants. Ask for one of them as well: … != null && …")
        }
    }

    /// Warns about a comparison of a rule or of a function that it calls, unless it was reported before.
    private mutating func warn(_ comparison: Span, _ rule: LocatedString, _ message: String) {
        let source = comparison.function < 0 ? rule : functions.all[Int(comparison.function)].source.body
        let offset = text.offset(in: source, at: Int(comparison.offset))
        if reportedComparisons.insert("\(offset) \(message)").inserted { warn(offset, message) }
    }

    private mutating func check(_ expression: Expression, _ string: LocatedString, _ scope: Scope) {
        let text = text
        func at() -> Int { text.offset(in: string, at: expression.offset) }
        switch expression.kind {
        case .literal, .regex, .variable: break
        case .not(let a), .negate(let a): check(a, string, scope)
        case .all(let operands), .any(let operands), .array(let operands): for operand in operands { check(operand, string, scope) }
        case .comparison(let comparison, let a, let b):
            check(a, string, scope)
            check(b, string, scope)
            compare(comparison, a, b, scope, at)
        case .arithmetic(_, let a, let b), .index(let a, let b):
            check(a, string, scope)
            check(b, string, scope)
        case .conditional(let a, let b, let c): for part in [a, b, c] { check(part, string, scope) }
        case .member(let target, let name):
            check(target, string, scope)
            let fields = ["uid", "provider", "token"]
            if case .variable("query") = target.kind, name == "radius" || name == "within", scope.kind.isOfReads, !hasGeoIndex {
                warn(at(), "query.\(name) is always null here: only a place with a .geoIndex is asked for what is near or in a region.")
            }
            if case .variable("auth") = target.kind, !fields.contains(name) {
                let hint = Spelling.nearest(name, in: fields).map { " Did you mean '\($0)'?" } ?? " Claims are in auth.token."
                warn(at(), "auth has uid, provider and token; auth.\(name) is null.\(hint)")
            }
        case .call(let callee, let arguments):
            check(callee, string, scope)
            for argument in arguments { check(argument, string, scope) }
        }
    }

    /// Warns about comparisons whose sides can never have the same type.
    private mutating func compare(_ comparison: Comparison, _ a: Expression, _ b: Expression, _ scope: Scope, _ at: () -> Int) {
        let checker = Checker(scope: scope, functions: functions)
        let known: [StaticType] = [.boolean, .number, .string]
        guard let x = try? checker.check(a).type, let y = try? checker.check(b).type, known.contains(x), known.contains(y), x != y else {
            return
        }
        switch comparison {
        case .equal: warn(at(), "A \(x) never equals a \(y): this is always false.")
        case .notEqual: warn(at(), "A \(x) never equals a \(y): this is always true.")
        default: warn(at(), "A \(x) and a \(y) cannot be ordered: this always fails.")
        }
    }

    // MARK: Structure

    private mutating func indexes(_ node: SourceNode) {
        indexes(".indexOn", node.indexes.map { ($0, node.indexOffset) }, node)
        guard let geo = node.geoIndex else { return }
        positions(geo, node)
        // A filter may also be an order, and an index of the place for queries without a circle.
        for list in [geo.filters, geo.orders] { indexes(".geoIndex", list.map { ($0.value, $0.quote) }, node) }
    }

    private mutating func indexes(_ key: String, _ list: [(name: String, offset: Int)], _ node: SourceNode) {
        var seen: Set<String> = []
        for (name, offset) in list {
            func warn(_ message: String) { self.warn(offset, "\(key) \"\(name)\": \(message)") }
            if !seen.insert(name).inserted { warn("stands there twice.") }
            if name == ".value" || name == ".priority" { continue }
            if name == ".key" {
                warn("keys are always in order; no index is needed.")
                continue
            }
            guard let path = try? Path(parsing: name), let first = path.keys.first else {
                warn("is no path of a child\(name.contains("$") ? ": an index holds for all children, without a wildcard" : "").")
                continue
            }
            if path.keys.dropLast().contains("*") { warn("a * stands for the members of a set, at the end: \"types/*\".") }
            if path.relativeText != name { warn("is better written as \"\(path.relativeText)\".") }
            if Self.isChild(first, of: node) {
                warn("is a child of this very place. An index belongs to the place whose children are listed, one level up.")
            }
        }
    }

    /// Checks the bounds that `.count` sets for callers without an account.
    private mutating func counts(_ node: SourceNode) {
        guard let terms = node.countTerms else { return }
        if node.geoIndex == nil, terms.radius != nil || terms.snap != nil {
            warn(terms.offset, ".count: there are no circles here, as the place has no .geoIndex.")
        }
        if let grid = terms.grid, node.geoIndex != nil, terms.least == nil {
            warn(
                terms.offset,
                ".count: a lone child is found, to its square of \(NumberText.format(grid)) m. Fewer than \"least\" are told as 0: "
                    + "add \"least\": 5.")
        }
        if terms.boundsCircles, let read = node.rules[.read], read.source.split(separator: " ").joined() == "auth!=null" {
            warn(
                read.offset,
                ".read lets users without a name see what .count hides from them: say auth != null && auth.provider != 'anonymous'.")
        }
    }

    private mutating func rate(_ source: SourceRate, _ node: SourceNode, _ here: inout LintScope) {
        if !here.hasWrite, !Self.hasWrite(below: node) {
            warn(source.offset, ".rate counts nothing: no .write above, at or below this place grants a write.")
        } else if here.rates.contains(where: { $0.perSecond <= source.rate.perSecond && $0.burst <= source.rate.burst }) {
            warn(source.offset, ".rate never refuses: one above counts the same writes, and allows no more.")
        }
        here.rates.append(source.rate)
    }

    private mutating func positions(_ geo: SourceGeoIndex, _ node: SourceNode) {
        if geo.latitude == geo.longitude { warn(geo.offset, ".geoIndex: \"lat\" and \"lng\" are the same place.") }
        for path in [geo.latitude, geo.longitude] {
            guard let first = path.keys.first, Self.isChild(first, of: node) else { continue }
            return warn(
                geo.offset,
                ".geoIndex \"\(path.relativeText)\": is a child of this very place. The index belongs to the place whose children have "
                    + "positions, one level up.")
        }
    }

    /// Whether a name is one of a node's known children, rather than a key of a collection.
    private static func isChild(_ name: Key, of node: SourceNode) -> Bool {
        node.wildcard == nil && node.children.contains { $0.key == name }
    }

    private static func hasWrite(below node: SourceNode) -> Bool {
        let children = node.children.map(\.node) + [node.wildcard?.node].compactMap { $0 }
        return children.contains { $0.rules[.write] != nil || hasWrite(below: $0) }
    }
}
