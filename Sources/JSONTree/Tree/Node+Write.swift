extension Node {
    /// Replaces the value at a place below this node; `null` removes it, and objects left without children are removed upwards.
    ///
    /// Writing below a leaf turns it into an object that keeps the leaf's priority; removing below a leaf or a missing node
    /// changes nothing (contract §4.2). O(depth · log children); objects with other references are copied, not changed.
    public mutating func set(_ value: Node, at path: Path) {
        // Copies nothing when there is nothing to remove, so that an unchanged tree stays identical.
        if value.isNull, node(at: path).isNull { return }
        mutate(at: path.keys[...]) { $0 = value }
    }

    /// Changes only the priority at a place; no effect where there is no value.
    public mutating func setPriority(_ priority: Node, at path: Path) {
        if node(at: path).isNull { return }
        mutate(at: path.keys[...]) { $0 = $0.with(priority: priority) }
    }

    /// Sets every child of an object below a place in one walk; the place's other children and its priority stay.
    /// Does nothing unless `children` is an object. O(depth · log n + children · log n)
    public mutating func merge(_ children: Node, at path: Path) {
        guard let added = children.object else { return }
        mutate(at: path.keys[...]) { $0.adopt(added) }
    }

    private mutating func adopt(_ added: ObjectNode) {
        guard var object = extractObject() else {
            self = .object(ObjectNode(children: added.children, priority: priority))
            return
        }
        if !isKnownUniquelyReferenced(&object) || object.isHashed { object = object.copy(priority: object.priority) }
        for (key, node) in added.children { object.children.set(key, node) }
        self = .object(object)
    }

    /// Lets `body` change the node at a place, copying only shared objects on the way. The result exists, or the place did.
    private mutating func mutate(at keys: ArraySlice<Key>, _ body: (inout Node) -> Void) {
        guard let key = keys.first else {
            body(&self)
            return
        }
        guard var object = extractObject() else {
            var children = ChildMap()
            children.mutate(key) { $0.mutate(at: keys.dropFirst(), body) }
            self = .object(ObjectNode(children: children, priority: priority))
            return
        }
        if !isKnownUniquelyReferenced(&object) || object.isHashed { object = object.copy(priority: object.priority) }
        object.children.mutate(key) { $0.mutate(at: keys.dropFirst(), body) }
        self = object.children.isEmpty ? .null : .object(object)
    }

    /// Moves the object out, leaving `null`: a second reference would force a copy.
    private mutating func extractObject() -> ObjectNode? {
        guard case .object(let object) = self else { return nil }
        self = .null
        return object
    }
}
