import JSONTree
import LiveQueries

/// What a hit writes.
struct WatchRow {
    let to: Path
    let value: Node
    /// ms since the epoch; `Int64.max` as long as both exist.
    let mutedUntil: Int64
}

extension WatchReader {
    /// What a watch writes about something that it has found; nil for nothing. An expression that fails, or a value that is no key, makes
    /// no row: it must not refuse the write of another user.
    /// - Parameters:
    ///   - now: ms since the epoch.
    ///   - chooses: whether `until` and `if` are evaluated.
    ///   - work: the text work that the expressions may do; reduced by what they do.
    func row(_ watch: WatchRule, _ found: WatchSearch.Pair, now: Int64, chooses: Bool, work: inout Int) -> WatchRow? {
        let most = min(work, RulesLimits.rowTextWork)
        let (place, item) = (watch.on[found.on], found.item.keys[found.item.depth - 1])
        var left = most
        defer { work -= most - left }
        let row: (value: Node, mutedUntil: Int64)? = Evaluator.run(
            program, old: tree, new: tree, auth: RuleSet.hubAuth, now: now, query: nil
        ) { evaluator in
            evaluator.textWork = most
            evaluator.distance = found.distance
            defer { left = evaluator.textWork }
            return (found.watch.keys + [item]).withUnsafeBufferPointer { keys in
                evaluator.descend(keys)
                do throws(Fault) {
                    if chooses, let until = try evaluator.amount(watch.until), Double(now) > until { return nil }
                    if chooses, place.condition >= 0, !(try evaluator.boolean(place.condition)) { return nil }
                    let cooldown = try evaluator.amount(watch.cooldown)
                    return (try evaluator.node(place.value), Self.muted(from: now, seconds: cooldown))
                } catch {
                    evaluator.dropScratch(to: 0)
                    return nil
                }
            }
        }
        guard let row, row.value.exists, let to = target(watch, found, item) else { return nil }
        return WatchRow(to: to, value: row.value, mutedUntil: row.mutedUntil)
    }

    private static func muted(from now: Int64, seconds: Double?) -> Int64 {
        guard let seconds else { return .max }
        return Int64(exactly: (Double(now) + seconds * 1_000).rounded(.up)) ?? (seconds > 0 ? .max : now)
    }

    /// The place of a hit; nil if a value in it is missing or no key.
    private func target(_ watch: WatchRule, _ found: WatchSearch.Pair, _ item: Key) -> Path? {
        var keys = ContiguousArray<Key>()
        let node = tree.node(at: found.watch)
        for segment in watch.to.segments {
            switch segment {
            case .key(let key): keys.append(key)
            case .capture(let depth): keys.append(depth <= watch.nodeDepth ? found.watch.keys[depth - 1] : item)
            case .value(let field):
                guard let key = Self.key(node.node(at: field)) else { return nil }
                keys.append(key)
            // Of the watching node and of what it has found: each pair has one row.
            case .generated(let name): keys.append(GeneratedKey.of(found.watch.keys + found.item.keys, name))
            case .every: return nil
            }
        }
        return Path(keys)
    }

    /// The key that a value names; nil for anything else.
    static func key(_ value: Node) -> Key? {
        let key: Key
        switch value.leaf {
        case .string(let text): key = Key(text.string)
        case .int(let number): key = Key(String(number))
        default: return nil
        }
        return key.isValid ? key : nil
    }
}

extension WatchRule {
    /// Metres from the centre to a point, to a tenth; nil for a region without a centre.
    func distance(of point: GeoPoint, in region: Region) -> Double? {
        guard case .circle = area, case .circle(let circle) = region else { return nil }
        return (circle.centre.metres(to: point) * 10).rounded() / 10
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
