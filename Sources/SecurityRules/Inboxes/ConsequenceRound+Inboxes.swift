import JSONTree

/// Inboxes: when a node is created, each recipient gets a row. A few rows are part of the commit. If there may be many, they become pending
/// (`ContinuedRows`), so that the commit's cost does not depend on the number of recipients.
///
/// ```
/// new node ─► any: the keys ─► index: how many sets may have one ─┬─ few ──► each set is checked, its row written
///                                                                 └─ many ─► continued: all of them
/// ```
extension ConsequenceRound {
    /// An inbox of a node; its rows follow once per commit.
    struct Sending: Hashable {
        let source: Path
        let inbox: Int
    }

    /// Adds the rows of one inbox.
    /// - Parameter node: the node after the consequences so far.
    mutating func send(_ inbox: InboxRule, _ place: Int32, _ node: Node, isNew: Bool) throws(ConsequenceFault) {
        let source = Path(keys)
        if !isNew {
            guard inbox.changes >= 0, try holds(inbox.changes, place) else { return }
        }
        guard result.sent.insert(Sending(source: source, inbox: inbox.number)).inserted else { return }
        guard let each = try reached(inbox.each, place, node),
            let to = try target(inbox.to, place, node, [ContinuedRows.wildcard], .inbox)
        else { return }
        let names = try self.names(inbox, place)
        if names.members?.isEmpty == true { return }
        let value = try self.value(inbox, place)
        guard value.exists else { return }
        guard value.fits(below: to.depth) else { throw fault(.tooDeep, place, .inbox) }

        let rows = ContinuedRows(
            rule: "\(program.details[Int(place)].pattern)\(ConsequenceKind.inbox.rawValue)", number: inbox.number, source: source,
            each: each, members: names.members, not: names.not, hasFilter: inbox.condition >= 0, to: to, value: value, now: now)
        let (most, candidates) = self.candidates(inbox, rows)
        if most == 0 { return }
        let room = min(limits.writes - result.writes.count, limits.keys - result.keysScanned)
        guard most <= room, !limits.defersAll, limits.pendingBySource[source] == nil else { return try leavePending(rows, most, place) }
        try chargeKeys(most, place, .inbox)
        let reached = candidates().sorted().filter { rows.reaches($0, in: result.tree) }
        for bound in try holding(inbox.condition, place, reached.map { [$0] }, .inbox) {
            try write(value, at: rows.place(of: bound[0]), place, .inbox)
        }
    }

    /// Leaves the rows to later commits.
    private mutating func leavePending(_ rows: ContinuedRows, _ most: Int, _ place: Int32) throws(ConsequenceFault) {
        let pendingCount = result.continued.count + limits.pendingBySource.values.reduce(0, +)
        guard pendingCount < limits.continuations else { throw fault(.tooManyContinuations(limits.continuations), place, .inbox) }
        result.continuedRows += most
        guard result.continuedRows + limits.pendingRows <= limits.continuedRows else {
            throw fault(.tooManyRows(limits.continuedRows), place, .inbox)
        }
        // The stored parts: the row, and the keys that sets must have.
        try pay(for: rows.terms, at: rows.source, place, .inbox)
        result.continued.append((rows, most))
    }

    /// The number of possible recipients, and their keys: from the index, or from the tree where the index is incomplete.
    private func candidates(_ inbox: InboxRule, _ rows: ContinuedRows) -> (most: Int, keys: () -> Set<Key>) {
        if let members = rows.members, let number = inbox.indexed, let index, let written = result.written, index.open.isEmpty,
            written.open.isEmpty
        {
            var bound: [Key] = []
            for (segment, key) in zip(inbox.each.segments, rows.each.keys) {
                switch segment {
                case .capture, .value: bound.append(key)
                case .key, .every, .generated: break
                }
            }
            let most = members.reduce(0) { $0 + index.count(of: number, bound + [$1]) + written.count(of: number, bound + [$1]) }
            return (most, {
                members.reduce(into: []) { keys, member in
                    keys.formUnion(index.keys(of: number, bound + [member]))
                    keys.formUnion(written.keys(of: number, bound + [member]))
                }
            })
        }
        let all = result.tree.node(at: Path(rows.each.keys.prefix(inbox.wildcard)))
        return (all.childCount, { Set(all.children.map(\.0)) })
    }

    /// The place of the sets; nil if a value in its path is missing.
    private func reached(_ template: PathTemplate, _ place: Int32, _ node: Node) throws(ConsequenceFault) -> Path? {
        var keys = ContiguousArray<Key>()
        for segment in template.segments {
            switch segment {
            case .key(let key): keys.append(key)
            case .capture(let depth): keys.append(self.keys[depth - 1])
            case .every: keys.append(ContinuedRows.wildcard)
            case .value(let field):
                guard let key = try key(node.node(at: field), place, .inbox) else { return nil }
                keys.append(key)
            // `each` has none.
            case .generated: return nil
            }
        }
        return Path(keys)
    }

    // MARK: Expressions

    private mutating func names(_ inbox: InboxRule, _ place: Int32) throws(ConsequenceFault) -> (members: [Key]?, not: Set<Key>) {
        var members: Set<Key>?
        if let names = inbox.members {
            var keys: Set<Key> = []
            for name in names { keys.formUnion(try self.keys(of: name, place)) }
            members = keys
        }
        var not: Set<Key> = []
        for name in inbox.not { not.formUnion(try keys(of: name, place)) }
        return (members?.sorted(), not)
    }

    /// The keys that an expression yields.
    private mutating func keys(of names: InboxRule.Names, _ place: Int32) throws(ConsequenceFault) -> [Key] {
        let node = try evaluate(place) { evaluator throws(Fault) -> Node in
            switch names {
            case .value(let instruction):
                defer { evaluator.dropScratch(to: 0) }
                switch try evaluator.value(instruction) {
                case .number(let number): return .number(number)
                case let value: return value.node
                }
            case .keys(let instruction): return try evaluator.node(instruction)?.node ?? .null
            }
        }
        guard let node else { throw fault(.failed, place, .inbox) }
        guard node.hasChildren, case .keys = names else { return try key(node, place, .inbox).map { [$0] } ?? [] }
        try chargeKeys(node.childCount, place, .inbox)
        return node.children.map(\.0)
    }

    private mutating func value(_ inbox: InboxRule, _ place: Int32) throws(ConsequenceFault) -> Node {
        guard let value = try evaluate(place, { evaluator throws(Fault) in try evaluator.node(inbox.value) }) else {
            throw fault(.failed, place, .inbox)
        }
        return value
    }

    private mutating func holds(_ condition: Int32, _ place: Int32) throws(ConsequenceFault) -> Bool {
        try evaluate(place) { evaluator throws(Fault) in try evaluator.boolean(condition) } ?? false
    }

    /// Evaluates an expression at the node; nil if it fails.
    private mutating func evaluate<R>(
        _ place: Int32, _ body: (inout Evaluator) throws(Fault) -> R
    ) throws(ConsequenceFault) -> R? {
        var (left, isTooMuch) = (textWork, false)
        let found: R? = Evaluator.run(program, old: base, new: result.tree, auth: RuleSet.hubAuth, now: now, query: nil) { evaluator in
            evaluator.textWork = left
            defer { left = evaluator.textWork }
            return keys.withUnsafeBufferPointer { keys in
                evaluator.descend(keys)
                do throws(Fault) { return try body(&evaluator) } catch {
                    isTooMuch = error.reason == .tooMuchWork
                    return nil
                }
            }
        }
        textWork = left
        if isTooMuch { throw fault(.tooMuchWork, place, .inbox) }
        return found
    }
}
