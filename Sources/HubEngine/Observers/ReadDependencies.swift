import JSONTree

/// Which observers must be asked again when which places change: the data that the read rules looked at when they were
/// permitted (contract §8.3).
///
/// Confined to the database queue. Most rules look at no data, and their observers are not in here; a commit costs
/// O(depth + observers that depend on what it changed).
final class ReadDependencies {
    /// An observer whose permission rests on data.
    final class Dependent {
        let client: Client
        let observation: Observation
        fileprivate(set) var places: [Path]

        init(_ client: Client, _ observation: Observation, _ places: [Path]) {
            self.client = client
            self.observation = observation
            self.places = places
        }
    }

    private final class Place {
        var children: [Key: Place] = [:]
        var dependents: [ObjectIdentifier: Dependent] = [:]
        var isEmpty: Bool { children.isEmpty && dependents.isEmpty }
    }

    private let root = Place()

    var isEmpty: Bool { root.isEmpty }

    /// Puts an observer's dependencies in the place of those it had.
    func set(_ places: [Path], for observation: Observation, of client: Client) {
        if let known = client.dependents.removeValue(forKey: observation) {
            for path in known.places { remove(known, at: path) }
        }
        guard !places.isEmpty else { return }
        let dependent = Dependent(client, observation, places)
        client.dependents[observation] = dependent
        for path in places { place(at: path).dependents[ObjectIdentifier(dependent)] = dependent }
    }

    /// The observers that depend on anything that writes at these paths changed.
    func touched(by paths: [Path], old: Node, new: Node) -> [Dependent] {
        if root.isEmpty { return [] }
        var found: [ObjectIdentifier: Dependent] = [:]
        for path in paths {
            var place: Place? = root
            var (before, after) = (old, new)
            for key in path.keys {
                guard let here = place else { break }
                if !here.dependents.isEmpty, !before.hasSameSurface(as: after) { found.merge(here.dependents) { one, _ in one } }
                place = here.children[key]
                (before, after) = (before.child(key), after.child(key))
            }
            if let place { collect(place, before, after, &found) }
        }
        return Array(found.values)
    }

    private func collect(_ place: Place, _ old: Node, _ new: Node, _ found: inout [ObjectIdentifier: Dependent]) {
        if old.isIdentical(to: new) { return }
        if !place.dependents.isEmpty, !old.hasSameSurface(as: new) { found.merge(place.dependents) { one, _ in one } }
        for (key, child) in place.children { collect(child, old.child(key), new.child(key), &found) }
    }

    private func place(at path: Path) -> Place {
        var place = root
        for key in path.keys {
            if let next = place.children[key] {
                place = next
            } else {
                let next = Place()
                place.children[key] = next
                place = next
            }
        }
        return place
    }

    private func remove(_ dependent: Dependent, at path: Path) {
        var places = [root]
        for key in path.keys {
            guard let next = places[places.count - 1].children[key] else { return }
            places.append(next)
        }
        places[path.depth].dependents[ObjectIdentifier(dependent)] = nil
        for depth in stride(from: path.depth, to: 0, by: -1) where places[depth].isEmpty {
            places[depth - 1].children[path.keys[depth - 1]] = nil
        }
    }
}

extension Node {
    /// Whether rules see the same in both when they look at this place alone: no rule sees an object but for its having
    /// children and its priority.
    func hasSameSurface(as other: Node) -> Bool {
        switch (self, other) {
        case (.object(let a), .object(let b)): a === b || a.priority == b.priority
        case (.object, _), (_, .object): false
        default: self == other
        }
    }
}
