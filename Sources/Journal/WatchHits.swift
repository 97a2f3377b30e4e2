public import JSONTree

/// A change of what watches remember.
public enum WatchChange: Sendable, Equatable {
    /// A hit: until this time, ms since the epoch, the watch is silent about the child; nil removes the entry.
    case muted(watch: Path, number: Int, item: Path, until: Int64?)
    /// Removes what is known about the watches and the children at and below a path.
    case forget(Path)
}

/// Until when each watch (`.watch`) is silent about what it has found. Stored with the commit that makes the hit, so that a watch reports a
/// child once, whenever the hub was stopped. An entry is removed with its watch and with the child, and when its time is over.
///
/// A value type whose copies share storage, so that keeping the last durable one for a rollback costs nothing.
public struct WatchHits: Sendable {
    /// Below the path of each watching node, at a key that no data can have: its number, the child's path as one key, and the time.
    private var byWatch = Node.null
    /// The reverse, without the time.
    private var byItem = Node.null
    /// The number of pairs.
    public private(set) var count = 0

    private static let mark = Key(".w")

    public init() {}

    public var isEmpty: Bool { count == 0 }

    /// One remembered hit.
    public struct Entry: Sendable, Equatable {
        public let watch: Path
        public let number: Int
        public let item: Path
        /// ms since the epoch; `Int64.max` as long as both exist.
        public let until: Int64
    }

    private static func place(_ path: Path, _ number: Int, _ other: Path) -> Path {
        var place = path
        place.keys.append(contentsOf: [mark, Key(index: number), Key(other.relativeText)])
        return place
    }

    /// Until when a watch is silent about a child; nil if it has not found it. O(depth · log n)
    public func mutedUntil(watch: Path, number: Int, item: Path) -> Int64? {
        if count == 0 { return nil }
        return if case .int(let ms) = byWatch.node(at: Self.place(watch, number, item)) { ms } else { nil }
    }

    /// O(depth · log n); to forget a path, O(entries at and below it)
    public mutating func apply(_ change: WatchChange) {
        switch change {
        case .muted(let watch, let number, let item, let until): set(watch, number, item, until)
        case .forget(let path):
            var gone: [Entry] = []
            Self.visit(byWatch.node(at: path), path) { watch, number, item, _ in
                gone.append(Entry(watch: watch, number: number, item: item, until: 0))
            }
            Self.visit(byItem.node(at: path), path) { item, number, watch, _ in
                gone.append(Entry(watch: watch, number: number, item: item, until: 0))
            }
            for entry in gone { set(entry.watch, entry.number, entry.item, nil) }
        }
    }

    private mutating func set(_ watch: Path, _ number: Int, _ item: Path, _ until: Int64?) {
        let place = Self.place(watch, number, item)
        let isKnown = byWatch.exists(at: place)
        if !isKnown, until == nil { return }
        byWatch.set(until.map { .int($0) } ?? .null, at: place)
        count += (until == nil ? 0 : 1) - (isKnown ? 1 : 0)
        if isKnown != (until != nil) { byItem.set(until == nil ? .null : .bool(true), at: Self.place(item, number, watch)) }
    }

    /// Calls `body` with each entry, in path order.
    public func forEach(_ body: (Entry) -> Void) {
        Self.visit(byWatch, .root) { watch, number, item, value in
            if case .int(let ms) = value { body(Entry(watch: watch, number: number, item: item, until: ms)) }
        }
    }

    private static func visit(_ node: Node, _ path: Path, _ body: (Path, Int, Path, Node) -> Void) {
        for (key, child) in node.children {
            guard key == mark else {
                visit(child, path.appending(key), body)
                continue
            }
            for (number, others) in child.children {
                for (other, value) in others.children { body(path, Int(number.string) ?? 0, Path(relative: other.string), value) }
            }
        }
    }

    // MARK: What is gone

    /// The paths to forget after a write: watches and children at, above and below it that a tree does not have any more. Ascending, none
    /// below another. O(watches and children with entries at and below the path)
    public func gone(at path: Path, in tree: Node) -> [Path] {
        if count == 0 { return [] }
        var found: [Path] = []
        for memory in [byWatch, byItem] {
            var (known, here) = (memory, tree)
            for depth in 0..<path.depth {
                if known.isNull { break }
                if here.isNull {
                    found.append(Path(path.keys.prefix(depth)))
                    break
                }
                (known, here) = (known.child(path.keys[depth]), here.child(path.keys[depth]))
            }
            if known.exists, found.last?.contains(path) != true { Self.gone(known, here, path, &found) }
        }
        return found
    }

    private static func gone(_ known: Node, _ tree: Node, _ path: Path, _ found: inout [Path]) {
        if tree.isNull { return found.append(path) }
        for (key, child) in known.children where key != mark { gone(child, tree.child(key), path.appending(key), &found) }
    }

    /// The entries whose time is over, at most `most`. O(entries)
    public func expired(at now: Int64, atMost most: Int) -> [Entry] {
        var found: [Entry] = []
        forEach { if $0.until <= now, found.count < most { found.append($0) } }
        return found
    }

    /// The changes that recreate this value from an empty one.
    public var changes: [WatchChange] {
        var all: [WatchChange] = []
        forEach { all.append(.muted(watch: $0.watch, number: $0.number, item: $0.item, until: $0.until)) }
        return all
    }
}
