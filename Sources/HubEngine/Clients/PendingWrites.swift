import JSONTree

/// The writes that fire when a client is gone: an ordered sparse set (contract §6.2).
struct PendingWrites {
    private(set) var writes: [TreeWrite] = []

    /// Replaces whatever was pending at or below the write's place; something pending above it stays and is applied first.
    mutating func add(_ write: TreeWrite) {
        forget(at: write.path, keepingAncestors: true)
        writes.append(write)
    }

    /// Forgets everything at and below a place, also that part of a value which is pending above it.
    mutating func cancel(_ path: Path) { forget(at: path, keepingAncestors: false) }

    private mutating func forget(at path: Path, keepingAncestors: Bool) {
        writes.removeAll { path.contains($0.path) }
        guard !keepingAncestors else { return }
        for i in writes.indices where writes[i].path.contains(path) {
            let below = path.dropping(writes[i].path.depth)
            writes[i].value.node.set(.null, at: below)
            writes[i].value.deferred.removeAll { below.contains($0.path) }
        }
    }

    mutating func takeAll() -> [TreeWrite] {
        defer { writes = [] }
        return writes
    }
}
