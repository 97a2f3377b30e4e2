import Journal
import JSONTree

/// How a tree is split into chunks; estimates in bytes of JSON.
struct ChunkSizes: Sendable {
    /// A chunk of at least this size takes no further member. Escapes and one long string may make it longer.
    var full = 256 << 10
    /// Subtrees up to this estimate are written whole. A larger one is split, and its children are members of their own.
    var member = 32 << 10
}

/// Writes a part of a tree as stored entries: everything between two places in pre-order, a node
/// before its children.
///
///     {a: small, b: HUGE, c: small}     ["a","",{"a":…}] ["a","b",{…   |   …}] ["a","",{"c":…}]
///                                       chunk from /                   chunk from /b/k7
///
/// An object's priority follows its last child.
struct ChunkEncoder {
    private let root: Node
    private let sizes: ChunkSizes
    private var writer = JSONWriter(reservingCapacity: 1024)
    /// The object whose run of children is being written.
    private var run: Path?
    /// The start of the next chunk, when this one is full.
    private var next: Path?

    init(_ root: Node, sizes: ChunkSizes) {
        self.root = root
        self.sizes = sizes
    }

    /// The entries; empty when the part contains nothing.
    private(set) var bytes: [UInt8] {
        get { writer.bytes }
        set { writer.bytes = newValue }
    }

    /// Writes as much of a part as fits one chunk, at least one member. O(depth · log n) plus the bytes written.
    /// - Parameters:
    ///   - start: the first place of the part.
    ///   - end: the first place behind it; nil for everything.
    /// - Returns: the first place that was left for the next chunk; nil when the part is complete.
    mutating func encode(from start: Path, to end: Path?) -> Path? {
        bytes.removeAll(keepingCapacity: true)
        next = nil
        if root.hasChildren {
            _ = enter(root, at: .root, from: start.keys[...], to: end?.keys[...])
        } else if root.exists, start.isRoot {
            writer.entry(.set, at: .root, root)
        }
        endRun()
        if !bytes.isEmpty { writer.raw("]") }
        return next
    }

    /// Writes an object's children.
    /// - Parameters:
    ///   - lower: keys from the object to the first place of the part; empty when it begins at the object or before.
    ///   - upper: keys from the object to the first place behind the part; nil when it ends behind the object.
    /// - Returns: false when the chunk is full.
    private mutating func enter(_ object: Node, at path: Path, from lower: ArraySlice<Key>, to upper: ArraySlice<Key>?) -> Bool {
        for (key, child) in object.children.ascending(from: lower.first) {
            let from = key == lower.first ? lower.dropFirst() : []
            var to: ArraySlice<Key>?
            if let bound = upper?.first, key >= bound {
                guard key == bound, let rest = upper?.dropFirst(), !rest.isEmpty else { return true }
                to = rest
            }
            if child.hasChildren, !from.isEmpty || to != nil || !child.isSmall(within: sizes.member) {
                guard enter(child, at: path.appending(key), from: from, to: to) else { return false }
            } else if from.isEmpty {
                guard add(key, child, to: path) else { return false }
            }
        }
        let priority = object.priority
        if upper == nil, priority.exists {
            endRun()
            writer.entry(.priority, at: path, priority)
        }
        return true
    }

    private mutating func add(_ key: Key, _ node: Node, to path: Path) -> Bool {
        // A large node that is not an object is one long string, which gets its own chunk.
        let isLong = !node.hasChildren && !node.isSmall(within: sizes.member)
        if bytes.count >= sizes.full || isLong && !bytes.isEmpty {
            next = path.appending(key)
            return false
        }
        if run == path {
            writer.raw(",")
        } else {
            endRun()
            writer.beginEntry(.add, at: path)
            writer.raw("{")
            run = path
        }
        writer.string(key.text)
        writer.raw(":")
        writer.node(node)
        return true
    }

    private mutating func endRun() {
        if run != nil { writer.raw("}]") }
        run = nil
    }
}

extension Node {
    /// Whether the node's text is estimated to have at most that many bytes, without escapes. O(bytes)
    func isSmall(within bytes: Int) -> Bool {
        var room = bytes
        return takes(from: &room)
    }

    /// Subtracts that estimate from `room`; false when it is more. O(room), O(1) for a small object
    func takes(from room: inout Int) -> Bool {
        if let packedBytes {
            room -= packedBytes
            return room >= 0
        }
        switch self {
        case .string(let text): room -= text.utf8Count + 2
        case .prioritized(let leaf): return leaf.leaf.takes(from: &room) && leaf.priority.takes(from: &room)
        case .null, .bool, .int, .double: room -= 8
        default:
            if !priority.takes(from: &room) { return false }
            for (key, child) in children {
                room -= key.text.utf8Count + 4
                guard room >= 0, child.takes(from: &room) else { return false }
            }
        }
        return room >= 0
    }
}
