import Scheduling

/// What a caller of whom it is counted how often he asks has used of late. Of a clock whose unit each kind chooses.
protocol RecentUse: Sendable {
    /// Whether nothing of it counts any more.
    func isOver(now: Int64) -> Bool
    /// Whether there is less of it than of another.
    func isLess(than other: Self, now: Int64) -> Bool
}

/// Recent use by caller, for rates: at most so many. What is over need not be kept, so each new caller has a few others looked at, and
/// those let go whose use is over meanwhile; where there is no room nevertheless, the one of these that has used least. So a newcomer is
/// never refused for others, and who is at his bound is forgotten last. Each in O(1).
struct CallerTable<Caller: Hashable & Sendable, Use: RecentUse> {
    private struct Slot {
        let caller: Caller
        var use: Use
    }

    private let most: Int
    private var slots: [Slot] = []
    private var numbers: [Caller: Int] = [:]
    /// The slot that is looked at next.
    private var hand = 0

    /// Slots that are looked at for each new one: more than one, so that those that are over go faster than new ones come.
    private static var lookedAt: Int { 8 }

    init(most: Int) { self.most = max(1, most) }

    /// Callers that are kept.
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
        for _ in 0..<Self.lookedAt where !slots.isEmpty {
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

/// One is full when it was not used of late.
extension TokenBucket: RecentUse {
    func isOver(now: Int64) -> Bool { isFull(now: now) }
    func isLess(than other: TokenBucket, now: Int64) -> Bool { fullAt < other.fullAt }
}
