public import JSONTree

/// When nodes were last written, for rules that ask (`written`): kept beside the tree, and restored with it. An entry goes with its node.
///
/// The nodes of a large write are found beside the other work, and their times stored in later commits. Until all are, the write's own
/// commit says where it wrote and when (`OpenWrite`): no node is known by the time of an earlier write, whenever the hub was killed.
///
/// ```
/// commit 7:  set /w {100,000 nodes}   open 7: /w at 12:00
/// 8, 9, …:   written /w/a 12:00 …                             a node of which this is not stored yet: 12:00 as well
/// the last:  written /w/z 12:00 …     open 7: nothing
/// ```
/// A value whose copies share what they have in common, as trees do: the one of a moment ago is kept for a rollback at no cost.
public struct WrittenTimes: Sendable, Equatable {
    /// The times as a tree of their own. Each stands below its node's place, at a key that no data can have.
    private var tree = Node.null
    /// How many are stored of single nodes.
    public private(set) var count = 0
    /// Large writes whose nodes do not have their times yet, by the number of their commit.
    public private(set) var open: [UInt64: OpenWrite] = [:]

    private static let mark = Key(".at")

    public init() {}

    public var isEmpty: Bool { count == 0 && open.isEmpty }

    /// The stored time of a node, ms since the epoch; nil removes it. O(depth)
    public subscript(path: Path) -> Int64? {
        get {
            guard case .int(let ms) = tree.node(at: path.appending(Self.mark)) else { return nil }
            return ms
        }
        set {
            let known = self[path] != nil
            if !known, newValue == nil { return }
            tree.set(newValue.map { .int($0) } ?? .null, at: path.appending(Self.mark))
            count += (newValue == nil ? 0 : 1) - (known ? 1 : 0)
        }
    }

    /// When a node was last written: its stored time, or that of an open write that touches it, whichever is later. Which came first is not
    /// known: where the clock was set back between the two, that is later than it was.
    /// O(depth · open writes)
    public func time(of path: Path) -> Int64? {
        var time = self[path]
        for write in open.values where write.places.touch(path) { time = max(time ?? write.ms, write.ms) }
        return time
    }

    public mutating func apply(_ operation: JournalOperation) {
        switch operation {
        case .written(let path, let ms): self[path] = ms
        case .open(let number, let write): open[number] = write
        case .set, .priority, .add, .pending, .owed: break
        }
    }

    /// Calls `body` with each stored time, in the order of the places.
    public func forEach(_ body: (Path, Int64) -> Void) { Self.visit(tree, .root, body) }

    private static func visit(_ node: Node, _ path: Path, _ body: (Path, Int64) -> Void) {
        for (key, child) in node.children {
            if key == mark {
                if case .int(let ms) = child { body(path, ms) }
            } else {
                visit(child, path.appending(key), body)
            }
        }
    }

    /// What makes an empty value this one.
    public var operations: [JournalOperation] {
        var all = open.sorted { $0.key < $1.key }.map { JournalOperation.open($0.key, $0.value) }
        all.reserveCapacity(all.count + count)
        forEach { all.append(.written($0, $1)) }
        return all
    }
}

/// A write whose nodes do not have their times yet.
public struct OpenWrite: Sendable, Equatable {
    /// When it was made, ms since the epoch.
    public let ms: Int64
    public let places: WrittenPlaces

    public init(ms: Int64, places: WrittenPlaces) { (self.ms, self.places) = (ms, places) }
}
