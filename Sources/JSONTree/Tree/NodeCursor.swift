/// Reads a tree without copying nodes or counting references.
///
/// A cursor points at the storage of its node, which does not move while a reference to the tree's root is held: a tree is
/// changed in place only by its single owner. The caller that makes a cursor holds that root for as long as any cursor lives.
///
/// How objects are stored only the cursor knows: it tells the kind of a node, finds its children, and hands out copies of nodes.
public struct NodeCursor: Equatable {
    @usableFromInline let place: UnsafePointer<Node>

    @inlinable public init(_ node: UnsafePointer<Node>) { place = node }

    /// The type of a node.
    public enum Kind {
        case null
        case bool(Bool)
        case int(Int64)
        case double(Double)
        case text(TextCursor)
        case object
        /// A leaf with a priority: see `leaf` and `priority`.
        case prioritized
    }

    public var kind: Kind {
        @inline(__always) get {
            switch place.pointee {
            case .null: .null
            case .bool(let value): .bool(value)
            case .int(let value): .int(value)
            case .double(let value): .double(value)
            // The payloads of an enum share their beginning with it.
            case .string: .text(TextCursor(UnsafeRawPointer(place).assumingMemoryBound(to: Text.self)))
            case .object: .object
            case .prioritized: .prioritized
            }
        }
    }

    /// A copy of the node.
    public var node: Node { place.pointee }

    /// A copy of the leaf without its priority; null for an object.
    public var leaf: Node { place.pointee.leaf }

    /// A copy of the priority: int, double, string or null.
    public var priority: Node { place.pointee.priority }

    /// The child's node, or nil. O(log n)
    public func child(_ key: TextCursor) -> NodeCursor? {
        guard let object = unownedObject else { return nil }
        if let root = object._withUnsafeGuaranteedRef({ $0.children.root.map { Unmanaged.passUnretained($0) } }) {
            return key.withBytes { bytes in
                let probe = Key.Probe(bytes)
                return Self.leaf(root, probe).node(probe)
            }
        }
        let entries = object._withUnsafeGuaranteedRef { Entries($0.children.flat) }
        if let text = key.stored, let found = entries.nodeSharing(text) { return found }
        return key.withBytes { entries.node(Key.Probe($0)) }
    }

    @inline(__always)
    private var unownedObject: Unmanaged<ObjectNode>? {
        if case .object(let object) = place.pointee { return Unmanaged.passUnretained(object) }
        return nil
    }

    /// The page on which a key is or belongs.
    @inline(__always)
    private static func leaf(_ root: Unmanaged<ChildPage>, _ probe: Key.Probe) -> Entries {
        var page = root
        while true {
            let i = page._withUnsafeGuaranteedRef { $0.isLeaf ? -1 : $0.pageIndex(for: probe) }
            if i < 0 { return page._withUnsafeGuaranteedRef { Entries($0.entries) } }
            page = page._withUnsafeGuaranteedRef { Unmanaged.passUnretained($0.pages[i]) }
        }
    }

    /// Calls `body` for each child in ascending order until it returns false; returns whether it never did.
    public func allChildren(_ body: (TextCursor, NodeCursor) -> Bool) -> Bool {
        guard case .object(let object) = place.pointee else { return true }
        guard let root = object.children.root else { return Entries(object.children.flat).all(body) }
        return root.all(body)
    }
}

extension NodeCursor {
    /// Whether the memory layout is as cursors assume: string nodes and keys begin with the 16 bytes of their `Text`. The language does not
    /// guarantee it, so callers check this before they make cursors.
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

extension ChildPage {
    fileprivate func all(_ body: (TextCursor, NodeCursor) -> Bool) -> Bool {
        if isLeaf { return Entries(entries).all(body) }
        for page in pages where !page.all(body) { return false }
        return true
    }
}

/// The entries of an object or a page, in place: the holder of the root keeps them there.
private struct Entries {
    let base: UnsafePointer<ChildMap.Entry>?
    let count: Int

    @inline(__always)
    init(_ entries: ContiguousArray<ChildMap.Entry>) {
        (base, count) = entries.withUnsafeBufferPointer { ($0.baseAddress, $0.count) }
    }

    /// The node of a key with the same 16 bytes, as equal short names have. Compares only the first few entries.
    @inline(__always)
    func nodeSharing(_ text: UnsafePointer<Text>) -> NodeCursor? {
        guard let base, count <= 12 else { return nil }
        let words = UnsafeRawPointer(text)
        let (a, b) = (words.load(as: UInt64.self), words.load(fromByteOffset: 8, as: UInt64.self))
        for i in 0..<count {
            guard let name = (base + i).pointer(to: \.key) else { return nil }
            let entry = UnsafeRawPointer(name)
            guard entry.load(as: UInt64.self) == a, entry.load(fromByteOffset: 8, as: UInt64.self) == b else { continue }
            return (base + i).pointer(to: \.node).map { NodeCursor($0) }
        }
        return nil
    }

    @inline(__always)
    func node(_ probe: Key.Probe) -> NodeCursor? {
        guard let base else { return nil }
        var (low, high) = (0, count)
        while low < high {
            let middle = (low &+ high) / 2
            let order = probe.order((base + middle).pointee.key)
            if order == 0 { return (base + middle).pointer(to: \.node).map { NodeCursor($0) } }
            if order < 0 { low = middle &+ 1 } else { high = middle }
        }
        return nil
    }

    func all(_ body: (TextCursor, NodeCursor) -> Bool) -> Bool {
        guard let base else { return true }
        for i in 0..<count {
            guard let key = (base + i).pointer(to: \.key), let node = (base + i).pointer(to: \.node) else { return true }
            if !body(TextCursor(key), NodeCursor(node)) { return false }
        }
        return true
    }
}
