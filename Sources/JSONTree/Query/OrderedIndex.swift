/// The children of one place in an order, updated with each change.
///
///     chunks  [ a b c … | d e f … | … ]     each ascending, ≤ 256 entries; each chunk sorts before the next
///
/// Children without a value sort first, by key. If hardly any child has a value, as with the members of a set (`types/cafe`), the index is
/// sparse: it has no entries for the others, which `OrderedChildren` takes from the place itself.
///
/// Insert, remove and seek take O(log n) comparisons and move at most one chunk.
public struct OrderedIndex: Sendable {
    public let ordering: TreeQuery.Index
    private var chunks: ContiguousArray<ContiguousArray<OrderedChild>> = []
    /// The number of entries: in a sparse index, of children with a value.
    public private(set) var count = 0
    public let isSparse: Bool
    /// The most entries that a sparse index may have.
    private let mostEntries: Int
    /// The number of chunks, which a rank adds up one by one.
    var parts: Int { chunks.count }

    private static let chunkCapacity = 256
    /// A sparse index is built for at most this many children with a value, because it skips them one by one among the others.
    private static let mostSparse = 4_096

    /// The bytes of one entry: its fields, plus copies of a name the length of a push id and of a short text.
    public static let bytesOfEntry = MemoryLayout<OrderedChild>.stride + 2 * NodeCost.text(20)

    /// Builds the index of an object's children. O(n + m log m) for m children with a value
    public init(_ ordering: TreeQuery.Index, of node: Node) {
        // Those without a value are already in their order.
        var (entries, valued) = (ContiguousArray<OrderedChild>(), ContiguousArray<OrderedChild>())
        for (key, child) in node.children {
            let place = ordering.place(key, child)
            if place.value.isNull { entries.append(place) } else { valued.append(place) }
        }
        valued.sort { $0.order($1) < 0 }
        self.ordering = ordering
        mostEntries = max(16, min(2 * Self.mostSparse, (entries.count + valued.count) / 2))
        isSparse = entries.count >= 15 * valued.count && valued.count <= Self.mostSparse
        if isSparse { entries = valued } else { entries += valued }
        count = entries.count
        let fill = Self.chunkCapacity * 3 / 4
        for start in stride(from: 0, to: entries.count, by: fill) {
            chunks.append(ContiguousArray(entries[start..<min(start + fill, entries.count)]))
        }
    }

    /// True if so many children have got a value that a sparse index must be built again, as one with all of them.
    public var isOutgrown: Bool { isSparse && count > mostEntries }

    /// Adds a child.
    /// - Precondition: no entry has the same value and key.
    public mutating func insert(_ child: OrderedChild) {
        if isSparse, child.value.isNull { return }
        count += 1
        guard !chunks.isEmpty else {
            chunks = [[child]]
            return
        }
        let i = chunkIndex(for: child)
        let at = Self.position(of: child, in: chunks[i])
        chunks[i].insert(child, at: at)
        guard chunks[i].count > Self.chunkCapacity else { return }
        // At the right edge the left chunk stays full, so that ascending inserts fill their chunks.
        let cut = i == chunks.count - 1 && at == chunks[i].count - 1 ? chunks[i].count - 1 : chunks[i].count / 2
        chunks.insert(ContiguousArray(chunks[i][cut...]), at: i + 1)
        chunks[i].removeSubrange(cut...)
    }

    /// Removes an entry; no effect if it does not exist.
    public mutating func remove(_ child: OrderedChild) {
        guard !chunks.isEmpty else { return }
        let i = chunkIndex(for: child)
        let at = Self.position(of: child, in: chunks[i])
        guard at < chunks[i].count, chunks[i][at].order(child) == 0 else { return }
        count -= 1
        chunks[i].remove(at: at)
        if chunks[i].isEmpty { chunks.remove(at: i) }
    }

    /// Updates an index of `old` to `new`, a later version of the same children.
    /// - Parameter most: the bound of `ChildMap.changes(since:atMost:)`.
    /// - Returns: false, with the index unchanged, if the bound is exceeded.
    public mutating func follow(from old: Node, to new: Node, atMost most: Int) -> Bool {
        if old.isIdentical(to: new) { return true }
        let (before, after) = (old.children, new.children)
        guard let changes = after.changes(since: before, atMost: most) else { return false }
        for change in changes { move(change) }
        return true
    }

    /// Moves the entry of one changed child.
    public mutating func move(_ change: ChildMap.Change) {
        let was = change.old.map { ordering.place(change.key, $0) }
        let now = change.new.map { ordering.place(change.key, $0) }
        if let was, let now, was.order(now) == 0 { return }
        if let was { remove(was) }
        if let now { insert(now) }
    }

    /// The chunk of an entry, also for inserting it: the last chunk that does not begin after it.
    private func chunkIndex(for child: OrderedChild) -> Int {
        max(0, partition { $0[0].order(child) > 0 } - 1)
    }

    private static func position(of child: OrderedChild, in chunk: ContiguousArray<OrderedChild>) -> Int {
        partition(chunk) { $0.order(child) >= 0 }
    }

    private func partition(_ isBehind: (ContiguousArray<OrderedChild>) -> Bool) -> Int {
        var (low, high) = (0, chunks.count)
        while low < high {
            let middle = (low + high) / 2
            if isBehind(chunks[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }

    private static func partition(_ chunk: ContiguousArray<OrderedChild>, _ isBehind: (OrderedChild) -> Bool) -> Int {
        var (low, high) = (0, chunk.count)
        while low < high {
            let middle = (low + high) / 2
            if isBehind(chunk[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }

    /// The ranks in a place's children by key of those with a value, ascending. O(m log n), for a sparse index
    func valuedRanks(in children: ChildMap) -> [Int] { chunks.joined().map { children.rank(of: $0.key) }.sorted() }

    /// The number of entries before this one. O(log n + chunks)
    func rank(of child: OrderedChild) -> Int {
        guard !chunks.isEmpty else { return 0 }
        let i = chunkIndex(for: child)
        return chunks[..<i].reduce(0) { $0 + $1.count } + Self.position(of: child, in: chunks[i])
    }

    /// The entry at a rank; nil if out of range. O(chunks)
    func child(at rank: Int) -> OrderedChild? {
        var left = rank
        for i in chunks.indices {
            if left < chunks[i].count { return chunks[i][left] }
            left -= chunks[i].count
        }
        return nil
    }

    /// Calls `body` in ascending order, from the first entry that a start bound admits, until it returns false.
    func ascend(from bound: OrderBound?, _ body: (OrderedChild) -> Bool) {
        guard !chunks.isEmpty else { return }
        var i = 0
        var at = 0
        if let bound {
            i = max(0, partition { bound.admitsAsStart($0[0]) } - 1)
            at = Self.partition(chunks[i]) { bound.admitsAsStart($0) }
        }
        while i < chunks.count {
            while at < chunks[i].count {
                if !body(chunks[i][at]) { return }
                at += 1
            }
            i += 1
            at = 0
        }
    }

    /// Calls `body` in descending order, from the last entry that an end bound admits, until it returns false.
    func descend(from bound: OrderBound?, _ body: (OrderedChild) -> Bool) {
        guard !chunks.isEmpty else { return }
        var i = chunks.count - 1
        var at = chunks[i].count
        if let bound {
            i = max(0, partition { !bound.admitsAsEnd($0[0]) } - 1)
            at = Self.partition(chunks[i]) { !bound.admitsAsEnd($0) }
        }
        while true {
            while at > 0 {
                at -= 1
                if !body(chunks[i][at]) { return }
            }
            if i == 0 { return }
            i -= 1
            at = chunks[i].count
        }
    }
}
