public import JSONTree

/// Finds the nodes with an `.expire` that writes may have changed: those above, at and below the written places. Works one part at a time,
/// in the order of the tree, and finds each node once. A value type: `new` may be replaced by a later tree between parts.
public struct ExpiryWalk: Sendable {
    private let rules: RuleSet
    private let places: WrittenPlaces
    private let old: Node
    /// The tree after the writes.
    public var new: Node
    /// Where the next part starts; nil at the end.
    public private(set) var next: Path? = .root

    /// - Parameter old: the tree before the writes, for nodes that they removed. Subtrees shared with the new tree were not written.
    public init(_ rules: RuleSet, _ places: WrittenPlaces, old: Node, new: Node) {
        (self.rules, self.places, self.old, self.new) = (rules, places, old, new)
    }

    /// The next nodes.
    /// - Parameter most: the most nodes and keys to scan; must exceed the depth of a path.
    public mutating func nodes(lookingAt most: Int) -> [Path] {
        guard let from = next, rules.hasExpiry else {
            next = nil
            return []
        }
        var (found, visit) = ([Path](), ExpiringNodes(rules.program, left: most + from.depth))
        _ = visit.around(0, .root, places.tree, old, new, from: from.keys[...]) { found.append($0) }
        next = visit.next
        return found
    }
}

/// One visit to nodes with an `.expire`, in the order of the tree.
struct ExpiringNodes {
    private let program: Program
    /// The number of nodes and keys that may still be scanned.
    private(set) var left: Int
    /// Where the visit stopped because the budget was spent.
    private(set) var next: Path?

    init(_ program: Program, left: Int) { (self.program, self.left) = (program, left) }

    /// Visits nodes above, at and below written places.
    /// - Parameters:
    ///   - mark: a tree with `true` at each written place.
    ///   - from: the keys from here to the first node; those before it were visited already.
    /// - Returns: false if the visit stopped early.
    mutating func around(
        _ place: Int32, _ path: Path, _ mark: Node, _ was: Node, _ isNow: Node, from: ArraySlice<Key>, _ body: (Path) -> Void
    ) -> Bool {
        if case .bool = mark { return written(place, path, was, isNow, from: from, body) }
        guard mark.exists, program.tables.places[Int(place)].expires, was.exists || isNow.exists else { return true }
        if from.isEmpty {
            guard spend(path) else { return false }
            if !program.details[Int(place)].expires.isEmpty { body(path) }
        }
        for (key, mark) in mark.children.ascending(from: from.first) {
            let (below, next) = (path.appending(key), program.child(of: place, key))
            guard spend(below) else { return false }
            if next < 0 { continue }
            let rest = key == from.first ? from.dropFirst() : []
            guard around(next, below, mark, was.child(key), isNow.child(key), from: rest, body) else { return false }
        }
        return true
    }

    /// Visits nodes at and below a written place.
    mutating func written(
        _ place: Int32, _ path: Path, _ was: Node, _ isNow: Node, from: ArraySlice<Key>, _ body: (Path) -> Void
    ) -> Bool {
        // A write of the value already stored leaves the tree unchanged, but still counts as a write.
        visit(place, path, was.isSameObject(as: isNow) ? .null : was, isNow, from: from, body)
    }

    private mutating func visit(
        _ place: Int32, _ path: Path, _ was: Node, _ isNow: Node, from: ArraySlice<Key>, _ body: (Path) -> Void
    ) -> Bool {
        let rules = program.tables.places[Int(place)]
        // A subtree shared by both trees was not written; an equal value that was sent again was.
        guard rules.expires, was.exists || isNow.exists, !was.isSameObject(as: isNow) else { return true }
        if from.isEmpty {
            guard spend(path) else { return false }
            if !program.details[Int(place)].expires.isEmpty { body(path) }
        }
        guard rules.wildcard >= 0, program.tables.places[Int(rules.wildcard)].expires else {
            for (key, next) in literals(of: rules, from: from.first) {
                let rest = key == from.first ? from.dropFirst() : []
                guard visit(next, path.appending(key), was.child(key), isNow.child(key), from: rest, body) else { return false }
            }
            return true
        }
        var (before, after) = (was.children.ascending(from: from.first), isNow.children.ascending(from: from.first))
        var (a, b) = (before.next(), after.next())
        while let key = Self.first(a?.key, b?.key) {
            let (was, isNow) = (a.map { $0.key == key ? $0.node : .null } ?? .null, b.map { $0.key == key ? $0.node : .null } ?? .null)
            if was.exists { a = before.next() }
            if isNow.exists { b = after.next() }
            let below = path.appending(key)
            guard spend(below) else { return false }
            let next = program.child(of: place, key)
            let rest = key == from.first ? from.dropFirst() : []
            guard next < 0 || visit(next, below, was, isNow, from: rest, body) else { return false }
        }
        return true
    }

    /// The literal children with an `.expire` at or below them, ascending.
    private func literals(of rules: Place, from key: Key?) -> [(key: Key, place: Int32)] {
        var found: [(key: Key, place: Int32)] = []
        for i in Int(rules.firstLiteral)..<Int(rules.firstLiteral + rules.literalCount) {
            let literal = program.tables.literals[i]
            guard program.tables.places[Int(literal.place)].expires else { continue }
            let name = program.tables.keys[Int(literal.key)]
            if let key, name < key { continue }
            found.append((name, literal.place))
        }
        if found.count > 1 { found.sort { $0.key < $1.key } }
        return found
    }

    private static func first(_ a: Key?, _ b: Key?) -> Key? {
        guard let a, let b else { return a ?? b }
        return b < a ? b : a
    }

    private mutating func spend(_ path: Path) -> Bool {
        left -= 1
        if left >= 0 { return true }
        next = path
        return false
    }
}

extension Program {
    /// The rule node for a child; -1 for none. O(log literals)
    func child(of place: Int32, _ key: Key) -> Int32 {
        withUnsafePointer(to: key) { tables.child(of: place, TextCursor($0)) }
    }

    /// Whether a child of a rule node, or a node below it, has an `.expire`.
    func expiresBelow(_ place: Int32) -> Bool {
        let rules = tables.places[Int(place)]
        if rules.wildcard >= 0, tables.places[Int(rules.wildcard)].expires { return true }
        return tables.literals[Int(rules.firstLiteral)..<Int(rules.firstLiteral + rules.literalCount)].contains {
            tables.places[Int($0.place)].expires
        }
    }
}
