import JSONTree

/// Cuts a tree into chunks of stored entries in key order. Each chunk has at most 1 MiB, but for a string that is longer
/// itself and then stands alone.
///
///     {a: small, b: HUGE, c: small}  ──►  [["a","",{"a":…}],["a","b",{…}]]  [["a","b",{…}],["a","",{"c":…}]]
///
/// A subtree that is small is written whole as one member; a larger one is entered, and its children form runs of their own.
struct ChunkWriter {
    static let maxChunkBytes = 1 << 20
    /// Subtrees up to this estimate are members; escaping may blow one up sixfold, so a chunk is full at half its limit.
    private static let memberBytes = 64 << 10
    private static let fullBytes = 512 << 10

    private var writer = JSONWriter(reservingCapacity: maxChunkBytes)
    /// The object whose run of children is open.
    private var run: Path?
    private let emit: ([UInt8]) throws -> Void

    /// Hands the tree's chunks to `emit` in order; a missing tree has none. What sessions leave behind comes last.
    static func write(_ root: Node, _ pending: [PendingSession] = [], emit: ([UInt8]) throws -> Void) throws {
        try withoutActuallyEscaping(emit) { emit in
            var chunks = ChunkWriter(emit: emit)
            if let object = root.object {
                try chunks.enter(object, at: .root)
            } else if root.exists {
                chunks.writer.entry(.set, at: .root, root)
            }
            try chunks.flush()
            for session in pending {
                chunks.writer.entries([session])
                if chunks.writer.bytes.count >= fullBytes { try chunks.flush() }
            }
            try chunks.flush()
        }
    }

    private init(emit: @escaping ([UInt8]) throws -> Void) { self.emit = emit }

    private mutating func enter(_ object: ObjectNode, at path: Path) throws {
        for (key, node) in object.children {
            if let inner = node.object, !node.isSmall(within: Self.memberBytes) {
                try enter(inner, at: path.appending(key))
                continue
            }
            // Not an object and yet large: one long string.
            let standsAlone = node.object == nil && !node.isSmall(within: Self.memberBytes)
            if standsAlone { try flush() }
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
            if standsAlone || writer.bytes.count >= Self.fullBytes { try flush() }
        }
        if object.priority.exists {
            endRun()
            writer.entry(.priority, at: path, object.priority)
        }
    }

    private mutating func endRun() {
        if run != nil { writer.raw("}]") }
        run = nil
    }

    private mutating func flush() throws {
        endRun()
        if writer.bytes.isEmpty { return }
        writer.raw("]")
        try emit(writer.bytes)
        writer.bytes.removeAll(keepingCapacity: true)
    }
}

extension Node {
    /// Whether the node's text is estimated to have at most so many bytes, escapes not counted. O(bytes)
    fileprivate func isSmall(within bytes: Int) -> Bool {
        var room = bytes
        return fits(&room)
    }

    private func fits(_ room: inout Int) -> Bool {
        switch self {
        case .string(let text): room -= text.utf8Count + 2
        case .prioritized(let leaf): return leaf.leaf.fits(&room) && leaf.priority.fits(&room)
        case .object(let object):
            if !object.priority.fits(&room) { return false }
            for (key, child) in object.children {
                room -= key.text.utf8Count + 4
                guard room >= 0, child.fits(&room) else { return false }
            }
        default: room -= 8
        }
        return room >= 0
    }
}
