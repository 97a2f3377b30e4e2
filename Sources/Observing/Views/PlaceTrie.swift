package import Commits
package import JSONTree

/// A trie of all places with observers, indexes or dependents.
///
/// Confined to the database queue. A write walks its own path, then only those places below it whose value has changed. Cost: O(depth + places
/// touched).
package final class PlaceTrie {
    private let root = TrieNode(path: .root)
    /// Number of trie nodes, inner ones included. A long key counts as several.
    package private(set) var count = 1
    /// Number of (dependent, place) pairs.
    package private(set) var dependentCount = 0

    package init() {}

    /// The node at a path; created if missing.
    package func place(at path: Path) -> TrieNode {
        var place = root
        for (depth, key) in path.keys.enumerated() {
            if let next = place.children[key] {
                place = next
            } else {
                let next = TrieNode(path: Path(path.keys[...depth]))
                place.children[key] = next
                count += Self.cost(key)
                place = next
            }
        }
        return place
    }

    package func existingPlace(at path: Path) -> TrieNode? {
        var place = root
        for key in path.keys {
            guard let next = place.children[key] else { return nil }
            place = next
        }
        return place
    }

    package func existingView(of observation: Observation) -> View? {
        existingPlace(at: observation.path)?.existingView(observation.query, for: observation.style)
    }

    /// Removes a node that is no longer needed, and those ancestors that only led to it.
    package func prune(_ path: Path) {
        var places = [root]
        for key in path.keys {
            guard let next = places[places.count - 1].children[key] else { return }
            places.append(next)
        }
        for depth in stride(from: path.depth, to: 0, by: -1) where places[depth].isEmpty {
            places[depth - 1].children[path.keys[depth - 1]] = nil
            count -= Self.cost(path.keys[depth - 1])
        }
    }

    /// Counts each 256 bytes of a key as one more node: a node takes about 400 bytes without its key.
    private static func cost(_ key: Key) -> Int { 1 + key.text.utf8Count / 256 }

    // MARK: Visiting

    /// Calls `touch` for each active place that a commit affects, with its values before and after: places above a write, which `touch` receives
    /// with the writes below them; and places at or below one whose value differs, with nil. The paths are ascending, and none is below another.
    /// O(places touched · log writes)
    package func visit(
        touchedBy paths: [Path], old: Node, new: Node, _ touch: (TrieNode, _ below: Range<Int>?, _ before: Node, _ after: Node) -> Void
    ) {
        func visitBelow(_ place: TrieNode, _ before: Node, _ after: Node) {
            if before.isIdentical(to: after) { return }
            if place.isActive { touch(place, nil, before, after) }
            for (key, child) in place.children { visitBelow(child, before.child(key), after.child(key)) }
        }
        walk(paths, old, new, into: { _ in true }) { place, below, before, after in
            if below == nil { visitBelow(place, before, after) } else if place.isActive { touch(place, below, before, after) }
        }
    }

    /// Walks to many paths, ascending and none below another. Calls `body` for each existing node above them with the paths below it, and for the
    /// nodes at them with nil.
    private func walk(
        _ paths: [Path], _ old: Node, _ new: Node, into isNeeded: (TrieNode) -> Bool,
        _ body: (TrieNode, _ below: Range<Int>?, _ before: Node, _ after: Node) -> Void
    ) {
        func visit(_ place: TrieNode, _ range: Range<Int>, _ before: Node, _ after: Node) {
            guard isNeeded(place) else { return }
            let depth = place.path.depth
            if paths[range.lowerBound].depth == depth { return body(place, nil, before, after) }
            body(place, range, before, after)
            if place.children.count <= range.count {
                for (key, next) in place.children where isNeeded(next) {
                    let within = paths.range(of: key, at: depth, in: range)
                    if !within.isEmpty { visit(next, within, before.child(key), after.child(key)) }
                }
            } else {
                var rest = range
                while !rest.isEmpty {
                    let key = paths[rest.lowerBound].keys[depth]
                    let within = paths.range(of: key, at: depth, in: rest)
                    if let next = place.children[key] { visit(next, within, before.child(key), after.child(key)) }
                    rest = within.upperBound..<range.upperBound
                }
            }
        }
        if !paths.isEmpty { visit(root, paths.indices, old, new) }
    }

    /// Collects the views that a write affects, if all of them are plain (`View.isPlain`) and lie at or above it. O(depth)
    /// - Returns: false if others are affected; ignore the collected views then.
    package func collectPlainViews(around path: Path, into views: inout [View]) -> Bool {
        var place = root
        for key in path.keys {
            guard place.collectPlainView(into: &views) else { return false }
            guard let next = place.children[key] else { return true }
            place = next
        }
        return place.children.isEmpty && place.collectPlainView(into: &views)
    }

    /// True if anything is observed at the path, at an ancestor or below. O(depth)
    package func hasAny(around path: Path) -> Bool {
        var place = root
        for key in path.keys {
            if place.isActive { return true }
            guard let next = place.children[key] else { return false }
            place = next
        }
        return !place.isEmpty
    }

    /// Calls `body` for every active place with its value.
    package func forEach(over node: Node, _ body: (TrieNode, Node) -> Void) {
        func visit(_ place: TrieNode, _ node: Node) {
            if place.isActive { body(place, node) }
            for (key, child) in place.children { visit(child, node.child(key)) }
        }
        visit(root, node)
    }

    /// Calls `body` for the active places at and below a path, with their values. Visits at most `most` places.
    package func forEach(within path: Path, over node: Node, atMost most: Int, _ body: (TrieNode, Node) -> Void) {
        var left = most
        func visit(_ place: TrieNode, _ node: Node) {
            if place.isActive { body(place, node) }
            for (key, child) in place.children {
                left -= 1
                if left < 0 { return }
                visit(child, node.child(key))
            }
        }
        if let place = existingPlace(at: path) { visit(place, node.node(at: path)) }
    }

    /// Calls `body` for every active place whose value differs between two trees, with both values. O(places that differ)
    package func forEach(from old: Node, to new: Node, _ body: (TrieNode, _ old: Node, _ new: Node) -> Void) {
        func visit(_ place: TrieNode, _ old: Node, _ new: Node) {
            if old.isIdentical(to: new) { return }
            if place.isActive { body(place, old, new) }
            for (key, child) in place.children { visit(child, old.child(key), new.child(key)) }
        }
        visit(root, old, new)
    }

    package func clients() -> [Client] {
        var seen: Set<ObjectIdentifier> = []
        var found: [Client] = []
        func visit(_ place: TrieNode) {
            for client in place.allViews.flatMap(\.clients) where seen.insert(ObjectIdentifier(client)).inserted { found.append(client) }
            for child in place.children.values { visit(child) }
        }
        visit(root)
        return found
    }

    // MARK: Dependents

    package func add(_ dependent: Dependent, at path: Path) {
        let place = place(at: path)
        guard place.dependents.updateValue(dependent, forKey: ObjectIdentifier(dependent)) == nil else { return }
        if dependent.subtreeDependencies.contains(path) { place.wholeDependents[ObjectIdentifier(dependent)] = dependent }
        countDependents(at: path, 1)
    }

    package func remove(_ dependent: Dependent, at path: Path) {
        guard let place = existingPlace(at: path), place.dependents.removeValue(forKey: ObjectIdentifier(dependent)) != nil else { return }
        if !place.wholeDependents.isEmpty { place.wholeDependents[ObjectIdentifier(dependent)] = nil }
        countDependents(at: path, -1)
        prune(path)
    }

    private func countDependents(at path: Path, _ more: Int) {
        dependentCount += more
        var place: TrieNode? = root
        root.dependentsWithin += more
        for key in path.keys {
            place = place?.children[key]
            place?.dependentsWithin += more
        }
    }

    /// True if the permission of an observer depends on the path, an ancestor or a descendant. O(depth)
    package func hasDependents(around path: Path) -> Bool {
        guard dependentCount > 0 else { return false }
        var place = root
        for key in path.keys {
            if !place.dependents.isEmpty { return true }
            guard place.dependentsWithin > 0, let next = place.children[key] else { return false }
            place = next
        }
        return place.dependentsWithin > 0
    }

    /// The observers whose permission may change by writes at these paths. O(depth of the paths + places touched that have dependents + their
    /// siblings)
    package func dependents(touchedBy paths: [Path], old: Node, new: Node) -> [Dependent] {
        guard dependentCount > 0 else { return [] }
        var found = Found()
        for path in paths {
            var place: TrieNode? = root
            var (before, after) = (old, new)
            for key in path.keys {
                guard let here = place, here.dependentsWithin > 0 else { break }
                found.look(at: here, before, after)
                place = here.children[key]
                (before, after) = (before.child(key), after.child(key))
            }
            if let place { found.look(within: place, before, after) }
        }
        return found.all
    }

    /// The same for many writes in one walk. The paths are ascending, and none is below another. O(places touched that have dependents + their
    /// siblings, or writes)
    package func dependents(touchedByMany paths: [Path], old: Node, new: Node) -> [Dependent] {
        guard dependentCount > 0 else { return [] }
        var found = Found()
        walk(paths, old, new, into: { $0.dependentsWithin > 0 }) { place, below, before, after in
            if below == nil { found.look(within: place, before, after) } else { found.look(at: place, before, after) }
        }
        return found.all
    }

    /// Collects the dependents of places that differ between two trees.
    private struct Found {
        private var found: [ObjectIdentifier: Dependent] = [:]

        var all: [Dependent] { Array(found.values) }

        mutating func look(at place: TrieNode, _ before: Node, _ after: Node) {
            if place.dependents.isEmpty { return }
            if !before.hasSameSurface(as: after) { return add(place.dependents) }
            if !place.wholeDependents.isEmpty, !before.isIdentical(to: after) { add(place.wholeDependents) }
        }

        private mutating func add(_ dependents: [ObjectIdentifier: Dependent]) {
            // One place has most of the dependents: share its dictionary instead of copying it.
            if found.isEmpty { found = dependents } else { found.merge(dependents) { one, _ in one } }
        }

        /// Checks the place and everything below it.
        mutating func look(within place: TrieNode, _ before: Node, _ after: Node) {
            if place.dependentsWithin == 0 || before.isIdentical(to: after) { return }
            look(at: place, before, after)
            // Skip the children if no dependents are below this place.
            if place.dependentsWithin == place.dependents.count { return }
            for (key, child) in place.children where child.dependentsWithin > 0 { look(within: child, before.child(key), after.child(key)) }
        }
    }
}

#if DEBUG
    extension PlaceTrie {
        package func check(over tree: Node, _ found: inout Invariants) {
            var (nodes, pairs) = (1, 0)
            func visit(_ place: TrieNode, _ node: Node) -> Int {
                place.check(over: node, &found)
                pairs += place.dependents.count
                var within = place.dependents.count
                for (key, child) in place.children {
                    nodes += Self.cost(key)
                    found.check(child.path, is: place.path.appending(key), "path of a trie node")
                    found.check(!child.isEmpty, "the trie node at \(child.path) is of no use")
                    within += visit(child, node.child(key))
                }
                found.check(place.dependentsWithin, is: within, "dependents within \(place.path)")
                return within
            }
            _ = visit(root, tree)
            found.check(count, is: nodes, "trie nodes")
            found.check(dependentCount, is: pairs, "pairs of dependents and places")
        }
    }
#endif
