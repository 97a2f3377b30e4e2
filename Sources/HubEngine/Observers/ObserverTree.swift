import JSONTree

/// All that is observed, as a tree of places; a place without a view stands for places below it that have one.
///
/// Confined to the database queue. A write walks its own path and then only into places below it whose value has changed,
/// so its cost is O(depth + views touched).
struct ObserverTree {
    private let root = Place()

    /// A place with observers at or below it.
    private final class Place {
        var children: [Key: Place] = [:]
        var view: View?
        var isEmpty: Bool { view == nil && children.isEmpty }
    }

    /// The view of a place, made when missing.
    func view(at path: Path, lanes: Int) -> View {
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
        if let view = place.view { return view }
        let view = View(path: path, lanes: lanes)
        place.view = view
        return view
    }

    func existingView(at path: Path) -> View? {
        var place = root
        for key in path.keys {
            guard let next = place.children[key] else { return nil }
            place = next
        }
        return place.view
    }

    /// Forgets a place whose view has no observers left, and the places above it that only led there.
    func removeView(at path: Path) {
        var places = [root]
        for key in path.keys {
            guard let next = places[places.count - 1].children[key] else { return }
            places.append(next)
        }
        places[places.count - 1].view = nil
        for depth in stride(from: path.depth, to: 0, by: -1) where places[depth].isEmpty {
            places[depth - 1].children[path.keys[depth - 1]] = nil
        }
    }

    /// Calls `touch` for each view that a write at `path` concerns: those above, with `isBelow` false; the one at the place
    /// and the ones below it whose value differs, with `isBelow` true.
    func visit(touchedBy path: Path, old: Node, new: Node, _ touch: (View, _ isBelow: Bool) -> Void) {
        var place = root
        var (before, after) = (old, new)
        for key in path.keys {
            if let view = place.view { touch(view, false) }
            guard let next = place.children[key] else { return }
            place = next
            before = before.child(key)
            after = after.child(key)
        }
        visitBelow(place, before, after, touch)
    }

    private func visitBelow(_ place: Place, _ old: Node, _ new: Node, _ touch: (View, Bool) -> Void) {
        if old.isIdentical(to: new) { return }
        if let view = place.view { touch(view, true) }
        for (key, child) in place.children { visitBelow(child, old.child(key), new.child(key), touch) }
    }

    /// Every client that observes anything.
    func clients() -> [Client] {
        var seen: Set<ObjectIdentifier> = []
        var found: [Client] = []
        func visit(_ place: Place) {
            for audience in place.view?.audiences.values ?? [:].values {
                for client in audience.lanes.joined() where seen.insert(ObjectIdentifier(client)).inserted { found.append(client) }
            }
            for child in place.children.values { visit(child) }
        }
        visit(root)
        return found
    }
}
