import JSONTree

/// Watches: what lies in the region of a watching node after the commit, and has come there or changed, is a hit. A few rows are part of
/// the commit; if they are too many, all of them follow in later commits (`ContinuedHits`).
extension ConsequenceRound {
    /// Writes the hits of everything that differs between the trees before and after.
    /// - Parameter locations: where they may differ.
    mutating func watch(_ locations: [Path], _ state: WatchState) throws(ConsequenceFault) {
        var search = WatchSearch(
            program, before: before, after: after, state, now: now, keys: limits.keys - result.keysScanned, textWork: textWork)
        let pairs: [WatchSearch.Pair]
        do throws(WatchSearch.TooMany) { pairs = try search.run(locations) } catch {
            keys = []
            throw fault(.tooManyKeys(limits.keys), program.watches[search.rule].place, .watch)
        }
        (result.keysScanned, textWork) = (limits.keys - search.left, search.work)
        let reader = WatchReader(program: program, tree: after)
        var rows: [(watch: WatchRule, pair: WatchPair, row: WatchRow)] = []
        for found in pairs {
            let watch = program.watches[found.rule]
            let pair = WatchPair(watch: found.watch, number: watch.number, item: found.item)
            keys = found.watch.keys
            if result.found.contains(pair) { continue }
            result.evaluated += 1
            let row = reader.row(watch, found, now: now, chooses: true, work: &textWork)
            if textWork <= 0 { throw fault(.tooMuchWork, watch.place, .watch) }
            guard let row else { continue }
            result.found.insert(pair)
            result.hits.append(WatchHit(pair, mutedUntil: row.mutedUntil))
            rows.append((watch, pair, row))
        }
        guard !limits.defersAll, rows.count <= limits.writes - result.writes.count else { return try leavePending(rows) }
        for (watch, pair, row) in rows {
            keys = pair.watch.keys
            guard row.value.fits(below: row.to.depth) else { throw fault(.tooDeep, watch.place, .watch) }
            try write(row.value, at: row.to, watch.place, .watch)
        }
    }

    private mutating func leavePending(_ rows: [(watch: WatchRule, pair: WatchPair, row: WatchRow)]) throws(ConsequenceFault) {
        guard let first = rows.first else { return }
        let pendingCount = result.continued.count + limits.pendingBySource.values.reduce(0, +)
        guard pendingCount < limits.continuations else {
            throw fault(.tooManyContinuations(limits.continuations), first.watch.place, .watch)
        }
        result.continuedRows += rows.count
        guard result.continuedRows + limits.pendingRows <= limits.continuedRows else {
            throw fault(.tooManyRows(limits.continuedRows), first.watch.place, .watch)
        }
        result.continuedHits += rows.map(\.pair)
    }
}
