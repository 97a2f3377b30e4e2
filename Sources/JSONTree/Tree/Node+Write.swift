extension Node {
    /// Replaces the value at a place below this node. `null` removes it, together with ancestors left without children.
    ///
    /// Writing below a leaf turns it into an object that keeps the leaf's priority. Removing below a leaf or a missing node changes nothing
    /// (contract §4.2). O(depth · log children); shared objects are copied, not changed.
    public mutating func set(_ value: Node, at path: Path) {
        // A removal of a missing node copies nothing, so that an unchanged tree stays identical.
        if value.isNull, node(at: path).isNull { return }
        // Passed by address, as a captured node would be retained at each level.
        withUnsafePointer(to: value) { value in
            path.keys.withUnsafeBufferPointer { keys in mutate(at: keys, isReplaced: true) { $0 = value.pointee } }
        }
    }

    /// Writes one value at several places, none at or above another, walking their common path once.
    /// - Returns: the places that had another value or none, in order.
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

    /// Writes the value at the rest of a path, after `depth` keys.
    /// - Returns: whether the place had another value or none.
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

    /// Changes only the priority at a place; no effect without a value there.
    public mutating func setPriority(_ priority: Node, at path: Path) {
        if node(at: path).isNull { return }
        path.keys.withUnsafeBufferPointer { keys in mutate(at: keys) { $0 = $0.with(priority: priority) } }
    }

    /// Sets every child of an object below a place in one walk; the place's other children and its priority stay. Does nothing unless `children`
    /// is an object. O(depth · log n + children · log n). If all new children sort after the existing ones, their pages are reused.
    public mutating func merge(_ children: Node, at path: Path) {
        guard children.hasChildren else { return }
        path.keys.withUnsafeBufferPointer { keys in mutate(at: keys) { $0.adopt(children.children) } }
    }

    private mutating func adopt(_ added: ChildMap) {
        var children = children
        let priority = priority
        // Release this reference, so that `children` is the only owner.
        self = .null
        if let last = children.lastKey, let first = added.firstKey, first <= last {
            for (key, node) in added { children.set(key, node) }
        } else {
            children.append(added)
        }
        self = Node(children, priority: priority)
    }

    /// Lets `body` change the node at a place, copying only shared objects on the path. Precondition: the node exists before or after.
    /// - Parameters:
    ///   - keys: read in place, as an array slice would be retained at each level.
    ///   - isReplaced: whether `body` sets the node without reading it: then it gets `null` if the old node would have to be created.
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

    /// Moves a large object out, leaving `null`: a second reference would force a copy.
    private mutating func extractObject() -> ObjectNode? {
        guard case .object(let object) = self else { return nil }
        self = .null
        return object
    }

    /// An object with these children, packed if small; null without children.
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
    /// The object with one child changed by `body`. `Node.null` if no child is left, nil if nothing changed.
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
    /// Whether a node is the identical value at an index, or an equal leaf.
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
