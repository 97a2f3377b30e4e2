extension Node {
    /// Replaces what is at a place below this node; `null` removes it, and objects left without children vanish upwards.
    ///
    /// Writing below a leaf turns it into an object that keeps the leaf's priority; removing below a leaf or a missing node
    /// changes nothing (contract §4.2). O(depth · log children); objects that others still hold are copied, not changed.
    public mutating func set(_ value: Node, at path: Path) {
        mutate(at: path.keys[...], removing: value.isNull) { $0 = value }
    }

    /// Changes only the priority at a place; nothing happens where there is no value.
    public mutating func setPriority(_ priority: Node, at path: Path) {
        mutate(at: path.keys[...], removing: true) { $0 = $0.with(priority: priority) }
    }

    /// Lets `body` change the node at a place, copying only what is shared on the way.
    /// - Parameter removing: the change can create nothing, so the walk stops where the place does not exist.
    private mutating func mutate(at keys: ArraySlice<Key>, removing: Bool, _ body: (inout Node) -> Void) {
        guard let key = keys.first else {
            body(&self)
            return
        }
        switch self {
        case .object(var object):
            // Take the object out of `self`, or it would be held twice and always be copied.
            self = .null
            if !isKnownUniquelyReferenced(&object) || object.isHashed { object = object.copy(priority: object.priority) }
            object.children.mutate(key) { $0.mutate(at: keys.dropFirst(), removing: removing, body) }
            self = object.children.isEmpty ? .null : .object(object)
        default:
            if removing { return }
            var children = ChildMap()
            children.mutate(key) { $0.mutate(at: keys.dropFirst(), removing: false, body) }
            if !children.isEmpty { self = .object(ObjectNode(children: children, priority: priority)) }
        }
    }
}
