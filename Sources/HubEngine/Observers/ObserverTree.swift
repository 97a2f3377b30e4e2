import JSONTree

/// All that is observed, as a tree of places.
///
/// Confined to the database queue. A write walks its own path and then only into places below it whose value has changed,
/// so its cost is O(depth + places touched).
final class ObserverTree {
    private let root = ObservedPlace(path: .root)
    /// Places that are held, with those that only lead to others.
    private(set) var count = 1

    /// The place, made when missing.
    func place(at path: Path) -> ObservedPlace {
        var place = root
        for (depth, key) in path.keys.enumerated() {
            if let next = place.children[key] {
                place = next
            } else {
                let next = ObservedPlace(path: Path(path.keys[...depth]))
                place.children[key] = next
                count += 1
                place = next
            }
        }
        return place
    }

    func existingPlace(at path: Path) -> ObservedPlace? {
        var place = root
        for key in path.keys {
            guard let next = place.children[key] else { return nil }
            place = next
        }
        return place
    }

    /// Forgets a place that nothing is observed at any more, and the places above it that only led there.
    func prune(_ path: Path) {
        var places = [root]
        for key in path.keys {
            guard let next = places[places.count - 1].children[key] else { return }
            places.append(next)
        }
        for depth in stride(from: path.depth, to: 0, by: -1) where places[depth].isEmpty {
            places[depth - 1].children[path.keys[depth - 1]] = nil
            count -= 1
        }
    }

    /// Calls `touch` for each place that a write at `path` concerns: those above, with `isBelow` false; the place itself and
    /// the ones below it whose value differs, with `isBelow` true.
    func visit(touchedBy path: Path, old: Node, new: Node, _ touch: (ObservedPlace, _ isBelow: Bool) -> Void) {
        var place = root
        var (before, after) = (old, new)
        for key in path.keys {
            if place.isActive { touch(place, false) }
            guard let next = place.children[key] else { return }
            place = next
            before = before.child(key)
            after = after.child(key)
        }
        visitBelow(place, before, after, touch)
    }

    /// Whether anything is observed on the way to a place, there or below. O(depth)
    func hasAny(around path: Path) -> Bool {
        var place = root
        for key in path.keys {
            if place.isActive { return true }
            guard let next = place.children[key] else { return false }
            place = next
        }
        return !place.isEmpty
    }

    private func visitBelow(_ place: ObservedPlace, _ old: Node, _ new: Node, _ touch: (ObservedPlace, Bool) -> Void) {
        if old.isIdentical(to: new) { return }
        if place.isActive { touch(place, true) }
        for (key, child) in place.children { visitBelow(child, old.child(key), new.child(key), touch) }
    }

    /// Calls `body` for every place with what is stored there.
    func forEach(over node: Node, _ body: (ObservedPlace, Node) -> Void) {
        func visit(_ place: ObservedPlace, _ node: Node) {
            if place.isActive { body(place, node) }
            for (key, child) in place.children { visit(child, node.child(key)) }
        }
        visit(root, node)
    }

    /// Calls `body` for every place whose content differs between two trees, with both. O(places that differ)
    func forEach(from old: Node, to new: Node, _ body: (ObservedPlace, _ old: Node, _ new: Node) -> Void) {
        func visit(_ place: ObservedPlace, _ old: Node, _ new: Node) {
            if old.isIdentical(to: new) { return }
            if place.isActive { body(place, old, new) }
            for (key, child) in place.children { visit(child, old.child(key), new.child(key)) }
        }
        visit(root, old, new)
    }

    /// Every client that observes anything.
    func clients() -> [Client] {
        var seen: Set<ObjectIdentifier> = []
        var found: [Client] = []
        func visit(_ place: ObservedPlace) {
            for client in place.views.flatMap(\.clients) where seen.insert(ObjectIdentifier(client)).inserted { found.append(client) }
            for child in place.children.values { visit(child) }
        }
        visit(root)
        return found
    }
}
