import JSONTree

/// All places that observers, indexes or decisions of the rules rest on, as a tree.
///
/// Confined to the database queue. A write walks its own path and then only into places below it whose value has changed,
/// so its cost is O(depth + places touched).
final class PlaceTrie {
    private let root = ObservedPlace(path: .root)
    /// Places that are held, with those that only lead to others; one with a long name counts as several.
    private(set) var count = 1
    /// Observers whose permission rests on data, each once for each of the places that it rests on.
    private(set) var dependentCount = 0

    /// The place, made when missing.
    func place(at path: Path) -> ObservedPlace {
        var place = root
        for (depth, key) in path.keys.enumerated() {
            if let next = place.children[key] {
                place = next
            } else {
                let next = ObservedPlace(path: Path(path.keys[...depth]))
                place.children[key] = next
                count += Self.cost(key)
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

    /// The view of an observation, if there is one.
    func existingView(of observation: Observation) -> View? {
        existingPlace(at: observation.path)?.existingView(observation.query, for: observation.style)
    }

    /// Forgets a place that nothing needs any more, and the places above it that only led there.
    func prune(_ path: Path) {
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

    /// Each 256 bytes of a name as one more: a place takes some 400 without it.
    private static func cost(_ key: Key) -> Int { 1 + key.text.utf8Count / 256 }

    // MARK: Visiting

    /// Calls `touch` for each place that a write at `path` concerns: those above, with `isBelow` false; the place itself and
    /// the ones below it whose value differs, with `isBelow` true.
    /// - Parameters:
    ///   - before: what was at the path.
    ///   - after: what is there now.
    func visit(touchedBy path: Path, before: Node, after: Node, _ touch: (ObservedPlace, _ isBelow: Bool) -> Void) {
        var place = root
        for key in path.keys {
            if place.isActive { touch(place, false) }
            // Most writes end here, below all that is observed: the trees are not looked at.
            guard let next = place.children[key] else { return }
            place = next
        }
        visitBelow(place, before, after, touch)
    }

    /// The same for many writes, ascending and none below another, in one walk: `touch` is given those below a place, nil where it
    /// lies at or below one of them. O(places touched · log writes)
    func visit(touchedBy paths: [Path], old: Node, new: Node, _ touch: (ObservedPlace, _ below: Range<Int>?) -> Void) {
        walk(paths, old, new, into: { _ in true }) { place, below, before, after in
            guard below == nil else { return place.isActive ? touch(place, below) : () }
            visitBelow(place, before, after) { place, _ in touch(place, nil) }
        }
    }

    /// Walks to many places, ascending and none below another: through the known places above them, each with those below it, to those at
    /// them, with nil.
    private func walk(
        _ paths: [Path], _ old: Node, _ new: Node, into isNeeded: (ObservedPlace) -> Bool,
        _ body: (ObservedPlace, _ below: Range<Int>?, _ before: Node, _ after: Node) -> Void
    ) {
        func visit(_ place: ObservedPlace, _ range: Range<Int>, _ before: Node, _ after: Node) {
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

    private func visitBelow(_ place: ObservedPlace, _ old: Node, _ new: Node, _ touch: (ObservedPlace, Bool) -> Void) {
        if old.isIdentical(to: new) { return }
        if place.isActive { touch(place, true) }
        for (key, child) in place.children { visitBelow(child, old.child(key), new.child(key), touch) }
    }

    /// Collects the views that a write concerns, if there are no others than plain ones of places above it and of its own (`View.isPlain`).
    /// O(depth)
    /// - Returns: whether there are no others; else what was collected means nothing.
    func collectPlainViews(around path: Path, into views: inout [View]) -> Bool {
        var place = root
        for key in path.keys {
            guard place.collectPlainView(into: &views) else { return false }
            guard let next = place.children[key] else { return true }
            place = next
        }
        return place.children.isEmpty && place.collectPlainView(into: &views)
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

    /// Calls `body` for every active place with what is stored there.
    func forEach(over node: Node, _ body: (ObservedPlace, Node) -> Void) {
        func visit(_ place: ObservedPlace, _ node: Node) {
            if place.isActive { body(place, node) }
            for (key, child) in place.children { visit(child, node.child(key)) }
        }
        visit(root, node)
    }

    /// Calls `body` for the active places at a path and below it, with what is stored there. No more than `most` places are looked at.
    func forEach(within path: Path, over node: Node, atMost most: Int, _ body: (ObservedPlace, Node) -> Void) {
        var left = most
        func visit(_ place: ObservedPlace, _ node: Node) {
            if place.isActive { body(place, node) }
            for (key, child) in place.children {
                left -= 1
                if left < 0 { return }
                visit(child, node.child(key))
            }
        }
        if let place = existingPlace(at: path) { visit(place, node.node(at: path)) }
    }

    /// Calls `body` for every active place whose content differs between two trees, with both. O(places that differ)
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
            for client in place.allViews.flatMap(\.clients) where seen.insert(ObjectIdentifier(client)).inserted { found.append(client) }
            for child in place.children.values { visit(child) }
        }
        visit(root)
        return found
    }

    // MARK: What permissions rest on

    func add(_ dependent: Dependent, at path: Path) {
        let place = place(at: path)
        guard place.dependents.updateValue(dependent, forKey: ObjectIdentifier(dependent)) == nil else { return }
        if dependent.wholes.contains(path) { place.wholeDependents[ObjectIdentifier(dependent)] = dependent }
        countDependents(at: path, 1)
    }

    func remove(_ dependent: Dependent, at path: Path) {
        guard let place = existingPlace(at: path), place.dependents.removeValue(forKey: ObjectIdentifier(dependent)) != nil else { return }
        if !place.wholeDependents.isEmpty { place.wholeDependents[ObjectIdentifier(dependent)] = nil }
        countDependents(at: path, -1)
        prune(path)
    }

    private func countDependents(at path: Path, _ more: Int) {
        dependentCount += more
        var place: ObservedPlace? = root
        root.dependentsWithin += more
        for key in path.keys {
            place = place?.children[key]
            place?.dependentsWithin += more
        }
    }

    /// Whether the permission of an observer rests on the place, one above it or one below. O(depth)
    func hasDependents(around path: Path) -> Bool {
        guard dependentCount > 0 else { return false }
        var place = root
        for key in path.keys {
            if !place.dependents.isEmpty { return true }
            guard place.dependentsWithin > 0, let next = place.children[key] else { return false }
            place = next
        }
        return place.dependentsWithin > 0
    }

    /// The observers whose permission rests on anything that writes at these paths changed.
    /// O(depth of the paths + places touched that observers rest on + their siblings)
    func dependents(touchedBy paths: [Path], old: Node, new: Node) -> [Dependent] {
        guard dependentCount > 0 else { return [] }
        var found = Found()
        for path in paths {
            var place: ObservedPlace? = root
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

    /// The same for many writes, ascending and none below another, in one walk.
    /// O(places touched that observers rest on + their siblings, or writes)
    func dependents(touchedByMany paths: [Path], old: Node, new: Node) -> [Dependent] {
        guard dependentCount > 0 else { return [] }
        var found = Found()
        walk(paths, old, new, into: { $0.dependentsWithin > 0 }) { place, below, before, after in
            if below == nil { found.look(within: place, before, after) } else { found.look(at: place, before, after) }
        }
        return found.all
    }

    /// Observers that rest on places which differ between two trees.
    private struct Found {
        private var found: [ObjectIdentifier: Dependent] = [:]

        var all: [Dependent] { Array(found.values) }

        mutating func look(at place: ObservedPlace, _ before: Node, _ after: Node) {
            if place.dependents.isEmpty { return }
            if !before.hasSameSurface(as: after) { return add(place.dependents) }
            if !place.wholeDependents.isEmpty, !before.isIdentical(to: after) { add(place.wholeDependents) }
        }

        private mutating func add(_ dependents: [ObjectIdentifier: Dependent]) {
            // Many rest on one place: those are shared, not copied.
            if found.isEmpty { found = dependents } else { found.merge(dependents) { one, _ in one } }
        }

        /// The place and all below it.
        mutating func look(within place: ObservedPlace, _ before: Node, _ after: Node) {
            if place.dependentsWithin == 0 || before.isIdentical(to: after) { return }
            look(at: place, before, after)
            // Those that rest on nothing below this place are no reason to look at each of its children.
            if place.dependentsWithin == place.dependents.count { return }
            for (key, child) in place.children where child.dependentsWithin > 0 { look(within: child, before.child(key), after.child(key)) }
        }
    }
}

/// An observer whose permission rests on data: it is asked about again when one of these places changes (contract §8.3). Most rules
/// look at no data, and their observers have none.
final class Dependent: Sendable {
    let client: Client
    let observation: Observation
    /// What the read rules looked at when they permitted it.
    let places: [Path]
    /// Those of them at which everything below counts as well.
    let wholes: Set<Path>

    init(_ client: Client, _ observation: Observation, _ places: [Path], wholes: Set<Path> = []) {
        self.client = client
        self.observation = observation
        self.places = places
        self.wholes = wholes
    }
}

extension Node {
    /// Whether rules see the same in both when they look at this place alone, at its having children and its priority. Those that count or
    /// compare what is below (`Dependent.wholes`) see more.
    func hasSameSurface(as other: Node) -> Bool {
        guard hasChildren == other.hasChildren else { return false }
        return hasChildren ? isSameObject(as: other) || priority == other.priority : self == other
    }
}
