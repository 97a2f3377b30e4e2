public import JSONTree

/// Nodes with an expiry time. It depends only on the data at and below the node and on when that was last written. So it is known after
/// each write, is the same after a restart, and needs no stored history.
///
/// ```
/// node, written ─► each rule: `if` holds, its patch would change something ─► `at` ─► the earliest of them: due
/// due ≤ now ─► removal or patch, and a log row: one commit ─► computed again
/// ```
extension RuleSet {
    /// Whether any rule expires nodes.
    public var hasExpiry: Bool { program.hasExpiry }

    /// Whether any `.expire` reads `written`.
    public var readsWritten: Bool { program.readsWritten }

    /// Whether the `.expire` at a node's place reads `written`. O(depth)
    public func readsWritten(at path: Path) -> Bool {
        rulesPlace(of: path).map { program.tables.places[Int($0)].readsWritten } ?? false
    }

    /// The number of `.expire` rules at a node's place. O(depth)
    public func expiryRules(at path: Path) -> Int { rulesPlace(of: path).map { program.details[Int($0)].expires.count } ?? 0 }

    /// The fault reported when a node's rules make it due again and again.
    public func endlessExpiry(of path: Path) -> ConsequenceFault {
        let pattern = rulesPlace(of: path).map { program.details[Int($0)].pattern } ?? path
        return ConsequenceFault(reason: .stillDue, rule: "\(pattern)\(ConsequenceKind.expire.rawValue)", path: path)
    }

    /// When a node is due, in ms since the epoch; nil for never.
    /// - Parameter written: ms of the last commit at or below it; nil if unknown.
    public func due(at path: Path, in root: Node, written: Int64?) -> Int64? { earliest(path, root, written)?.due }

    public func dues(at paths: [Path], in root: Node, written: (Path) -> Int64?) -> [Int64?] {
        dues(of: paths.map { ($0, nil) }, in: root, written: written)
    }

    /// Computes the times of many nodes. Consecutive nodes with the same rules and value, such as copies, are evaluated once.
    /// - Parameter nodes: each with its value if known, which saves the lookup.
    public func dues(of nodes: [(path: Path, value: Node?)], in root: Node, written: (Path) -> Int64?) -> [Int64?] {
        Evaluator.run(program, old: root, new: root, auth: .null, now: 0, query: nil) { evaluator in
            // Keys are read in place, even those of the previous path.
            withExtendedLifetime(nodes) {
                var (previous, known) = (Path.root, CachedDue?.none)
                return nodes.map { path, value in
                    guard let place = rulesPlace(of: path) else { return nil }
                    let rules = program.tables.places[Int(place)]
                    let time = rules.readsWritten ? written(path) : nil
                    let isLike = known.map {
                        $0.place == place && $0.written == time && path.hasKeys(of: $0.path, at: rules.expiryKeys)
                    } ?? false
                    if isLike, let known, let value, known.value?.isSameObject(as: value) ?? false { return known.due }
                    let shared = path.commonDepth(with: previous)
                    evaluator.pop(to: shared)
                    previous = path
                    return path.keys.withUnsafeBufferPointer { keys in
                        evaluator.descend(UnsafeBufferPointer(rebasing: keys[shared...]))
                        guard let node = evaluator.node(.new, at: path.depth) else { return nil }
                        if isLike, let known, known.node.isIdentical(to: node) { return known.due }
                        let due = earliest(path, root, time, &evaluator)?.due
                        known = CachedDue(place: place, path: path, value: value, node: node, written: time, due: due)
                        return due
                    }
                }
            }
        }
    }

    /// A node whose due time is known, with everything that the time depends on.
    private struct CachedDue {
        let place: Int32
        let path: Path
        let value: Node?
        let node: NodeCursor
        let written: Int64?
        let due: Int64?
    }

    /// The writes that are due at a node, for one commit; empty if nothing is due. `.validate` is not evaluated here.
    ///
    /// A patch that sets its own next time is applied once for each time it was due, up to `RulesLimits.patchesAtOnce`. So its next time
    /// lies in the future, however long the hub was down.
    /// - Throws: if the writes of the rule are impossible.
    public func expiry(of path: Path, in root: Node, written: Int64?, now: Int64) throws(ConsequenceFault) -> [SystemWrite] {
        var patches = 0
        return try expiry(of: path, in: root, written: written, now: now, patches: &patches)
    }

    /// The due writes, for a caller that accounts for the work.
    /// - Parameter patches: incremented by the number of patches applied; each evaluates all `.expire` rules of the node.
    public func expiry(
        of path: Path, in root: Node, written: Int64?, now: Int64, patches: inout Int
    ) throws(ConsequenceFault) -> [SystemWrite] {
        guard let found = earliest(path, root, written), found.due <= now else { return [] }
        let details = program.details[Int(found.place)]
        let rule = details.expires[found.number]
        func fault(_ reason: ConsequenceFault.Reason) -> ConsequenceFault {
            ConsequenceFault(reason: reason, rule: "\(details.pattern)\(ConsequenceKind.expire.rawValue)", path: path)
        }
        var writes: [SystemWrite] = []
        func write(_ value: Node, at place: Path) throws(ConsequenceFault) {
            guard place.depth <= Path.maxDepth, value.fits(below: place.depth) else { throw fault(.tooDeep) }
            writes.append(SystemWrite(path: place, value: value, kind: .expire, pattern: details.pattern))
        }
        if rule.patch.isEmpty {
            try write(.null, at: path)
        } else {
            guard let patched = patched(found, path, root, written, now, &patches) else { throw fault(.failed) }
            // Otherwise the rule would fire again and again.
            let then = written.map { _ in now }
            if let next = run(path, patched.tree, 0, { due(rule, path, patched.tree, then, &$0) }), next <= min(now, found.due) {
                throw fault(.stillDue)
            }
            for below in patched.places { try write(patched.tree.node(at: path.appending(below)), at: path.appending(below)) }
        }
        if let log = rule.log {
            guard let place = try target(log.to, path, root.node(at: path), fault) else { throw fault(.failed) }
            guard let row = evaluate(path, root, written, now, { e throws(Fault) in try e.node(log.value) }) else { throw fault(.failed) }
            var name = "\(found.number)\(path)"
            // Avoids an equal id within the same millisecond.
            while root.node(at: place.appending(PushIDGenerator.id(now: now, of: name))).exists { name += "+" }
            let id = PushIDGenerator.id(now: now, of: name)
            guard !path.contains(place), row.exists else { throw fault(.failed) }
            try write(row, at: place.appending(id))
        }
        return writes
    }

    /// The tree after a patch, and the places below the node that it writes; nil if the patch fails. A patch that is due again by `now`, at
    /// a later time each time, is applied repeatedly, along with the node's other rules that fall between.
    private func patched(
        _ found: (due: Int64, number: Int, place: Int32), _ path: Path, _ root: Node, _ written: Int64?, _ now: Int64, _ patches: inout Int
    ) -> (tree: Node, places: [Path])? {
        let rules = program.details[Int(found.place)].expires
        func make(_ rule: ExpiryRule, in tree: Node, _ written: Int64?) -> Node? {
            var made = tree
            for (below, value) in rule.patch {
                guard let value = evaluate(path, tree, written, now, { e throws(Fault) in try e.node(value) }) else { return nil }
                made.set(value, at: path.appending(below))
            }
            return made
        }
        guard let once = make(rules[found.number], in: root, written) else { return nil }
        var (tree, last, places, isRepeated) = (once, (due: found.due, number: found.number), [found.number] as Set, false)
        let time = written.map { _ in now }
        for _ in 1..<RulesLimits.patchesAtOnce {
            patches += 1
            guard let next = run(path, tree, 0, { earliest(path, tree, time, &$0) }), next.due <= now, next.due > last.due else { break }
            let rule = rules[next.number]
            // Another rule with a log row must fire by itself: each of its rows describes one time.
            guard !rule.patch.isEmpty, next.number == found.number || rule.log == nil, let made = make(rule, in: tree, time) else { break }
            (tree, last) = (made, (next.due, next.number))
            places.insert(next.number)
            if next.number == found.number { isRepeated = true }
        }
        guard isRepeated else { return (once, rules[found.number].patch.map(\.path)) }
        return (tree, places.flatMap { rules[$0].patch.map(\.path) }.outermost)
    }

    /// Calls `body` with the nodes with an `.expire` that a write may have changed: those above, at and below a location.
    /// - Parameter left: the number of nodes below that may still be scanned.
    /// - Returns: false if the budget was spent.
    @discardableResult
    public func visitExpiring(_ location: Path, old: Node, new: Node, atMost left: inout Int, _ body: (Path) -> Void) -> Bool {
        var place: Int32 = 0
        for (level, key) in location.keys.enumerated() {
            guard program.tables.places[Int(place)].expires else { return true }
            if level > 0, program.tables.places[Int(place)].ends { body(Path(location.keys.prefix(level))) }
            place = child(of: place, key)
            if place < 0 { return true }
        }
        if !program.expiresBelow(place) {
            guard program.tables.places[Int(place)].expires else { return true }
            // Whether the node exists is checked by the caller, as for those above.
            left = max(left - 1, -1)
            if left >= 0 { body(location) }
            return left >= 0
        }
        var visit = ExpiringNodes(program, left: left)
        defer { left = visit.left }
        return visit.written(place, location, old.node(at: location), new.node(at: location), from: [], body)
    }

    /// Whether a write at a location may affect nodes with an `.expire`: above, at or below it. O(depth)
    public func mayExpire(around location: Path) -> Bool {
        var (place, isBelow): (Int32, Bool) = (0, false)
        for key in location.keys {
            guard program.tables.places[Int(place)].expires else { return isBelow }
            if program.tables.places[Int(place)].ends { isBelow = true }
            place = child(of: place, key)
            if place < 0 { return isBelow }
        }
        return isBelow || program.tables.places[Int(place)].expires
    }

    private func child(of place: Int32, _ key: Key) -> Int32 { program.child(of: place, key) }

    private func rulesPlace(of path: Path) -> Int32? {
        let place = program.tables.place(of: path) { $0.expires }
        return place < 0 ? nil : place
    }

    // MARK: Evaluation

    /// The rule of a node that is due first.
    private func earliest(_ path: Path, _ root: Node, _ written: Int64?) -> (due: Int64, number: Int, place: Int32)? {
        run(path, root, 0) { earliest(path, root, written, &$0) }
    }

    /// The rule that is due first, with the evaluator positioned at the node.
    private func earliest(
        _ path: Path, _ root: Node, _ written: Int64?, _ evaluator: inout Evaluator
    ) -> (due: Int64, number: Int, place: Int32)? {
        guard let place = rulesPlace(of: path), evaluator.node(.new, at: path.depth) != nil else { return nil }
        var found: (due: Int64, number: Int, place: Int32)?
        for (i, rule) in program.details[Int(place)].expires.enumerated() {
            guard let due = due(rule, path, root, written, &evaluator), found.map({ due < $0.due }) ?? true else { continue }
            found = (due, i, place)
        }
        return found
    }

    private func due(_ rule: ExpiryRule, _ path: Path, _ root: Node, _ written: Int64?, _ evaluator: inout Evaluator) -> Int64? {
        evaluate(written, &evaluator) { evaluator throws(Fault) -> Int64? in
            if rule.condition >= 0, try !evaluator.boolean(rule.condition) { return nil }
            guard case .number(let ms) = try evaluator.value(rule.at), ms.isFinite, ms < Self.never else { return nil }
            let time = Int64(max(ms, -Self.never).rounded(.up))
            if rule.patch.isEmpty { return time }
            let node = root.node(at: path)
            // The patch would be applied at that time, at the earliest.
            evaluator.now = Double(time)
            for (below, value) in rule.patch where try evaluator.node(value) != node.node(at: below) { return time }
            return nil
        } ?? nil
    }

    /// Times from here on, in ms, mean never; doubles are exact up to it.
    private static let never = 9e15

    /// Evaluates an expression at a node; nil if it fails.
    private func evaluate<R>(
        _ path: Path, _ root: Node, _ written: Int64?, _ now: Int64, _ body: (inout Evaluator) throws(Fault) -> R
    ) -> R? {
        run(path, root, now) { evaluate(written, &$0, body) }
    }

    private func evaluate<R>(_ written: Int64?, _ evaluator: inout Evaluator, _ body: (inout Evaluator) throws(Fault) -> R) -> R? {
        evaluator.textWork = min(program.textWork, RulesLimits.expiryTextWork)
        evaluator.written = written.map { Double($0) }
        do throws(Fault) { return try body(&evaluator) } catch {
            evaluator.dropScratch(to: 0)
            return nil
        }
    }

    private func run<R>(_ path: Path, _ root: Node, _ now: Int64, _ body: (inout Evaluator) -> R) -> R {
        Evaluator.run(program, old: root, new: root, auth: .null, now: now, query: nil) { evaluator in
            path.keys.withUnsafeBufferPointer { keys in
                evaluator.descend(keys)
                return body(&evaluator)
            }
        }
    }

    /// The place of a log row; nil if a value in its path is missing.
    private func target(
        _ template: PathTemplate, _ path: Path, _ node: Node, _ fault: (ConsequenceFault.Reason) -> ConsequenceFault
    ) throws(ConsequenceFault) -> Path? {
        var target = ContiguousArray<Key>()
        for segment in template.segments {
            switch segment {
            case .key(let key): target.append(key)
            case .capture(let depth): target.append(path.keys[depth - 1])
            case .value(let field):
                let value = node.node(at: field)
                let key: Key? = switch value.leaf {
                case .string(let text): Key(text.string)
                case .int(let number): Key(String(number))
                default: nil
                }
                guard let key else { return nil }
                guard key.isValid else { throw fault(.illegalKey(key.string)) }
                target.append(key)
            // A log row has neither.
            case .every, .generated: return nil
            }
        }
        return Path(target)
    }
}

extension Path {
    /// Whether the path has the same keys as another at some depths, one bit each.
    func hasKeys(of other: Path, at depths: UInt64) -> Bool {
        var depths = depths
        while depths != 0 {
            let depth = depths.trailingZeroBitCount
            guard depth <= min(self.depth, other.depth), keys[depth - 1] == other.keys[depth - 1] else { return false }
            depths &= depths - 1
        }
        return true
    }
}
