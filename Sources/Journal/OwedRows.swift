public import JSONTree

/// What commits still owe: rows that follow from a node and were too many for its commit (`.inbox`), and removals of which too much
/// followed. Kept beside the tree, and restored with it, so that each row is made once, whenever the hub was stopped. A removal's list has
/// the places that are removed, as `a/b`, in place of keys.
///
/// ```
/// begin, in the causing commit ─► list: who is reached, in the tree of that commit ─► advance, in the commit of each part ─► over
///                                                                                     end: the node has gone ─► over
/// ```
/// A value whose copies share what they have in common: the one of a moment ago is kept for a rollback at no cost.
public struct OwedRows: Sendable {
    /// What one node owes.
    public struct Item: Sendable {
        /// Of its own among all that are owed at a time.
        public let id: Int64
        /// The node that they follow from.
        public let source: Path
        /// How many they are at most, while it is not known who is reached.
        let most: Int
        /// What is owed, as the one who made it owed describes it.
        public let terms: Node
        /// The tree of the causing commit, for removals the one before it, until the list is complete.
        public fileprivate(set) var base: Node?
        /// Those who are reached, in parts as they were found, and how many of them are done.
        fileprivate var parts: [[Key]] = []
        public fileprivate(set) var listed = 0
        public fileprivate(set) var done = 0
        /// Those who are reached no more.
        public fileprivate(set) var without: Set<Key> = []

        /// How many rows are owed still; until it is known who is reached, at most.
        public var left: Int { isListed ? listed - done : most }

        /// The last one of the list so far.
        public var lastListed: Key? { parts.last?.last }

        /// Whether all are known who are reached.
        public var isListed: Bool { base == nil }

        /// Whether the list so far has one of these. O(log listed)
        public func lists(_ key: Key) -> Bool { firstListed(from: key) == key }

        /// The first one of the list so far that does not come before another. O(log listed)
        public func firstListed(from key: Key) -> Key? {
            func firstIndex<T>(of all: [T], where isReached: (T) -> Bool) -> Int {
                var (low, high) = (0, all.count)
                while low < high {
                    let middle = (low + high) / 2
                    if isReached(all[middle]) { high = middle } else { low = middle + 1 }
                }
                return low
            }
            let part = firstIndex(of: parts) { $0.last.map { $0 >= key } ?? false }
            guard part < parts.count else { return nil }
            return parts[part][firstIndex(of: parts[part]) { $0 >= key }]
        }

        /// The next of them. O(parts + count)
        public func next(_ most: Int) -> [Key] {
            var (next, left) = ([Key](), done)
            for part in parts {
                if left >= part.count {
                    left -= part.count
                } else {
                    next += part[left...].prefix(most - next.count)
                    left = 0
                    if next.count == most { break }
                }
            }
            return next
        }
    }

    /// Oldest first.
    public private(set) var items: [Item] = []
    /// Above all that were used.
    public private(set) var nextID: Int64 = 1

    public init() {}

    public var isEmpty: Bool { items.isEmpty }

    public subscript(id: Int64) -> Item? { items.first { $0.id == id } }

    /// - Parameter tree: the tree as the operations of its commit have left it so far.
    public mutating func apply(_ change: OwedChange, in tree: Node) {
        if case .begin(let id, let source, let most, let terms) = change {
            items.append(Item(id: id, source: source, most: most, terms: terms, base: tree))
            nextID = max(nextID, id + 1)
            return
        }
        guard let i = items.firstIndex(where: { $0.id == change.id }) else { return }
        switch change {
        case .begin: break
        case .list(_, let keys, let isLast):
            guard !items[i].isListed else { return }
            if !keys.isEmpty { items[i].parts.append(keys) }
            items[i].listed += keys.count
            if isLast { items[i].base = nil }
            if isLast, items[i].listed == 0 { items.remove(at: i) }
        case .advance(_, let count):
            items[i].done += count
            if items[i].isListed, items[i].done >= items[i].listed { items.remove(at: i) }
        case .without(_, let key): items[i].without.insert(key)
        case .end: items.remove(at: i)
        }
    }

    /// Calls `body` with the changes that lead from nothing to this, those who are reached in parts of so many.
    public func forEach(_ body: (OwedChange) -> Void) {
        for item in items {
            body(.begin(item.id, source: item.source, most: item.most, item.terms))
            for part in item.parts { body(.list(item.id, part, isLast: false)) }
            if item.isListed { body(.list(item.id, [], isLast: true)) }
            if item.done > 0 { body(.advance(item.id, item.done)) }
            for key in item.without.sorted() { body(.without(item.id, key)) }
        }
    }
}

/// A change of what is owed.
public enum OwedChange: Sendable, Equatable {
    /// Something is owed from now on: by a node, at most so many rows, and described.
    case begin(Int64, source: Path, most: Int, Node)
    /// More of those who are reached; the last part may be empty.
    case list(Int64, [Key], isLast: Bool)
    /// So many more of them are done.
    case advance(Int64, Int)
    /// One of them is reached no more.
    case without(Int64, Key)
    /// The rest is not owed any more.
    case end(Int64)

    public var id: Int64 {
        switch self {
        case .begin(let id, _, _, _), .list(let id, _, _), .advance(let id, _), .without(let id, _), .end(let id): id
        }
    }
}
