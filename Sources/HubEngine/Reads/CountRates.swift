import JSONTree
import LiveQueries
import SecurityRules

/// How many counts each address has asked for of late, where the rules allow those without an account so many in a minute.
///
/// Seven slots of ten seconds make a window of 60 to 70 seconds, so that in no minute there are more than may be. Confined to the database
/// queue; each in O(1), and once in ten seconds O(callers) where there are too many of these.
struct CountRates {
    struct Caller: Hashable {
        /// Nil for this machine's own addresses: who comes through a proxy that is not named as one is one of many.
        let address: String?
        /// The rule that counts are asked by.
        let place: Path
    }

    private struct Window {
        /// The number of its newest slot, which begins ten seconds behind the one before.
        var slot: Int64
        var counts = SIMD8<Int32>(repeating: 0)

        mutating func move(to now: Int64) {
            for passed in 0..<min(now - slot, Int64(CountRates.slots)) { counts[Int((slot + 1 + passed) % Int64(CountRates.slots))] = 0 }
            slot = max(slot, now)
        }
    }

    private static let slots = 7
    private static let slotMs: Int64 = 10_000

    private let most: Int
    private var windows: [Caller: Window] = [:]
    private var sweptAt = Int64.min

    /// - Parameter callers: that are remembered at the same time; further ones wait until others are forgotten.
    init(callers: Int) { most = callers }

    /// Notes a count, unless it is one too many.
    /// - Parameter now: ms of the steady clock.
    mutating func admit(_ caller: Caller, atMost limit: Int, now: Int64) -> Bool {
        let slot = now / Self.slotMs
        if windows[caller] == nil, windows.count >= most {
            forget(before: slot)
            if windows.count >= most { return false }
        }
        var window = windows[caller] ?? Window(slot: slot)
        window.move(to: slot)
        guard window.counts.wrappedSum() < Int32(clamping: limit) else { return false }
        window.counts[Int(slot % Int64(Self.slots))] += 1
        windows[caller] = window
        return true
    }

    private mutating func forget(before slot: Int64) {
        guard slot != sweptAt else { return }
        sweptAt = slot
        windows = windows.filter { slot - $0.value.slot < Int64(Self.slots) }
    }
}

extension RuleSet {
    /// What the rules say to an observer. One that is told how many there are is asked about as a count, and refused where another circle
    /// would be counted for its client: who has no account any more must ask again.
    func decide(_ observation: Observation, root: Node, auth: Node, now: Int64) -> ReadDecision {
        let (path, query) = (observation.path, observation.query)
        let asked = query.map(QueryVariables.init) ?? .none
        guard observation.style.isCount else { return decideRead(path, root: root, auth: auth, now: now, query: asked) }
        guard counted(query, at: path, by: auth) == query else { return .refused }
        return decideCount(path, root: root, auth: auth, now: now, query: asked)
    }

    /// A query as it is counted for somebody: without an account its circle lies on the grid of the place's `.count`, and its radius is a
    /// multiple of the least. One below that is left as it is, and refused.
    func counted(_ query: ChildQuery?, at path: Path, by auth: Node) -> ChildQuery? {
        guard case .live(let live)? = query, let near = live.near, CountTerms.concern(auth), let terms = countTerms(at: path) else {
            return query
        }
        let centre = terms.snap.map { near.centre.snapped(toMetres: $0) } ?? near.centre
        var metres = near.metres
        if let least = terms.radius, let asked = metres, asked > least, (asked / least).rounded() * least != asked {
            metres = (asked / least).rounded(.up) * least
        }
        return .live(live.around(centre, metres: metres))
    }
}

extension Failure {
    static func tooManyCounts(_ most: Int) -> Failure {
        Failure(.tooMany, "Without an account \(most) counts of this place may be asked for in a minute; try again later, or sign in.")
    }
}
