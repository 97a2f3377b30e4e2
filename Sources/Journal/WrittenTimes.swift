public import JSONTree

/// When nodes were last written, for rules that use it (`written`). Kept beside the tree and restored with it. An entry is removed with its
/// node.
///
/// The nodes of a large write are found in the background, and their times stored in later commits. Until all are stored, the write's own
/// commit records its paths and time (`OpenWrite`). So no node keeps the time of an earlier write, whenever the hub was killed.
///
/// ```
/// commit 7:  set /w {100,000 nodes}   open 7: /w at 12:00
/// 8, 9, …:   written /w/a 12:00 …                             nodes not stored yet: 12:00 as well
/// the last:  written /w/z 12:00 …     open 7: nothing
/// ```
/// Whether a stored time is older or newer than such a write is decided by comparing it with the times stored before the write. The times
/// themselves cannot decide that, because the clock may have been set back.
///
/// A value type whose copies share storage, as trees do, so that keeping the last durable one for a rollback costs nothing.
public struct WrittenTimes: Sendable, Equatable {
    /// The times as a tree. Each is stored below its node's path, at a key that no data can have.
    private var tree = Node.null
    /// Number of nodes with a stored time.
    public private(set) var count = 0
    /// Large writes whose nodes do not all have stored times yet, oldest first.
    private var opened: [Opened] = []

    private struct Opened: Equatable {
        /// Number of the write's commit.
        let number: UInt64
        let write: OpenWrite
        /// The times stored before it.
        let before: Node
    }

    private static let mark = Key(".at")

    public init() {}

    public var isEmpty: Bool { count == 0 && opened.isEmpty }

    /// The large writes whose nodes do not all have stored times yet, by commit number.
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

    /// When a node was last written: the time of the last open write that touches it, unless a later time is stored; else its stored time.
    /// O(depth · open writes)
    public func time(of path: Path) -> Int64? {
        let known = self[path]
        guard let last = opened.last(where: { $0.write.places.overlaps(path) }) else { return known }
        return Self.time(of: path, in: last.before) == known ? last.write.ms : known
    }

    public mutating func apply(_ operation: JournalOperation) {
        switch operation {
        case .written(let path, let ms): self[path] = ms
        case .open(let number, let write):
            opened.removeAll { $0.number == number }
            if let write { opened.append(Opened(number: number, write: write, before: tree)) }
        case .set, .priority, .add, .pending, .pendingRows, .peer, .delivery, .watch: break
        }
    }

    /// Calls `body` with each stored time, in path order.
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

    /// The operations that recreate this value from an empty one. Each open write follows the times stored before it.
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

/// A large write whose nodes do not all have stored times yet.
public struct OpenWrite: Sendable, Equatable {
    /// Time of the write, ms since the epoch.
    public let ms: Int64
    public let places: WrittenPlaces

    public init(ms: Int64, places: WrittenPlaces) { (self.ms, self.places) = (ms, places) }
}
