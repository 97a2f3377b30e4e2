import JSONTree

/// `"votes": "count(votes/$e, each.val() != 0)"`, before checking.
struct SourceCounter {
    let name: Key
    let text: LocatedString
    /// Whether it creates its node: `{"value": …, "creates": true}`.
    var creates = false
}

/// The parts of a counter's text: `sum(meals/$u, each.child('calories').val(), each.child('day').val() == $day)`.
struct CounterText {
    /// A part, and the offset of its first byte in the text.
    typealias Part = (text: String, offset: Int)

    let operation: Counter.Operation
    let set: Part
    /// The value and the condition.
    let more: [Part]

    init?(_ text: String) {
        guard let open = text.firstIndex(of: "("), let close = text.lastIndex(of: ")"), open < close,
            text[text.index(after: close)...].allSatisfy(\.isWhitespace),
            let operation = Counter.Operation(rawValue: text[..<open].filter { !$0.isWhitespace })
        else { return nil }
        self.operation = operation
        let inner = text[text.index(after: open)..<close]
        let takesValue = operation != .count && operation != .any
        var parts: [Substring] = []
        var (start, depth, quote) = (inner.startIndex, 0, Character?.none)
        for i in inner.indices {
            switch inner[i] {
            case let character where quote != nil: if character == quote { quote = nil }
            case "'", "\"": quote = inner[i]
            case "(", "[": depth += 1
            case ")", "]": depth -= 1
            // What follows the place of a count is its condition, as a whole.
            case "," where depth == 0 && (parts.isEmpty || takesValue):
                parts.append(inner[start..<i])
                start = inner.index(after: i)
            default: break
            }
        }
        parts.append(inner[start...])
        guard parts.count <= (takesValue ? 3 : 2) else { return nil }
        while parts[0].first?.isWhitespace == true { parts[0].removeFirst() }
        while parts[0].last?.isWhitespace == true { parts[0].removeLast() }
        let all = parts.map { part -> Part in (String(part), text.utf8.distance(from: text.startIndex, to: part.startIndex)) }
        (set, more) = (all[0], Array(all.dropFirst()))
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
            throw ExpressionError(offset: 0, message: "A counter is 'count(place)', 'sum(place)', 'max(place)', 'min(place)' or "
                + "'any(place)', with a value and a condition if needed: 'count(votes/$e, each.val() > 0)', "
                + "'sum(meals/$u, each.child('calories').val())'.")
        }
        let set = try self.set(text.set)
        // Wildcards by their depth in the set's place; the condition must determine the others.
        var inSet: [Int: Int] = [:]
        for (i, segment) in set.enumerated() { if case .capture(let depth) = segment { inSet[depth] = i } }
        var scope = Scope(kind: .write, captures: [:])
        (scope.isSetMemberFilter, scope.each) = (true, .newData)
        for (name, depth) in captures { scope.captures[name] = inSet[depth].map { $0 + 1 } ?? Self.unbound + depth }
        let missing = captures.filter { inSet[$0.value] == nil }.keys.sorted()

        let (value, filter) = try self.parts(text, scope)
        var conditions: [Expression] = []
        if let filter { if case .all(let parts) = filter.expression.kind { conditions = parts } else { conditions = [filter.expression] } }
        var amount: Int32 = -1
        if let value {
            do throws(ExpressionError) {
                if mentions(value.expression, missing) {
                    throw ExpressionError(
                        at: value.expression.span, message: "A wildcard that is not in the counted place stands in one == only.")
                }
                let checked = try Checker.value(value.expression, scope: scope, functions: functions)
                amount = builder.lower(checked, depth: set.count + 1)
            } catch { throw moved(error, value.offset) }
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
            if let other = conditions.first(where: { mentions($0, missing) }) {
                throw ExpressionError(at: other.span, message: "A wildcard that is not in the counted place stands in one == only.")
            }
            var condition: Int32 = -1
            if let first = conditions.first {
                let height = conditions.map(\.height).max() ?? 0
                let all = conditions.count == 1 ? first : Expression(kind: .all(conditions), span: first.span, height: height + 1)
                condition = builder.lower(try Checker.rule(all, scope: scope, functions: functions), depth: set.count + 1)
            }
            let node: [Counter.Source] = pattern.keys.enumerated().map { i, key in
                guard key.string.hasPrefix("$") else { return .key(key) }
                return inSet[i + 1].map { .set($0) } ?? .value(values[i + 1] ?? -1)
            }
            return Counter(
                operation: text.operation, place: place, name: counter.name, set: set, node: node, value: amount, filter: condition,
                creates: counter.creates)
        } catch { throw moved(error, filter?.offset ?? 0) }
    }

    /// An expression, and the offset of its text.
    private typealias Part = (expression: Expression, offset: Int)

    /// The value and the condition. One alone is the condition if it yields a boolean.
    private func parts(_ text: CounterText, _ scope: Scope) throws(ExpressionError) -> (value: Part?, filter: Part?) {
        var parts: [Part] = []
        for (text, offset) in text.more {
            do throws(ExpressionError) { parts.append((try ExpressionParser.parse(text), offset)) } catch { throw moved(error, offset) }
        }
        guard let first = parts.first else { return (nil, nil) }
        if parts.count == 2 { return (first, parts[1]) }
        do throws(ExpressionError) {
            let checked = try Checker(scope: scope, functions: functions).check(first.expression)
            let isCondition = text.operation == .count || text.operation == .any || checked.type == .boolean
            return isCondition ? (nil, first) : (first, nil)
        } catch { throw moved(error, first.offset) }
    }

    private func set(_ text: CounterText.Part) throws(ExpressionError) -> [Counter.Segment] {
        do throws(ExpressionError) {
            let template = try PathTemplate(text.text, captures: captures)
            var segments: [Counter.Segment] = []
            for segment in template.segments {
                switch segment {
                case .key(let key): segments.append(.key(key))
                case .capture(let depth): segments.append(.capture(depth: depth))
                case .every(nil): segments.append(.every)
                case .every, .value, .generated:
                    throw ExpressionError(offset: 0, message: "The counted place has keys, wildcards of the node's own place, and *.")
                }
            }
            guard segments.count < Path.maxDepth else {
                throw ExpressionError(offset: 0, message: "Data is at most \(Path.maxDepth) levels deep.")
            }
            return segments
        } catch {
            throw moved(error, text.offset)
        }
    }

    /// The fault, with its offset in a part moved to the whole text.
    private func moved(_ error: ExpressionError, _ offset: Int) -> ExpressionError {
        guard error.function < 0 else { return error }
        var moved = ExpressionError(offset: error.offset + offset, message: error.message)
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
