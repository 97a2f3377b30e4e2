/// Places that were written, each with everything below it, as a tree of their own: `true` at each.
public struct WrittenPlaces: Sendable, Equatable {
    public private(set) var tree = Node.null

    public init() {}
    /// One place.
    public init(_ path: Path) { insert(path) }
    /// Places as they were stored; anything but `true` in the tree is no place.
    public init(tree: Node) { self.tree = tree }

    public var isEmpty: Bool { tree.isNull }

    /// Adds a place, unless one above it is there; it takes the place of those below it. O(depth)
    public mutating func insert(_ path: Path) {
        var mark = tree
        for key in path.keys {
            if case .bool = mark { return }
            mark = mark.child(key)
        }
        tree.set(true, at: path)
    }

    /// Whether a place is at, above or below one of them. O(depth)
    public func touch(_ path: Path) -> Bool {
        var mark = tree
        for key in path.keys {
            if case .bool = mark { return true }
            mark = mark.child(key)
            if mark.isNull { return false }
        }
        return mark.exists
    }
}
