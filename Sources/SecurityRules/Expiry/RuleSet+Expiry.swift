public import JSONTree

/// Nodes that end by time. When one does depends on what is stored at and below it and on when that was last written, on nothing else: so
/// it is known after each write, is the same after a restart, and nothing has to be remembered of what has happened already.
///
/// ```
/// node, written ─► each rule: `if` holds, its patch would change something ─► `at` ─► the earliest of them: due
/// due ≤ now ─► removal or patch, and a row in the log: one commit ─► due anew
/// ```
extension RuleSet {
    /// Whether the rules have nodes end by time.
    public var hasExpiry: Bool { program.hasExpiry }

    /// Whether some of them ask when they were written.
    public var asksWhenWritten: Bool { program.asksWhenWritten }

    /// Whether the place of a node has an `.expire` that asks when it was written. O(depth)
    public func asksWhenWritten(at path: Path) -> Bool {
        rulesPlace(of: path).map { program.tables.places[Int($0)].asksWhenWritten } ?? false
    }

    /// How many rules the place of a node has that end it. O(depth)
    public func expiryRules(at path: Path) -> Int { rulesPlace(of: path).map { program.details[Int($0)].expires.count } ?? 0 }

    /// What is wrong with rules whose ends have a node due again and again.
    public func endlessExpiry(of path: Path) -> ConsequenceFault {
        let pattern = rulesPlace(of: path).map { program.details[Int($0)].pattern } ?? path
        return ConsequenceFault(reason: .stillDue, rule: "\(pattern)\(ConsequenceKind.expire.rawValue)", path: path)
    }

    /// When a node is due, ms since the epoch; nil for never, as it is now.
    /// - Parameter written: ms of the last commit at or below it; nil where that is not known.
    public func due(at path: Path, in root: Node, written: Int64?) -> Int64? { earliest(path, root, written)?.due }

    public func dues(at paths: [Path], in root: Node, written: (Path) -> Int64?) -> [Int64?] {
        dues(of: paths.map { ($0, nil) }, in: root, written: written)
    }

    /// The same for many nodes, with what they have in common done once: nodes behind each other that have the same rules and the same
    /// value, as copies have, are due at one time.
    /// - Parameter nodes: with the value of each where it is known, so that it is not looked up.
    public func dues(of nodes: [(path: Path, value: Node?)], in root: Node, written: (Path) -> Int64?) -> [Int64?] {
        Evaluator.run(program, old: root, new: root, auth: .null, now: 0, query: nil) { evaluator in
            // Keys are read in place, also those of the path before.
            withExtendedLifetime(nodes) {
                var (previous, known) = (Path.root, KnownDue?.none)
                return nodes.map { path, value in
                    guard let place = rulesPlace(of: path) else { return nil }
                    let rules = program.tables.places[Int(place)]
                    let time = rules.asksWhenWritten ? written(path) : nil
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
                        known = KnownDue(place: place, path: path, value: value, node: node, written: time, due: due)
                        return due
                    }
                }
            }
        }
    }

    /// A node of which it is known when it is due, with all that this depends on.
    private struct KnownDue {
        let place: Int32
        let path: Path
        let value: Node?
        let node: NodeCursor
        let written: Int64?
        let due: Int64?
    }

    /// What has to be done with a node by now: the writes of one commit, none where nothing is due. `.validate` is not asked yet.
    ///
    /// A patch that sets its own next time is made as often as it has been due, up to `RulesLimits.patchesAtOnce`: so that it goes on in
    /// the future, however long nothing was done.
    /// - Throws: when what its rules say cannot be done.
    public func expiry(of path: Path, in root: Node, written: Int64?, now: Int64) throws(ConsequenceFault) -> [SystemWrite] {
        var patches = 0
        return try expiry(of: path, in: root, written: written, now: now, patches: &patches)
    }

    /// The same, for a caller that accounts for the work.
    /// - Parameter patches: raised by the number of patches made; each evaluates all `.expire` rules of the node.
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
            // Else it would be done again and again.
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
            // Twice within a millisecond.
            while root.node(at: place.appending(PushIDGenerator.id(now: now, of: name))).exists { name += "+" }
            let id = PushIDGenerator.id(now: now, of: name)
            guard !path.contains(place), row.exists else { throw fault(.failed) }
            try write(row, at: place.appending(id))
        }
        return writes
    }

    /// The tree with a patch made, and the places below the node that it writes; nil where it fails. Where the same patch is due again by
    /// then, which goes on as time does, it is made that often, with those of the node that come between.
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
            // Each other rule's row tells of one time.
            guard !rule.patch.isEmpty, next.number == found.number || rule.log == nil, let made = make(rule, in: tree, time) else { break }
            (tree, last) = (made, (next.due, next.number))
            places.insert(next.number)
            if next.number == found.number { isRepeated = true }
        }
        guard isRepeated else { return (once, rules[found.number].patch.map(\.path)) }
        return (tree, places.flatMap { rules[$0].patch.map(\.path) }.outermost)
    }

    /// Calls `body` with the nodes that have an `.expire` and that a write may have changed: those above, at and below a location.
    /// - Parameter left: nodes below that may still be looked at.
    /// - Returns: false when there were more.
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
            // Whether there is a node is found out where it is looked at, as for those above.
            left = max(left - 1, -1)
            if left >= 0 { body(location) }
            return left >= 0
        }
        var visit = ExpiringNodes(program, left: left)
        defer { left = visit.left }
        return visit.written(place, location, old.node(at: location), new.node(at: location), from: [], body)
    }

    /// Whether a write at a location may change nodes that have an `.expire`: those above, at and below it. O(depth)
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

    /// The same, where the evaluator stands at the node.
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
            // It would be made at that time, at the earliest.
            evaluator.now = Double(time)
            for (below, value) in rule.patch where try evaluator.node(value) != node.node(at: below) { return time }
            return nil
        } ?? nil
    }

    /// Times from here on, in ms, are never; doubles are exact up to it.
    private static let never = 9e15

    /// Evaluates at a node. Nil where the expression fails.
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

    /// The place of a log; nil where a value that it needs is missing.
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
            case .every: return nil
            }
        }
        return Path(target)
    }
}

extension Path {
    /// Whether it has the keys of another one at some depths, a bit for each.
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
