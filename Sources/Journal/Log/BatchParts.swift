import JSONTree

/// Cuts a batch into the rows in which it is stored: one for nearly all, several for a batch of many bytes, so that no
/// write is too large to be stored and none is in memory twice.
///
///     set /posts {1 GB}   ──►   [["s","posts",true]]  [["a","posts",{…}]]  [["a","posts",{…}]]  …
struct BatchParts {
    /// From so many bytes on a row is full.
    var fullBytes = 1 << 20
    /// A node that is estimated to have more is cut into members.
    var largeBytes = 4 << 20

    /// Hands the rows to `emit` in order, at least one.
    func write(_ operations: [JournalOperation], emit: ([UInt8], _ isLast: Bool) throws -> Void) rethrows {
        var writer = JSONWriter(reservingCapacity: 64 + min(operations.count, 4096) * 128)
        for operation in operations {
            if writer.bytes.count >= fullBytes { try emit(Self.taken(&writer), false) }
            guard let (path, node) = operation.large(than: largeBytes) else {
                writer.entry(operation)
                continue
            }
            // A placeholder takes the place of what was there; null would take an object around it along.
            if case .set = operation { writer.entry(.set, at: path, true) }
            try emit(Self.taken(&writer), false)
            var next: Path? = path
            // A tree of its own, so that its places are those of the whole.
            var tree = Node.null
            tree.set(node, at: path)
            while let start = next {
                var encoder = ChunkEncoder(tree, sizes: ChunkSizes(full: fullBytes, member: fullBytes / 4))
                next = encoder.encode(from: start, to: nil)
                try emit(encoder.bytes, false)
            }
        }
        try emit(Self.taken(&writer), true)
    }

    private static func taken(_ writer: inout JSONWriter) -> [UInt8] {
        defer { writer.bytes.removeAll(keepingCapacity: true) }
        if writer.bytes.isEmpty { return Array("[]".utf8) }
        writer.raw("]")
        return writer.bytes
    }
}

extension JournalOperation {
    /// The place and node of an operation that is to be cut.
    fileprivate func large(than bytes: Int) -> (Path, Node)? {
        switch self {
        case .set(let path, let node), .add(let path, let node): node.hasChildren && !node.isSmall(within: bytes) ? (path, node) : nil
        case .priority, .pending: nil
        }
    }
}
