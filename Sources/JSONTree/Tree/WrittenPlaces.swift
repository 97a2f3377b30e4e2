/// A set of written places, each with everything below it, as a tree with `true` at each place.
public struct WrittenPlaces: Sendable, Equatable {
    public private(set) var tree = Node.null

    public init() {}
    public init(_ path: Path) { insert(path) }
    /// Reads a stored set; anything but `true` in the tree is ignored.
    public init(tree: Node) { self.tree = tree }

    public var isEmpty: Bool { tree.isNull }

    /// Adds a place, unless an ancestor is in the set; replaces those below it. O(depth)
    public mutating func insert(_ path: Path) {
        var mark = tree
        for key in path.keys {
            if case .bool = mark { return }
            mark = mark.child(key)
        }
        tree.set(true, at: path)
    }

    /// Whether a place is at, above or below one in the set. O(depth)
    public func overlaps(_ path: Path) -> Bool {
        var mark = tree
        for key in path.keys {
            if case .bool = mark { return true }
            mark = mark.child(key)
            if mark.isNull { return false }
        }
        return mark.exists
    }
}
