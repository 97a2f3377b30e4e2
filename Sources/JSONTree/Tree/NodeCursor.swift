/// Reads a tree without copying nodes or counting references.
///
/// A cursor points at its node's storage. It does not move while the tree's root is retained, as only the single owner of a tree changes it in
/// place. The caller retains the root as long as any cursor exists.
public struct NodeCursor: Equatable {
    /// The kind of data at the address.
    enum Form: UInt8 {
        /// A `Node` that is a leaf or null.
        case leaf
        /// A packed value without a slot.
        case packed
        /// An `ObjectNode`, a `LongText`, a `PrioritizedLeaf`.
        case object, longText, prioritized
    }

    let address: UnsafeRawPointer
    let form: Form

    @inline(__always)
    public init(_ node: UnsafePointer<Node>) {
        switch node.pointee {
        case .object(let object): self.init(object)
        case .packed(let object): self.init(object.value)
        default: self.init(UnsafeRawPointer(node), .leaf)
        }
    }

    @inline(__always)
    private init(_ address: UnsafeRawPointer, _ form: Form) {
        self.address = address
        self.form = form
    }

    @inline(__always)
    init(_ value: PackedValue) {
        address = value.start
        form = .packed
    }

    @inline(__always)
    init(_ object: ObjectNode) {
        address = UnsafeRawPointer(Unmanaged.passUnretained(object).toOpaque())
        form = .object
    }

    /// A cursor to a value among the outermost members of a page.
    @inline(__always)
    init(_ value: PackedValue, in page: Unmanaged<PackedPage>) {
        let tag = value.tag
        guard PackedPage.isSlot(tag) else {
            self.init(value)
            return
        }
        let slot = page._withUnsafeGuaranteedRef { $0.slot(value.start.short(1)) }
        self.init(slot, tag == PackedTag.objectSlot ? .object : tag == PackedTag.textSlot ? .longText : .prioritized)
    }

    /// The type of a node.
    public enum Kind {
        case null
        case bool(Bool)
        case int(Int64)
        case double(Double)
        case text(TextCursor)
        case object
        /// A leaf with a priority.
        case prioritized
    }

    public var kind: Kind {
        @inline(__always) get {
            switch form {
            case .packed: packedKind
            case .object: .object
            case .prioritized: .prioritized
            case .longText: .text(TextCursor(longText._withUnsafeGuaranteedRef { $0.bytes }))
            case .leaf: leafKind
            }
        }
    }

    @inline(__always)
    private var leafKind: Kind {
        switch address.assumingMemoryBound(to: Node.self).pointee {
        case .null: .null
        case .bool(let value): .bool(value)
        case .int(let value): .int(value)
        case .double(let value): .double(value)
        // An enum's payload starts at the same address as the enum.
        case .string: .text(TextCursor(address.assumingMemoryBound(to: Text.self)))
        case .object, .packed: .object
        case .prioritized: .prioritized
        }
    }

    @inline(__always)
    private var packedKind: Kind {
        let value = PackedValue(address)
        if let text = value.text { return .text(TextCursor(text)) }
        if let integer = value.integer { return .int(integer) }
        switch value.tag {
        case PackedTag.object, PackedTag.prioritizedObject: return .object
        case PackedTag.no: return .bool(false)
        case PackedTag.yes: return .bool(true)
        case PackedTag.double: return .double(value.double)
        case PackedTag.prioritizedLeaf: return .prioritized
        default: return .null
        }
    }

    @inline(__always)
    private var object: Unmanaged<ObjectNode> { Unmanaged.fromOpaque(address) }
    private var longText: Unmanaged<LongText> { Unmanaged.fromOpaque(address) }
    private var prioritizedLeaf: Unmanaged<PrioritizedLeaf> { Unmanaged.fromOpaque(address) }

    @inline(__always)
    public var hasChildren: Bool { form == .object || (form == .packed && PackedValue(address).isObject) }

    /// A copy of the leaf without its priority; null for an object.
    public var leaf: Node {
        switch form {
        case .leaf: address.assumingMemoryBound(to: Node.self).pointee.leaf
        case .packed: PackedValue(address).leaf.leaf
        case .object: .null
        case .longText: .string(longText._withUnsafeGuaranteedRef { $0.text })
        case .prioritized: prioritizedLeaf._withUnsafeGuaranteedRef { $0.leaf }
        }
    }

    /// A copy of the priority; null without one.
    public var priority: Node {
        switch form {
        case .leaf: address.assumingMemoryBound(to: Node.self).pointee.priority
        case .packed: PackedValue(address).priority
        case .object: object._withUnsafeGuaranteedRef { $0.priority }
        case .longText: .null
        case .prioritized: prioritizedLeaf._withUnsafeGuaranteedRef { $0.priority }
        }
    }

    /// A copy of the node. O(bytes) for an object in packed bytes, as the cursor does not know its page.
    public var node: Node {
        switch form {
        case .leaf: return address.assumingMemoryBound(to: Node.self).pointee
        case .object: return .object(object.takeUnretainedValue())
        case .longText, .prioritized: return leaf.with(priority: priority)
        case .packed:
            let value = PackedValue(address)
            return value.isObject ? .packed(PackedObject(PackedPage.copy(of: value))) : value.leaf
        }
    }

    /// The child's node, or nil. O(log n)
    @inline(__always)
    public func child(_ key: TextCursor) -> NodeCursor? {
        switch form {
        case .packed:
            let value = PackedValue(address)
            guard value.isObject else { return nil }
            return key.withBytes { value.members.value(Key.Probe($0)) }.map { NodeCursor($0) }
        case .object: return key.withBytes { bytes in object._withUnsafeGuaranteedRef { $0.cursor(Key.Probe(bytes)) } }
        case .leaf, .longText, .prioritized: return nil
        }
    }

    /// Whether both are the same node, or equal packed bytes. O(bytes) of a packed value, which is small. False does not imply a difference.
    public func isIdentical(to other: NodeCursor) -> Bool {
        self == other || form == .packed && other.form == .packed && PackedValue(address).hasBytes(of: PackedValue(other.address))
    }

    /// Whether the node equals another. Copies nothing for packed bytes and for leaves without a priority. O(bytes)
    public func isEqual(to node: Node) -> Bool {
        if case .packed(let object) = node, form == .packed { return object.value.hasBytes(of: PackedValue(address)) }
        switch (kind, node) {
        case (.text(let own), .string(let text)): return withUnsafePointer(to: text) { own.isEqual(to: TextCursor($0)) }
        case (.int(let own), .int(let number)): return own == number
        case (.double(let own), .double(let number)): return own == number
        case (.bool(let own), .bool(let flag)): return own == flag
        case (.object, .object), (.object, .packed), (.prioritized, .prioritized): return self.node == node
        default: return false
        }
    }

    /// Whether the node is an object outside packed bytes, with any number of children.
    public var isLargeObject: Bool { form == .object }

    /// Number of children. O(1)
    public var childCount: Int {
        switch form {
        case .packed: PackedValue(address).isObject ? PackedValue(address).members.count : 0
        case .object: object._withUnsafeGuaranteedRef { $0.children.count }
        case .leaf, .longText, .prioritized: 0
        }
    }

    /// Calls `body` for each child in ascending order until it returns false; returns true if it never did.
    public func allChildren(_ body: (TextCursor, NodeCursor) -> Bool) -> Bool {
        switch form {
        case .packed:
            let value = PackedValue(address)
            return !value.isObject || value.members.all { body(TextCursor($0.key), NodeCursor($0.value)) }
        case .object: return object._withUnsafeGuaranteedRef { $0.allChildren(body) }
        case .leaf, .longText, .prioritized: return true
        }
    }
}

extension Node {
    /// Whether the node at a place below this one has children. Copies nothing. O(depth · log children)
    public func hasChildren(at path: Path) -> Bool { withNode(at: path) { $0?.hasChildren ?? false } }

    /// Calls `body` with a cursor at a place below this one, valid during the call; nil if no node exists there. Copies nothing.
    /// O(depth · log children)
    public func withCursor(at path: Path, _ body: (NodeCursor?) -> Void) { withNode(at: path, body) }

    /// Whether a node exists at a place below this one, or at the first `depth` keys of it. Copies nothing. O(depth · log children)
    public func exists(at path: Path, depth: Int = .max) -> Bool { withNode(at: path, depth: depth) { $0 != nil } }

    /// Calls `body` with a cursor at a place below this one; nil if no node exists there.
    @inline(__always)
    private func withNode<R>(at path: Path, depth: Int = .max, _ body: (NodeCursor?) -> R) -> R {
        withUnsafePointer(to: self) { root in
            if isNull { return body(nil) }
            return path.keys.withUnsafeBufferPointer { keys in
                var cursor = NodeCursor(root)
                guard let first = keys.baseAddress else { return body(cursor) }
                for i in 0..<min(keys.count, depth) {
                    guard let child = cursor.child(TextCursor(first + i)) else { return body(nil) }
                    cursor = child
                }
                return body(cursor)
            }
        }
    }
}

extension NodeCursor {
    /// The node at a place below another; copies nothing on the path.
    static func node(below root: UnsafePointer<Node>, along keys: UnsafeBufferPointer<Key>) -> Node {
        var cursor = NodeCursor(root)
        // The page with the cursor's bytes; retained by its parent.
        var page: Unmanaged<PackedPage>?
        if case .packed(let object) = root.pointee { page = .passUnretained(object.page) }
        guard let first = keys.baseAddress else { return root.pointee }
        for i in keys.indices {
            if cursor.form == .object {
                let found = TextCursor(first + i).withBytes { bytes in
                    cursor.object._withUnsafeGuaranteedRef { $0.find(Key.Probe(bytes)) }
                }
                guard let (leaf, value) = found else { return .null }
                page = leaf
                cursor = NodeCursor(value, in: leaf)
            } else {
                guard let child = cursor.child(TextCursor(first + i)) else { return .null }
                cursor = child
            }
        }
        if cursor.form == .prioritized { return .prioritized(cursor.prioritizedLeaf.takeUnretainedValue()) }
        guard cursor.form == .packed, PackedValue(cursor.address).isObject, let page = page?.takeUnretainedValue() else {
            return cursor.node
        }
        return .packed(PackedObject(page, offset: cursor.address - UnsafeRawPointer(page.bytes)))
    }

    /// Whether the memory layout is as cursors assume: string nodes and keys begin with the 16 bytes of their `Text`. The language does not
    /// guarantee it, so callers check this before using cursors.
    public static let hasKnownLayout: Bool = {
        guard MemoryLayout<Text>.size == 16, MemoryLayout<Key>.size == 16, MemoryLayout<Node>.size > 16 else { return false }
        return ["", "a", "fifteen letters", "longer than any string in place", "\u{E9}\u{1F600}"].allSatisfy { string in
            let text = Text(string)
            return withUnsafeBytes(of: text) { bytes in
                withUnsafeBytes(of: Node.string(text)) { bytes.elementsEqual($0.prefix(16)) }
                    && withUnsafeBytes(of: Key(text.string)) { bytes.elementsEqual($0) }
            }
        }
    }()
}

extension PackedMembers {
    @inline(__always)
    func all(_ body: (PackedEntry) -> Bool) -> Bool {
        let count = count
        var i = 0
        while i < count {
            if !body(entry(i)) { return false }
            i &+= 1
        }
        return true
    }
}

extension ObjectNode {
    /// The child of a key, in place.
    @inline(__always)
    fileprivate func cursor(_ probe: Key.Probe) -> NodeCursor? { find(probe).map { NodeCursor($1, in: $0) } }

    /// The value of a key, and its page.
    @inline(__always)
    fileprivate func find(_ probe: Key.Probe) -> (page: Unmanaged<PackedPage>, value: PackedValue)? {
        let leaf: Unmanaged<PackedPage>
        if let root = children.root {
            leaf = root.leaf(probe)
        } else {
            guard let packed = children.packed else { return nil }
            leaf = Unmanaged.passUnretained(packed.page)
        }
        return leaf._withUnsafeGuaranteedRef { $0.value(probe) }.map { (leaf, $0) }
    }

    fileprivate func allChildren(_ body: (TextCursor, NodeCursor) -> Bool) -> Bool {
        guard let root = children.root else { return children.packed?.page.all(body) ?? true }
        return root.allChildren(body)
    }
}

extension ChildPage {
    fileprivate func allChildren(_ body: (TextCursor, NodeCursor) -> Bool) -> Bool {
        for leaf in leaves where !leaf.all(body) { return false }
        for page in pages where !page.allChildren(body) { return false }
        return true
    }
}

extension PackedPage {
    /// A new page for an object without slots.
    static func copy(of value: PackedValue) -> PackedPage {
        let size = value.size
        let page = make(byteCount: size, slotCount: 0)
        page.bytes.copyMemory(from: value.start, byteCount: size)
        return page
    }
}
