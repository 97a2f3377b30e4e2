import Synchronization

/// An object too large for packed bytes: its children in key order, its priority and its cached hash.
///
/// Immutable once published. A write changes an object in place only if it is uniquely referenced and has no cached hash; otherwise it copies
/// the object, sharing all untouched pages.
public final class ObjectNode: @unchecked Sendable {
    // Sendable: `children` and `priority` change only while a single owner holds the object (isKnownUniquelyReferenced).
    // Exclusivity is not checked at run time: only a single owner changes an object, so there is no concurrent reader.
    @exclusivity(unchecked) var children: ChildMap
    /// int, double, string or null.
    let priority: Node
    /// Owned reference to a `HashText`; 0 until the hash is computed. Every write reads it, and a generic lazy reference would cost more than
    /// everything else in that check.
    private let cachedHash = Atomic<UInt>(0)

    init(children: ChildMap, priority: Node = .null) {
        self.children = children
        // Cursors read a page from its start.
        if let packed = children.packed { self.children.packed = PackedObject(packed.asPage) }
        self.priority = priority
    }

    deinit {
        if let hash = UnsafeRawPointer(bitPattern: cachedHash.load(ordering: .relaxed)) { Unmanaged<HashText>.fromOpaque(hash).release() }
    }

    /// The child, or nil: like `children[key]`, but without copying the map's references. O(log n)
    @inline(__always)
    func child(_ key: Key) -> Node? {
        key.text.withBytes { bytes in
            let probe = Key.Probe(bytes)
            if let root = children.root { return root.node(probe) }
            return children.packed?.child(probe)
        }
    }

    func copy(priority: Node) -> ObjectNode { ObjectNode(children: children, priority: priority) }

    /// Whether a hash is cached, which forbids changing the object in place.
    @inline(__always)
    var isHashed: Bool { cachedHash.load(ordering: .relaxed) != 0 }

    /// The cached hash.
    var hashText: String? {
        UnsafeRawPointer(bitPattern: cachedHash.load(ordering: .acquiring)).map {
            Unmanaged<HashText>.fromOpaque($0).takeUnretainedValue().text
        }
    }

    /// Caches the hash; if several threads compute it, the first one stays.
    func keep(hashText: String) {
        let made = Unmanaged.passRetained(HashText(hashText))
        let isKept = cachedHash.compareExchange(
            expected: 0, desired: UInt(bitPattern: made.toOpaque()), ordering: .acquiringAndReleasing
        ).exchanged
        if !isKept { made.release() }
    }
}

/// A computed hash, boxed so that it can be published without a lock.
final class HashText: Sendable {
    let text: String
    init(_ text: String) { self.text = text }
}
