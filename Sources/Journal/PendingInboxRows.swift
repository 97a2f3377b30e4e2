public import JSONTree

/// Consequences left pending by commits: inbox rows of a node (`.inbox`) or removals that were too many for one commit. Kept beside the
/// tree and restored with it, so that each row is written exactly once, whenever the hub was stopped. For removals the list holds relative
/// paths, such as `a/b`, instead of keys.
///
/// ```
/// begin, in the causing commit ─► list: recipients in the tree of that commit ─► advance, in the commit of each part ─► done
///                                                                               end: the source node is removed ─► done
/// ```
/// A value type whose copies share storage, so that keeping the last durable one for a rollback costs nothing.
public struct PendingInboxRows: Sendable {
    /// The pending rows of one node.
    public struct Item: Sendable {
        /// Unique among all pending items.
        public let id: Int64
        /// The node that caused them.
        public let source: Path
        /// Upper bound of the number of rows, while the recipients are unknown.
        let most: Int
        /// A description by the creator, which only the creator interprets.
        public let terms: Node
        /// The tree of the causing commit (for removals the one before it), until the list is complete.
        public fileprivate(set) var base: Node?
        /// The recipients, in parts as they were listed; the number listed; and the number done.
        fileprivate var parts: [[Key]] = []
        public fileprivate(set) var listed = 0
        public fileprivate(set) var done = 0
        /// Recipients that were removed from the list.
        public fileprivate(set) var without: Set<Key> = []

        /// Pending rows; an upper bound while the recipients are unknown.
        public var left: Int { isListed ? listed - done : most }

        /// The last recipient listed so far.
        public var lastListed: Key? { parts.last?.last }

        /// Whether all recipients are known.
        public var isListed: Bool { base == nil }

        /// Whether the list so far contains the key. O(log listed)
        public func lists(_ key: Key) -> Bool { firstListed(from: key) == key }

        /// The first listed key that is not below another. O(log listed)
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

        /// The next recipients. O(parts + count)
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
    /// Above all ids used so far.
    public private(set) var nextID: Int64 = 1

    public init() {}

    public var isEmpty: Bool { items.isEmpty }

    public subscript(id: Int64) -> Item? { items.first { $0.id == id } }

    /// - Parameter tree: the tree with the preceding operations of the same commit applied.
    public mutating func apply(_ change: PendingInboxChange, in tree: Node) {
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

    /// Calls `body` with the changes that recreate this value from an empty one.
    public func forEach(_ body: (PendingInboxChange) -> Void) {
        for item in items {
            body(.begin(item.id, source: item.source, most: item.most, item.terms))
            for part in item.parts { body(.list(item.id, part, isLast: false)) }
            if item.isListed { body(.list(item.id, [], isLast: true)) }
            if item.done > 0 { body(.advance(item.id, item.done)) }
            for key in item.without.sorted() { body(.without(item.id, key)) }
        }
    }
}

/// A change of pending rows.
public enum PendingInboxChange: Sendable, Equatable {
    /// Adds an item: its source, the maximum number of rows, and its description.
    case begin(Int64, source: Path, most: Int, Node)
    /// Adds recipients; the last part may be empty.
    case list(Int64, [Key], isLast: Bool)
    /// Counts further recipients as done.
    case advance(Int64, Int)
    /// Removes one recipient.
    case without(Int64, Key)
    /// Ends the item.
    case end(Int64)

    public var id: Int64 {
        switch self {
        case .begin(let id, _, _, _), .list(let id, _, _), .advance(let id, _), .without(let id, _), .end(let id): id
        }
    }
}
