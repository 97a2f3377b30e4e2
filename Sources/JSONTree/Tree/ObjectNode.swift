import Synchronization

/// An object of the tree that is too large for packed bytes: its children in key order, its priority and its cached hash.
///
/// Immutable once published. `Node` writes change an object in place only when it is uniquely referenced and has no cached
/// hash; else they copy it, sharing all untouched pages.
public final class ObjectNode: @unchecked Sendable {
    // Sendable: `children` and `priority` change only while a single owner holds the object (isKnownUniquelyReferenced).
    // Exclusivity is not checked at run time: only a single owner changes an object, so there is no concurrent reader.
    @exclusivity(unchecked) var children: ChildMap
    /// int, double, string or null.
    let priority: Node
    /// Owned reference to a `HashText`; 0 until the hash is asked for. Every write looks at it: a lazy reference, which is generic, costs
    /// more than all else that it looks at.
    private let cachedHash = Atomic<UInt>(0)

    init(children: ChildMap, priority: Node = .null) {
        self.children = children
        // Cursors read a page from its beginning.
        if let packed = children.packed { self.children.packed = PackedObject(packed.asPage) }
        self.priority = priority
    }

    deinit {
        if let hash = UnsafeRawPointer(bitPattern: cachedHash.load(ordering: .relaxed)) { Unmanaged<HashText>.fromOpaque(hash).release() }
    }

    /// The child, or nil: that of `children`, without a copy of the map's references. O(log n)
    @inline(__always)
    func child(_ key: Key) -> Node? {
        key.text.withBytes { bytes in
            let probe = Key.Probe(bytes)
            if let root = children.root { return root.node(probe) }
            return children.packed?.child(probe)
        }
    }

    func copy(priority: Node) -> ObjectNode { ObjectNode(children: children, priority: priority) }

    /// Whether the single owner may change this object in place: a cached hash would go stale.
    @inline(__always)
    var isHashed: Bool { cachedHash.load(ordering: .relaxed) != 0 }

    /// The cached hash.
    var hashText: String? {
        UnsafeRawPointer(bitPattern: cachedHash.load(ordering: .acquiring)).map {
            Unmanaged<HashText>.fromOpaque($0).takeUnretainedValue().text
        }
    }

    /// Keeps the hash; the first one that a thread made stays.
    func keep(hashText: String) {
        let made = Unmanaged.passRetained(HashText(hashText))
        let isKept = cachedHash.compareExchange(
            expected: 0, desired: UInt(bitPattern: made.toOpaque()), ordering: .acquiringAndReleasing
        ).exchanged
        if !isKept { made.release() }
    }
}

/// A computed hash, boxed so that it can be published once without a lock.
final class HashText: Sendable {
    let text: String
    init(_ text: String) { self.text = text }
}
