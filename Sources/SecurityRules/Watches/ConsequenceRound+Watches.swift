import JSONTree

/// Watches: what lies in the region of a watching node after the commit, and has come there or changed, is a hit.
extension ConsequenceRound {
    /// Writes the hits of everything that differs between the trees before and after.
    /// - Parameter locations: where they may differ.
    mutating func watch(_ locations: [Path], _ state: WatchState) throws(ConsequenceFault) {
        var search = WatchSearch(
            program, before: before, after: after, state.index, keys: limits.keys - result.keysScanned, textWork: textWork)
        let pairs: [WatchSearch.Pair]
        do throws(WatchSearch.TooMany) { pairs = try search.run(locations) } catch {
            keys = []
            throw fault(.tooManyKeys(limits.keys), program.watches[search.rule].place, .watch)
        }
        (result.keysScanned, textWork) = (limits.keys - search.left, search.work)
        for pair in pairs { try hit(pair, state) }
    }

    private mutating func hit(_ found: WatchSearch.Pair, _ state: WatchState) throws(ConsequenceFault) {
        let watch = program.watches[found.rule]
        let pair = WatchPair(watch: found.watch, number: watch.number, item: found.item)
        keys = found.watch.keys
        if let until = state.mutedUntil(pair), until > now { return }
        guard !result.found.contains(pair) else { return }
        result.evaluated += 1
        guard let row = try row(watch, found) else { return }
        result.found.insert(pair)
        result.hits.append(WatchHit(pair, mutedUntil: row.mutedUntil))
        guard row.value.fits(below: row.to.depth) else { throw fault(.tooDeep, watch.place, .watch) }
        try write(row.value, at: row.to, watch.place, .watch)
    }

    /// What a hit writes; nil if it is none after all. An expression that fails makes none: it must not refuse the write of another user.
    private mutating func row(
        _ watch: WatchRule, _ found: WatchSearch.Pair
    ) throws(ConsequenceFault) -> (to: Path, value: Node, mutedUntil: Int64)? {
        let most = min(textWork, RulesLimits.rowTextWork)
        let (place, tree, time) = (watch.on[found.on], after, now)
        let item = found.item.keys[found.item.depth - 1]
        var left = most
        let row: (value: Node, mutedUntil: Int64)? = Evaluator.run(
            program, old: tree, new: tree, auth: RuleSet.hubAuth, now: now, query: nil
        ) { evaluator in
            evaluator.textWork = most
            evaluator.distance = found.distance
            defer { left = evaluator.textWork }
            return (found.watch.keys + [item]).withUnsafeBufferPointer { keys in
                evaluator.descend(keys)
                do throws(Fault) {
                    if let until = try evaluator.amount(watch.until), Double(time) > until { return nil }
                    if place.condition >= 0, !(try evaluator.boolean(place.condition)) { return nil }
                    let cooldown = try evaluator.amount(watch.cooldown)
                    return (try evaluator.node(place.value), Self.muted(from: time, seconds: cooldown))
                } catch {
                    evaluator.dropScratch(to: 0)
                    return nil
                }
            }
        }
        textWork -= most - left
        if textWork <= 0 { throw fault(.tooMuchWork, watch.place, .watch) }
        guard let row, row.value.exists, let to = target(watch, found, item, in: tree) else { return nil }
        return (to, row.value, row.mutedUntil)
    }

    private static func muted(from now: Int64, seconds: Double?) -> Int64 {
        guard let seconds else { return .max }
        return Int64(exactly: (Double(now) + seconds * 1_000).rounded(.up)) ?? (seconds > 0 ? .max : now)
    }

    /// The place of a hit; nil if a value in it is missing or no key.
    private func target(_ watch: WatchRule, _ found: WatchSearch.Pair, _ item: Key, in tree: Node) -> Path? {
        var keys = ContiguousArray<Key>()
        let node = tree.node(at: found.watch)
        for segment in watch.to.segments {
            switch segment {
            case .key(let key): keys.append(key)
            case .capture(let depth): keys.append(depth <= watch.nodeDepth ? found.watch.keys[depth - 1] : item)
            case .value(let field):
                guard let key = try? key(node.node(at: field), watch.place, .watch) else { return nil }
                keys.append(key)
            // Of the watching node and of what it has found: each pair has one row.
            case .generated(let name): keys.append(GeneratedKey.of(found.watch.keys + found.item.keys, name))
            case .every: return nil
            }
        }
        return Path(keys)
    }
}

extension Evaluator {
    /// The number that an instruction yields; nil for none, and for null.
    /// - Throws: for anything else, so that a mistake is no unlimited watch.
    fileprivate mutating func amount(_ instruction: Int32) throws(Fault) -> Double? {
        guard instruction >= 0 else { return nil }
        defer { dropScratch(to: 0) }
        switch try value(instruction) {
        case .number(let number): return number
        case .null: return nil
        default: throw Fault(reason: .notNumber, at: program.tables.spans[Int(instruction)])
        }
    }
}
