package import Commits
package import JSONTree
package import LiveQueries
import Scheduling
package import SecurityRules

/// Limits how many counts each address may request per minute, where the rules limit anonymous callers.
///
/// Seven slots of ten seconds form a window of 60 to 70 seconds, so no minute exceeds the limit. Confined to the database queue. All operations are
/// O(1).
package struct CountRates {
    package struct Caller: Hashable {
        /// Nil for this machine's own addresses. Clients behind a proxy that is not configured as one share this value.
        package let address: String?
        /// Pattern of the rule that allows the counts.
        package let place: Path

        package init(address: String?, place: Path) {
            self.address = address
            self.place = place
        }
    }

    private var kept: CallerTable<Caller, CountWindow>

    /// - Parameter callers: maximum number of callers remembered at a time.
    package init(callers: Int) { kept = CallerTable(most: callers) }

    /// Number of remembered callers.
    package var count: Int { kept.count }

    /// Records a count, unless it exceeds the limit of its address or of its /48 IPv6 network.
    /// - Parameter now: ms of the steady clock.
    /// - Returns: ms until the next count is allowed; nil if this one was recorded.
    package mutating func admit(_ caller: Caller, atMost limit: Int, now: Int64) -> Int64? {
        let slot = now / CountWindow.slotMs
        let share = Share(total: .max, each: limit)
        var counted = [(caller: caller, window: window(of: caller, at: slot), limit: limit)]
        if let network = caller.address.flatMap(NetworkShare.wide) {
            let wide = Caller(address: network, place: caller.place)
            counted.append((wide, window(of: wide, at: slot), share.limit(of: .network(network))))
        }
        if let free = counted.compactMap({ $0.window.slotWithRoom($0.limit) }).max() { return free * CountWindow.slotMs - now }
        for var one in counted {
            one.window.add()
            kept.keep(one.window, of: one.caller, now: slot)
        }
        return nil
    }

    private func window(of caller: Caller, at slot: Int64) -> CountWindow {
        var window = kept[caller] ?? CountWindow(slot: slot)
        window.move(to: slot)
        return window
    }
}

/// Counts in the slots of a window. Time is measured in slot numbers.
struct CountWindow: RecentUse {
    /// Number of the newest slot. Each slot begins ten seconds after the previous one.
    private(set) var slot: Int64
    private var counts = SIMD8<Int32>(repeating: 0)

    static let slotMs: Int64 = 10_000
    /// Number of slots in a window.
    private static let length: Int64 = 7

    init(slot: Int64) { self.slot = slot }

    private var sum: Int32 { counts.wrappedSum() }

    mutating func move(to now: Int64) {
        guard now > slot else { return }
        for passed in 0..<min(now - slot, Self.length) { counts[Int((slot + 1 + passed) % Self.length)] = 0 }
        slot = now
    }

    mutating func add() { counts[Int(slot % Self.length)] += 1 }

    /// The first slot in which the limit allows another count; nil if it does now.
    func slotWithRoom(_ limit: Int) -> Int64? {
        var later = self
        while later.sum >= Int32(clamping: max(1, limit)) { later.move(to: later.slot + 1) }
        return later.slot > slot ? later.slot : nil
    }

    func isOver(now: Int64) -> Bool { used(now) == 0 }
    func isLess(than other: CountWindow, now: Int64) -> Bool { used(now) < other.used(now) }

    private func used(_ now: Int64) -> Int32 {
        var window = self
        window.move(to: now)
        return window.sum
    }
}

extension RuleSet {
    /// The read decision on an observer. One that receives only a count is checked as a count. It is refused if its client would now get another
    /// circle: a client that has lost its account must observe again.
    package func decide(_ observation: Observation, root: Node, auth: Node, now: Int64) -> ReadDecision {
        let (path, query) = (observation.path, observation.query)
        let asked = query.map(QueryVariables.init)
        guard observation.style.isCount else { return decideRead(path, root: root, auth: auth, now: now, query: asked) }
        guard counted(query, at: path, by: auth) == query else { return .refused }
        return decideCount(path, root: root, auth: auth, now: now, query: asked)
    }

    /// The query as the hub counts it for a caller. For anonymous callers, the terms of the place's `.count` apply. A circle that these terms refuse
    /// is returned unchanged. Idempotent.
    package func counted(_ query: Query?, at path: Path, by auth: Node) -> Query? {
        guard CountTerms.concern(auth), let terms = countTerms(at: path) else { return query }
        let least = terms.least(hasConditions: query.map { !$0.filter.isEmpty } ?? false)
        guard let query else { return least > 0 ? .all(least: least) : nil }
        if query.isPlain, least == 0 || query.tree.start != nil || query.tree.end != nil { return query }
        let counted = query.counted(least: least)
        guard let near = query.near else { return counted }
        let metres = near.metres.map { terms.countedRadius($0) }
        let centre = terms.snap(of: metres).map { near.centre.snapped(toMetres: $0) } ?? near.centre
        return counted.around(centre, metres: metres, grid: metres == nil ? nil : terms.grid)
    }
}

extension Failure {
    package static func tooManyCounts(_ most: Int, afterMs ms: Int64) -> Failure {
        var failure = Failure(
            .tooMany,
            "Without an account \(most) counts of this place may be asked for in a minute; try again later, or sign in.")
        failure.retryAfterMs = ms
        return failure
    }
}
