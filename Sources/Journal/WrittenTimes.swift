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
/// Whether a stored time is of before such a write or has come behind it is known from what was stored when it was made, and not from the
/// times: the clock may have been set back.
///
/// A value whose copies share what they have in common, as trees do: the one of a moment ago is kept for a rollback at no cost.
public struct WrittenTimes: Sendable, Equatable {
    /// The times as a tree of their own. Each stands below its node's place, at a key that no data can have.
    private var tree = Node.null
    /// How many are stored of single nodes.
    public private(set) var count = 0
    /// Large writes whose nodes do not have their times yet, oldest first.
    private var opened: [Opened] = []

    private struct Opened: Equatable {
        /// Of the write's commit.
        let number: UInt64
        let write: OpenWrite
        /// The times that were stored before it.
        let before: Node
    }

    private static let mark = Key(".at")

    public init() {}

    public var isEmpty: Bool { count == 0 && opened.isEmpty }

    /// The large writes whose nodes do not have their times yet, by the number of their commit.
    public var open: [UInt64: OpenWrite] { Dictionary(uniqueKeysWithValues: opened.map { ($0.number, $0.write) }) }

    /// The stored time of a node, ms since the epoch; nil removes it. O(depth)
    public subscript(path: Path) -> Int64? {
        get { Self.time(of: path, in: tree) }
        set {
            let known = self[path] != nil
            if !known, newValue == nil { return }
            tree.set(newValue.map { .int($0) } ?? .null, at: path.appending(Self.mark))
            count += (newValue == nil ? 0 : 1) - (known ? 1 : 0)
        }
    }

    private static func time(of path: Path, in tree: Node) -> Int64? {
        guard case .int(let ms) = tree.node(at: path.appending(mark)) else { return nil }
        return ms
    }

    /// When a node was last written: that of the last open write that touches it, unless it was written since; else its stored time.
    /// O(depth · open writes)
    public func time(of path: Path) -> Int64? {
        let known = self[path]
        guard let last = opened.last(where: { $0.write.places.touch(path) }) else { return known }
        return Self.time(of: path, in: last.before) == known ? last.write.ms : known
    }

    public mutating func apply(_ operation: JournalOperation) {
        switch operation {
        case .written(let path, let ms): self[path] = ms
        case .open(let number, let write):
            opened.removeAll { $0.number == number }
            if let write { opened.append(Opened(number: number, write: write, before: tree)) }
        case .set, .priority, .add, .pending, .owed, .peer: break
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

    /// What makes an empty value this one: each open write behind what was stored before it.
    public var operations: [JournalOperation] {
        var (all, known) = ([JournalOperation](), Node.null)
        for open in opened {
            Self.changes(from: known, to: open.before, .root) { all.append(.written($0, $1)) }
            all.append(.open(open.number, open.write))
            known = open.before
        }
        Self.changes(from: known, to: tree, .root) { all.append(.written($0, $1)) }
        return all
    }

    private static func changes(from old: Node, to new: Node, _ path: Path, _ body: (Path, Int64?) -> Void) {
        if old.isIdentical(to: new) { return }
        for (key, child) in new.children {
            if key != mark {
                changes(from: old.child(key), to: child, path.appending(key), body)
            } else if case .int(let ms) = child, child != old.child(mark) {
                body(path, ms)
            }
        }
        for (key, child) in old.children where new.child(key).isNull {
            if key == mark { body(path, nil) } else { changes(from: child, to: .null, path.appending(key), body) }
        }
    }
}

/// A write whose nodes do not have their times yet.
public struct OpenWrite: Sendable, Equatable {
    /// When it was made, ms since the epoch.
    public let ms: Int64
    public let places: WrittenPlaces

    public init(ms: Int64, places: WrittenPlaces) { (self.ms, self.places) = (ms, places) }
}
