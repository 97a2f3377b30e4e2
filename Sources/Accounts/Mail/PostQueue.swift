/// Letters that are to be sent, as a value with the clock handed in.
///
///     added ─► due ─► under way ─┬─► sent                      gone
///               ▲                ├─► refused for good          gone
///               └── after a wait ┴─► failed, time is left      (its time is over: gone)
struct PostQueue {
    /// What happened to one try.
    enum Outcome: Equatable {
        case gone
        /// Tried again after so many ms.
        case waits(Int64)
        /// Not tried again: its link will have ended by then.
        case late
    }

    private struct Item {
        var letter: Letter
        var dueAt: Int64
        /// After this it is of no use to anyone.
        var until: Int64
        var tries = 0
        var isUnderWay = false
    }

    private let settings: PostSettings
    private var items: [Int: Item] = [:]
    private var nextID = 0

    init(_ settings: PostSettings) { self.settings = settings }

    var count: Int { items.count }
    private var underWay: Int { items.values.reduce(0) { $0 + ($1.isUnderWay ? 1 : 0) } }

    /// False: there are too many.
    mutating func add(_ letter: Letter, until: Int64, now: Int64) -> Bool {
        guard items.count < settings.waiting else { return false }
        items[nextID] = Item(letter: letter, dueAt: now, until: until)
        nextID += 1
        return true
    }

    /// Letters to send now, oldest first; they count as under way.
    mutating func take(now: Int64) -> [(id: Int, letter: Letter)] {
        let due = items.filter { !$0.value.isUnderWay && $0.value.dueAt <= now }.keys.sorted().prefix(max(0, settings.atOnce - underWay))
        return due.compactMap { id in
            items[id]?.isUnderWay = true
            return items[id].map { (id, $0.letter) }
        }
    }

    /// When the next letter is due that is not under way; nil: none waits, or one that is under way must end first.
    var nextDue: Int64? { underWay < settings.atOnce ? items.values.filter { !$0.isUnderWay }.map(\.dueAt).min() : nil }

    mutating func finished(_ id: Int, _ fault: LetterFault?, now: Int64) -> Outcome {
        guard var item = items.removeValue(forKey: id), case .later = fault else { return .gone }
        let wait = settings.waitsMs[min(item.tries, settings.waitsMs.count - 1)]
        guard now + wait < item.until else { return .late }
        item.tries += 1
        item.dueAt = now + wait
        item.isUnderWay = false
        items[id] = item
        return .waits(wait)
    }
}

public struct PostSettings: Sendable, Equatable {
    /// Letters that are kept at most.
    public var waiting = 1_000
    /// Letters sent at the same time.
    public var atOnce = 4
    /// ms between tries; the last one again and again. Not empty.
    public var waitsMs: [Int64] = [5_000, 15_000, 60_000, 120_000, 300_000, 600_000, 1_800_000]

    public init() {}
}
