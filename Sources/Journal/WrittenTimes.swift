public import JSONTree

/// When nodes were last written, for rules that ask (`written`): kept beside the tree, and restored with it. An entry goes with its node.
///
/// A value whose copies share what they have in common, as trees do: the one of a moment ago is kept for a rollback at no cost.
public struct WrittenTimes: Sendable, Equatable {
    /// The times as a tree of their own. Each stands below its node's place, at a key that no data can have.
    private var tree = Node.null
    /// How many there are.
    public private(set) var count = 0

    private static let mark = Key(".at")

    public init() {}

    /// The time of a node, ms since the epoch; nil removes it. O(depth)
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

    public mutating func apply(_ operation: JournalOperation) {
        if case .written(let path, let ms) = operation { self[path] = ms }
    }

    /// Calls `body` with each, in the order of the places.
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
}
