import JSONTree

/// `"votes": "count(votes/$e, each.val() != 0)"`, before checking.
struct SourceCounter {
    let name: Key
    let text: LocatedString
}

/// The parts of a counter's text.
private struct CounterText {
    let operation: Counter.Operation
    let set: Substring
    /// The offset of the set's first byte in the text.
    let setOffset: Int
    let filter: Substring?
    let filterOffset: Int

    init?(_ text: String) {
        guard let open = text.firstIndex(of: "("), let close = text.lastIndex(of: ")"), open < close,
            text[text.index(after: close)...].allSatisfy(\.isWhitespace)
        else { return nil }
        switch text[..<open].filter({ !$0.isWhitespace }) {
        case "count": operation = .count
        case "sum": operation = .sum
        default: return nil
        }
        let inner = text[text.index(after: open)..<close]
        let comma = inner.firstIndex(of: ",")
        var set = inner[..<(comma ?? inner.endIndex)]
        while set.first?.isWhitespace == true { set.removeFirst() }
        while set.last?.isWhitespace == true { set.removeLast() }
        self.set = set
        setOffset = text.utf8.distance(from: text.startIndex, to: set.startIndex)
        filter = comma.map { inner[inner.index(after: $0)...] }
        filterOffset = filter.map { text.utf8.distance(from: text.startIndex, to: $0.startIndex) } ?? 0
    }
}

/// Compiles one counter.
struct CounterCompiler {
    let place: Int32
    let pattern: Path
    /// The wildcards of the node's place, and the depth of each.
    let captures: [String: Int]
    let functions: Functions

    /// The base of the depths for wildcards that do not occur in the set's place.
    private static let unbound = 1_000

    func compile(_ counter: SourceCounter, _ builder: inout ProgramBuilder) throws(ExpressionError) -> Counter {
        guard let text = CounterText(counter.text.value) else {
            throw ExpressionError(offset: 0, message: "A counter is 'count(place)' or 'sum(place)', with a condition if needed: "
                + "'count(votes/$e, each.val() > 0)'.")
        }
        let set = try self.set(text)
        // Wildcards by their depth in the set's place; the condition must determine the others.
        var inSet: [Int: Int] = [:]
        for (i, segment) in set.enumerated() { if case .capture(let depth) = segment { inSet[depth] = i } }
        var scope = Scope(kind: .write, captures: [:])
        (scope.isSetMemberFilter, scope.each) = (true, .newData)
        for (name, depth) in captures { scope.captures[name] = inSet[depth].map { $0 + 1 } ?? Self.unbound + depth }
        let missing = captures.filter { inSet[$0.value] == nil }.keys.sorted()

        var conditions: [Expression] = []
        if let filter = text.filter {
            do throws(ExpressionError) {
                let parsed = try ExpressionParser.parse(String(filter))
                if case .all(let parts) = parsed.kind { conditions = parts } else { conditions = [parsed] }
            } catch { throw moved(error, text) }
        }
        var values: [Int: Int32] = [:]
        do throws(ExpressionError) {
            for name in missing {
                guard let i = conditions.firstIndex(where: { other(of: name, in: $0, missing) != nil }),
                    let other = other(of: name, in: conditions[i], missing), let depth = captures[name]
                else { continue }
                values[depth] = builder.lower(try Checker.value(other, scope: scope, functions: functions), depth: set.count + 1)
                conditions.remove(at: i)
            }
            if let name = missing.first(where: { values[captures[$0] ?? 0] == nil }) {
                throw ExpressionError(
                    offset: 0, message: "'\(name)' is to be in the counted place, or compared with == in the condition: "
                        + "'count(posts, each.child('user').val() == \(name))'.")
            }
            if let condition = conditions.first(where: { mentions($0, missing) }) {
                throw ExpressionError(at: condition.span, message: "A wildcard that is not in the counted place stands in one == only.")
            }
            var filter: Int32 = -1
            if let first = conditions.first {
                let height = conditions.map(\.height).max() ?? 0
                let all = conditions.count == 1 ? first : Expression(kind: .all(conditions), span: first.span, height: height + 1)
                filter = builder.lower(try Checker.rule(all, scope: scope, functions: functions), depth: set.count + 1)
            }
            let node: [Counter.Source] = pattern.keys.enumerated().map { i, key in
                guard key.string.hasPrefix("$") else { return .key(key) }
                return inSet[i + 1].map { .set($0) } ?? .value(values[i + 1] ?? -1)
            }
            return Counter(operation: text.operation, place: place, name: counter.name, set: set, node: node, filter: filter)
        } catch { throw moved(error, text) }
    }

    private func set(_ text: CounterText) throws(ExpressionError) -> [Counter.Segment] {
        do throws(ExpressionError) {
            let template = try PathTemplate(String(text.set), captures: captures)
            var segments: [Counter.Segment] = []
            for segment in template.segments {
                switch segment {
                case .key(let key): segments.append(.key(key))
                case .capture(let depth): segments.append(.capture(depth: depth))
                case .every, .value:
                    throw ExpressionError(offset: 0, message: "The counted place has keys, and wildcards of the node's own place.")
                }
            }
            guard segments.count < Path.maxDepth else {
                throw ExpressionError(offset: 0, message: "Data is at most \(Path.maxDepth) levels deep.")
            }
            return segments
        } catch {
            var moved = ExpressionError(offset: error.offset + text.setOffset, message: error.message)
            moved.hint = error.hint
            throw moved
        }
    }

    /// The fault, with its offset moved to the whole text.
    private func moved(_ error: ExpressionError, _ text: CounterText) -> ExpressionError {
        guard error.function < 0 else { return error }
        var moved = ExpressionError(offset: error.offset + text.filterOffset, message: error.message)
        moved.hint = error.hint
        return moved
    }

    /// The expression that a condition compares a wildcard with.
    private func other(of name: String, in condition: Expression, _ missing: [String]) -> Expression? {
        guard case .comparison(.equal, let a, let b) = condition.kind else { return nil }
        if case .variable(name) = a.kind, !mentions(b, missing) { return b }
        if case .variable(name) = b.kind, !mentions(a, missing) { return a }
        return nil
    }

    private func mentions(_ expression: Expression, _ names: [String]) -> Bool {
        var found = false
        expression.forEach { if case .variable(let name) = $0.kind, names.contains(name) { found = true } }
        return found
    }
}
