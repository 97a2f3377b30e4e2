import JSONTree

/// One order of a place's children, other than by key, that is kept as they change.
///
/// ```
/// being built ── off the queue ──► ready ◄─── a live query, or a request that waits ───► in use
///      ▲                             └── not needed: idle ── too long, or memory is short ──► dropped
///      └── the place was written as a whole
/// ```
/// Confined to the database queue.
final class KeptIndex: @unchecked Sendable {
    // Sendable: background work only hands it back to the queue.
    let path: Path
    let ordering: TreeQuery.Index
    /// Whether a rule names the order, or it needs no rule.
    var isDeclared: Bool
    /// Whether it is one of many that a line of the rules stands for: `types/*`.
    var isOfMember = false
    /// Nil while it is being built.
    var index: OrderedIndex? { didSet { entries = max(Self.leastEntries, index?.count ?? expected) } }
    /// Children of the place when the building began: what it counts as until it is ready.
    var expected: Int { didSet { if index == nil { entries = max(Self.leastEntries, expected) } } }
    /// What it counts as.
    private(set) var entries = KeptIndex.leastEntries
    /// Live queries that need it.
    var views = 0
    /// Requests that wait until it is ready, or is known not to become so.
    var waiting: [(Failure?) -> Void] = []
    /// Parked requests that have selected from it and will be brought up to date with it.
    var pins = 0
    /// Whether it is being built now.
    var isBuilding = false
    /// Nil when observers of live queries are up to date.
    private(set) var owed: Owed?
    var isDropped = false

    /// When it was last used, ms of the steady clock, and its neighbours among the idle ones.
    var usedAt: Int64 = 0
    fileprivate var isIdle = false
    // An index is held by its place; the list of the idle ones leaves with it.
    fileprivate(set) unowned(unsafe) var newer: KeptIndex?
    fileprivate unowned(unsafe) var older: KeptIndex?

    /// What the smallest index counts as: about the memory that it takes beside its entries.
    static let leastEntries = 100

    init(_ path: Path, _ ordering: TreeQuery.Index, isDeclared: Bool, over node: Node) {
        self.path = path
        self.ordering = ordering
        self.isDeclared = isDeclared
        expected = node.childCount
        entries = max(Self.leastEntries, expected)
    }

    var isInUse: Bool { views > 0 || pins > 0 || !waiting.isEmpty || isBuilding }

    /// Observers of live queries are told of what follows a content when the index is there.
    func owe(since content: Node, _ sequence: UInt64) {
        if views > 0, owed == nil { owed = Owed(content: content, sequence: sequence) }
    }

    func takeOwed() -> Owed? {
        defer { owed = nil }
        return owed
    }

    /// What was taken is still owed, as the index is gone again.
    func giveBack(_ owed: Owed) { self.owed = owed }

    /// Commits after this one were taken back, and nothing of them was told.
    func rollBack(to sequence: UInt64) { if let owed, owed.sequence > sequence { self.owed = nil } }

    /// Brings it up to date with children that a commit changed. O(changes · log n)
    func follow(_ changes: [ChildChange]) {
        guard index != nil else { return }
        for change in changes {
            index?.move(
                ordering,
                ChildMap.Change(key: change.key, old: change.old.exists ? change.old : nil, new: change.new.exists ? change.new : nil))
        }
    }
}

/// What observers of live queries are told when the order of their place is known again: all that has changed since a content.
struct Owed: Sendable {
    /// What they were told of last.
    let content: Node
    /// The commit that has changed it first.
    let sequence: UInt64
}

/// All kept indexes of a namespace: what they take, and which are idle, in the order of their last use. All in O(1).
///
/// Confined to the database queue.
struct KeptIndexes {
    /// What all of them count as, and those that no rule names.
    private(set) var entries = 0
    private(set) var unindexedEntries = 0
    /// What those count as that are of members of a set.
    private(set) var memberEntries = 0
    private(set) var count = 0
    /// Those that no rule names.
    private(set) var unindexed: [ObjectIdentifier: KeptIndex] = [:]
    /// The idle one whose last use is longest ago.
    private(set) var oldest: KeptIndex?
    private var newest: KeptIndex?

    mutating func add(_ kept: KeptIndex) {
        count += 1
        weigh(kept, 1)
        if !kept.isDeclared { unindexed[ObjectIdentifier(kept)] = kept }
    }

    mutating func remove(_ kept: KeptIndex) {
        use(kept)
        kept.isDropped = true
        count -= 1
        weigh(kept, -1)
        unindexed[ObjectIdentifier(kept)] = nil
    }

    /// Brings a place's indexes up to date with children that a commit changed. O(indexes · changes · log n)
    mutating func follow(_ changes: [ChildChange], at place: ObservedPlace) {
        for kept in place.indexes {
            weigh(kept, -1)
            kept.follow(changes)
            weigh(kept, 1)
        }
    }

    /// Changes an index and notes what it counts as then.
    mutating func change(_ kept: KeptIndex, _ body: () -> Void) {
        weigh(kept, -1)
        body()
        weigh(kept, 1)
        unindexed[ObjectIdentifier(kept)] = kept.isDeclared ? nil : kept
    }

    private mutating func weigh(_ kept: KeptIndex, _ sign: Int) {
        entries += sign * kept.entries
        if !kept.isDeclared { unindexedEntries += sign * kept.entries }
        if kept.isOfMember { memberEntries += sign * kept.entries }
    }

    /// The index is needed: it is not idle any more.
    mutating func use(_ kept: KeptIndex) {
        guard kept.isIdle else { return }
        kept.isIdle = false
        if kept.older == nil { oldest = kept.newer } else { kept.older?.newer = kept.newer }
        if kept.newer == nil { newest = kept.older } else { kept.newer?.older = kept.older }
        (kept.newer, kept.older) = (nil, nil)
    }

    /// The index is idle from now on.
    mutating func rest(_ kept: KeptIndex, now: Int64) {
        use(kept)
        kept.isIdle = true
        kept.usedAt = now
        kept.older = newest
        if newest == nil { oldest = kept } else { newest?.newer = kept }
        newest = kept
    }
}
