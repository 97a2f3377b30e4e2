extension Node {
    /// Replaces the value at a place below this node; `null` removes it, and objects left without children are removed upwards.
    ///
    /// Writing below a leaf turns it into an object that keeps the leaf's priority; removing below a leaf or a missing node
    /// changes nothing (contract §4.2). O(depth · log children); objects with other references are copied, not changed.
    public mutating func set(_ value: Node, at path: Path) {
        // Copies nothing when there is nothing to remove, so that an unchanged tree stays identical.
        if value.isNull, node(at: path).isNull { return }
        // By its address, as what a closure captures is retained on each level.
        withUnsafePointer(to: value) { value in
            path.keys.withUnsafeBufferPointer { keys in mutate(at: keys, isReplaced: true) { $0 = value.pointee } }
        }
    }

    /// The same value at several places, none at or above another: the way that they have in common is gone once.
    /// - Returns: those of them that had another value or none, in their order.
    @discardableResult
    public mutating func set(_ value: Node, atEach paths: [Path]) -> [Path] {
        var changed: [Path] = []
        guard value.exists, paths.count > 1, let first = paths.first, !first.isRoot else {
            for path in paths where node(at: path) != value {
                set(value, at: path)
                changed.append(path)
            }
            return changed
        }
        changed.reserveCapacity(paths.count)
        let shared = paths.reduce(first.depth - 1) { min($0, $1.commonDepth(with: first)) }
        first.keys.withUnsafeBufferPointer { way in
            mutate(at: UnsafeBufferPointer(rebasing: way[..<shared])) { node in
                for path in paths where node.set(value, atRest: path, from: shared) { changed.append(path) }
            }
        }
        return changed
    }

    /// The same at the rest of a path, behind so many keys.
    /// - Returns: whether there was another value, or none.
    private mutating func set(_ value: Node, atRest path: Path, from depth: Int) -> Bool {
        withUnsafePointer(to: value) { value in
            path.keys.withUnsafeBufferPointer { keys in
                var isOther = false
                mutate(at: UnsafeBufferPointer(rebasing: keys[depth...])) {
                    isOther = $0 != value.pointee
                    if isOther { $0 = value.pointee }
                }
                return isOther
            }
        }
    }

    /// Changes only the priority at a place; no effect where there is no value.
    public mutating func setPriority(_ priority: Node, at path: Path) {
        if node(at: path).isNull { return }
        path.keys.withUnsafeBufferPointer { keys in mutate(at: keys) { $0 = $0.with(priority: priority) } }
    }

    /// Sets every child of an object below a place in one walk; the place's other children and its priority stay.
    /// Does nothing unless `children` is an object. O(depth · log n + children · log n); of children that all come behind those of the
    /// place whole pages are taken over.
    public mutating func merge(_ children: Node, at path: Path) {
        guard children.hasChildren else { return }
        path.keys.withUnsafeBufferPointer { keys in mutate(at: keys) { $0.adopt(children.children) } }
    }

    private mutating func adopt(_ added: ChildMap) {
        var children = children
        let priority = priority
        // The only reference to an object of its own.
        self = .null
        if let last = children.lastKey, let first = added.firstKey, first <= last {
            for (key, node) in added { children.set(key, node) }
        } else {
            children.append(added)
        }
        self = Node(children, priority: priority)
    }

    /// Lets `body` change the node at a place, copying only shared objects on the way. The result exists, or the place did.
    /// - Parameters:
    ///   - keys: in place, as a slice of an array would be retained at each level.
    ///   - isReplaced: whether `body` sets the node, whatever it was: it gets `null` then where the node would have to be made.
    private mutating func mutate(at keys: UnsafeBufferPointer<Key>, isReplaced: Bool = false, _ body: (inout Node) -> Void) {
        guard let key = keys.first else {
            body(&self)
            return
        }
        let rest = UnsafeBufferPointer(rebasing: keys.dropFirst())
        if case .packed(let object) = self {
            let mutated = object.mutated(key, isReplaced: isReplaced && rest.isEmpty) { $0.mutate(at: rest, isReplaced: isReplaced, body) }
            if let mutated { self = mutated }
            return
        }
        guard var object = extractObject() else {
            var child = Node.null
            child.mutate(at: rest, isReplaced: isReplaced, body)
            self = .object(CollectionOfOne((key, child)), priority: priority)
            return
        }
        if !isKnownUniquelyReferenced(&object) || object.isHashed { object = object.copy(priority: object.priority) }
        object.children.mutate(key, isReplaced: isReplaced && rest.isEmpty) { $0.mutate(at: rest, isReplaced: isReplaced, body) }
        self = object.node
    }

    /// Moves the large object out, leaving `null`: a second reference would force a copy.
    private mutating func extractObject() -> ObjectNode? {
        guard case .object(let object) = self else { return nil }
        self = .null
        return object
    }

    /// An object of these children, packed if it is small; null without any.
    init(_ children: ChildMap, priority: Node) {
        self = ObjectNode(children: children, priority: priority).node
    }
}

extension ObjectNode {
    /// The object as a node: packed if it has become small, null without children.
    var node: Node {
        guard children.root == nil else { return .object(self) }
        guard let packed = children.packed else { return .null }
        guard packed.offset == 0, packed.page.isWhole, let small = packed.prioritized(priority) else { return .object(self) }
        return .packed(small)
    }
}

extension PackedObject {
    /// The object with one child changed by `body`; `Node.null` without any, nil when nothing has changed.
    fileprivate func mutated(_ key: Key, isReplaced: Bool, _ body: (inout Node) -> Void) -> Node? {
        let (i, found) = position(of: key)
        var child = found && !isReplaced ? node(i) : .null
        body(&child)
        if found ? holds(child, at: i) : child.isNull { return nil }
        return key.text.withBytes { bytes in
            let edit = PackedEdit(self, at: i, removes: found, bytes, child)
            if child.isNull, count == 1 { return .null }
            if !edit.needsSlot, edit.size <= PackedLimits.objectBytes { return .packed(PackedObject(edit.page())) }
            var children = ChildMap(self)
            children.set(key, child)
            return .object(ObjectNode(children: children, priority: value.priority))
        }
    }
}

extension PackedObject {
    /// Whether a node is the value at an index, or an equal leaf.
    fileprivate func holds(_ node: Node, at i: Int) -> Bool {
        let value = members.entry(i).value
        switch node {
        case .packed(let object):
            return value.isObject && (object.value.start == value.start || object.value.hasBytes(of: value))
        case .object(let object):
            guard value.tag == PackedTag.objectSlot else { return false }
            return UnsafeRawPointer(page.slot(value.start.short(1))) == UnsafeRawPointer(Unmanaged.passUnretained(object).toOpaque())
        case .string(let text):
            guard let own = value.text else { return value.tag == PackedTag.textSlot && node == self.node(i) }
            return text.withBytes { $0.count == own.count && ($0.isEmpty || memoryEqual($0, own)) }
        case .int(let number): return value.integer == number
        case .double(let number): return value.tag == PackedTag.double && value.double == number
        case .bool(let flag): return value.tag == (flag ? PackedTag.yes : PackedTag.no)
        case .prioritized: return node == self.node(i)
        case .null: return false
        }
    }
}
