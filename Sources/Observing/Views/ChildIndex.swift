package import Commits
package import JSONTree

/// The index of a place's children in one order other than by key, updated as they change.
///
/// ```
/// being built ── off the queue ──► ready ◄─── a live query or waiting request needs it ───► in use
///     ▲                             └── unused: idle ── too long, or memory is short ──► dropped
///     └── the place was overwritten
/// ```
/// Confined to the database queue.
package final class ChildIndex: @unchecked Sendable {
    // Sendable: background work only returns it to the queue.
    package let path: Path
    package let ordering: TreeQuery.Index
    /// True if a rule names the order, or the order needs no rule.
    package var isDeclared: Bool
    /// True if the rule names the order by a member wildcard: `types/*`.
    package var isOfMember = false
    /// Nil while it is being built.
    package var index: OrderedIndex? { didSet { entries = max(Self.leastEntries, index?.count ?? expected) } }
    /// Children of the place when building began. Determines `entries` until the index is ready.
    package var expected: Int { didSet { if index == nil { entries = max(Self.leastEntries, expected) } } }
    /// The number of entries that the limits count for it.
    package private(set) var entries = ChildIndex.leastEntries
    /// Number of live queries that need it.
    package var views = 0
    /// Requests that wait until it is ready or has failed.
    package var waiting: [(Failure?) -> Void] = []
    /// Suspended requests that have selected from it and will be updated with it.
    package var pins = 0
    package var isBuilding = false
    /// The update that observers of its live queries still have to receive; nil if none.
    private(set) var deferredUpdate: DeferredUpdate?
    package internal(set) var isDropped = false

    /// When it was last used, ms of the steady clock. Followed by its neighbours in the list of idle indexes.
    package var usedAt: Int64 = 0
    fileprivate var isIdle = false
    // The place holds the index; a dropped index leaves the idle list first.
    package fileprivate(set) unowned(unsafe) var newer: ChildIndex?
    fileprivate unowned(unsafe) var older: ChildIndex?

    /// Entries that the smallest index counts: about the memory that it takes apart from its entries.
    package static let leastEntries = 100

    package init(_ path: Path, _ ordering: TreeQuery.Index, isDeclared: Bool, over node: Node) {
        self.path = path
        self.ordering = ordering
        self.isDeclared = isDeclared
        expected = node.childCount
        entries = max(Self.leastEntries, expected)
    }

    package var isInUse: Bool { views > 0 || pins > 0 || !waiting.isEmpty || isBuilding }

    /// Defers the notification of live-query observers until the index is ready. They have last seen `content`.
    package func deferUpdate(since content: Node, _ sequence: UInt64) {
        if views > 0, deferredUpdate == nil { deferredUpdate = DeferredUpdate(content: content, sequence: sequence) }
    }

    package func takeDeferredUpdate() -> DeferredUpdate? {
        defer { deferredUpdate = nil }
        return deferredUpdate
    }

    /// Puts a taken update back, since the index is being rebuilt.
    package func restoreUpdate(_ update: DeferredUpdate) { deferredUpdate = update }

    /// Discards the deferred update if its first commit was rolled back. Its observers have seen nothing of it.
    package func rollBack(to sequence: UInt64) { if let deferredUpdate, deferredUpdate.sequence > sequence { self.deferredUpdate = nil } }

    /// Updates the index with the children that a commit changed. O(changes · log n)
    package func follow(_ changes: [ChildChange]) {
        guard index != nil else { return }
        for change in changes {
            index?.move(
                ChildMap.Change(key: change.key, old: change.old.exists ? change.old : nil, new: change.new.exists ? change.new : nil))
        }
    }
}

/// All kept indexes of a namespace: their sizes, and a list of idle ones by last use. All operations are O(1).
///
/// Confined to the database queue.
package struct IndexUsage {
    /// Entries of all indexes, and of those that no rule names.
    package private(set) var entries = 0
    package private(set) var unindexedEntries = 0
    /// Entries of the indexes of set members.
    package private(set) var memberEntries = 0
    package private(set) var count = 0
    /// The indexes that no rule names.
    package private(set) var unindexed: [ObjectIdentifier: ChildIndex] = [:]
    /// The least recently used idle index.
    package private(set) var oldest: ChildIndex?
    private var newest: ChildIndex?

    package init() {}

    package mutating func add(_ kept: ChildIndex) {
        count += 1
        updateTotals(kept, 1)
        if !kept.isDeclared { unindexed[ObjectIdentifier(kept)] = kept }
    }

    package mutating func remove(_ kept: ChildIndex) {
        use(kept)
        kept.isDropped = true
        count -= 1
        updateTotals(kept, -1)
        unindexed[ObjectIdentifier(kept)] = nil
    }

    /// Updates a place's indexes with the children that a commit changed. O(indexes · changes · log n)
    package mutating func follow(_ changes: [ChildChange], at place: TrieNode) {
        for kept in place.indexes {
            updateTotals(kept, -1)
            kept.follow(changes)
            updateTotals(kept, 1)
        }
    }

    /// Changes an index and updates the totals.
    package mutating func change(_ kept: ChildIndex, _ body: () -> Void) {
        updateTotals(kept, -1)
        body()
        updateTotals(kept, 1)
        unindexed[ObjectIdentifier(kept)] = kept.isDeclared ? nil : kept
    }

    private mutating func updateTotals(_ kept: ChildIndex, _ sign: Int) {
        entries += sign * kept.entries
        if !kept.isDeclared { unindexedEntries += sign * kept.entries }
        if kept.isOfMember { memberEntries += sign * kept.entries }
    }

    /// Removes the index from the idle list.
    package mutating func use(_ kept: ChildIndex) {
        guard kept.isIdle else { return }
        kept.isIdle = false
        if kept.older == nil { oldest = kept.newer } else { kept.older?.newer = kept.newer }
        if kept.newer == nil { newest = kept.older } else { kept.newer?.older = kept.older }
        (kept.newer, kept.older) = (nil, nil)
    }

    /// Appends the index to the idle list.
    package mutating func rest(_ kept: ChildIndex, now: Int64) {
        use(kept)
        kept.isIdle = true
        kept.usedAt = now
        kept.older = newest
        if newest == nil { oldest = kept } else { newest?.newer = kept }
        newest = kept
    }
}
