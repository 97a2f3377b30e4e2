import JSONTree
import LiveQueries
import SecurityRules

/// How many counts each address has asked for of late, where the rules allow those without an account so many in a minute.
///
/// Seven slots of ten seconds make a window of 60 to 70 seconds, so that in no minute there are more than may be. Where there are too many
/// callers, the one goes of a few that has asked least of late: a newcomer is never refused for others, and who is at his bound is
/// forgotten last. Confined to the database queue; each in O(1).
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
            guard now > slot else { return }
            for passed in 0..<min(now - slot, Int64(CountRates.length)) { counts[Int((slot + 1 + passed) % Int64(CountRates.length))] = 0 }
            slot = now
        }
    }

    /// Slots of a window.
    private static let length = 7
    private static let slotMs: Int64 = 10_000

    private let most: Int
    private var slots: [(caller: Caller, window: Window)] = []
    private var numbers: [Caller: Int] = [:]
    /// The caller that is looked at next.
    private var hand = 0

    /// Callers that are looked at for each new one: more than one, so that idle ones go faster than new ones come.
    private static let lookedAt = 8

    /// - Parameter callers: that are remembered at the same time.
    init(callers: Int) { most = max(1, callers) }

    /// Callers that are remembered.
    var count: Int { slots.count }

    /// Notes a count, unless it is one too many.
    /// - Parameter now: ms of the steady clock.
    mutating func admit(_ caller: Caller, atMost limit: Int, now: Int64) -> Bool {
        let slot = now / Self.slotMs
        let known = numbers[caller]
        var window = known.map { slots[$0].window } ?? Window(slot: slot)
        window.move(to: slot)
        guard window.counts.wrappedSum() < Int32(clamping: limit) else { return false }
        window.counts[Int(slot % Int64(Self.length))] += 1
        if let known {
            slots[known].window = window
        } else {
            sweep(slot)
            numbers[caller] = slots.count
            slots.append((caller, window))
        }
        return true
    }

    /// Lets idle callers go, and where there is no room nevertheless the one that has asked least.
    private mutating func sweep(_ now: Int64) {
        var least: (number: Int, sum: Int32)?
        for _ in 0..<Self.lookedAt where !slots.isEmpty {
            if hand >= slots.count { hand = 0 }
            slots[hand].window.move(to: now)
            let sum = slots[hand].window.counts.wrappedSum()
            if sum == 0 {
                remove(hand)
                least = nil
                continue
            }
            if least.map({ sum < $0.sum }) ?? true { least = (hand, sum) }
            hand += 1
        }
        if slots.count >= most { remove(least?.number ?? 0) }
    }

    private mutating func remove(_ number: Int) {
        numbers[slots[number].caller] = nil
        let last = slots.removeLast()
        guard number < slots.count else { return }
        slots[number] = last
        numbers[last.caller] = number
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
