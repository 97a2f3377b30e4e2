import Scheduling

/// Recent use by a rate-limited caller. Each conforming type chooses the unit of its clock.
protocol RecentUse: Sendable {
    /// Whether none of the use counts any more.
    func isOver(now: Int64) -> Bool
    /// Whether there is less recent use than in another.
    func isLess(than other: Self, now: Int64) -> Bool
}

/// Recent use by caller, for rate limits, with a bounded number of callers. Each new caller checks a few slots in turn and drops those
/// whose use is over. If the table is still full, it drops the one of these with the least use. So a new caller is never refused because of
/// others, and a caller at its limit is forgotten last. Each call is O(1).
struct CallerTable<Caller: Hashable & Sendable, Use: RecentUse> {
    private struct Slot {
        let caller: Caller
        var use: Use
    }

    private let most: Int
    private var slots: [Slot] = []
    private var numbers: [Caller: Int] = [:]
    /// The next slot to check.
    private var hand = 0

    /// Slots checked for each new one: more than one, so that expired slots go faster than new ones come.
    private static var slotsChecked: Int { 8 }

    init(most: Int) { self.most = max(1, most) }

    /// Callers in the table.
    var count: Int { slots.count }

    subscript(caller: Caller) -> Use? { numbers[caller].map { slots[$0].use } }

    mutating func keep(_ use: Use, of caller: Caller, now: Int64) {
        if let number = numbers[caller] { return slots[number].use = use }
        sweep(now)
        numbers[caller] = slots.count
        slots.append(Slot(caller: caller, use: use))
    }

    private mutating func sweep(_ now: Int64) {
        var least: Int?
        for _ in 0..<Self.slotsChecked where !slots.isEmpty {
            if hand >= slots.count { hand = 0 }
            if slots[hand].use.isOver(now: now) {
                remove(hand)
                least = nil
                continue
            }
            if least.map({ slots[hand].use.isLess(than: slots[$0].use, now: now) }) ?? true { least = hand }
            hand += 1
        }
        if slots.count >= most { remove(least ?? 0) }
    }

    private mutating func remove(_ number: Int) {
        numbers[slots[number].caller] = nil
        let last = slots.removeLast()
        guard number < slots.count else { return }
        slots[number] = last
        numbers[last.caller] = number
    }
}

/// A full bucket has no recent use.
extension TokenBucket: RecentUse {
    func isOver(now: Int64) -> Bool { isFull(now: now) }
    func isLess(than other: TokenBucket, now: Int64) -> Bool { fullAt < other.fullAt }
}
