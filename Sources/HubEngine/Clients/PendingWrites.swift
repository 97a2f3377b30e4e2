import JSONTree

/// The writes that fire when a client is gone: an ordered sparse set (contract §6.2).
struct PendingWrites {
    private(set) var writes: [TreeWrite] = []

    /// Replaces what the write overwrites: for a value whatever was pending at or below its place, for a priority only the
    /// priority there. Something pending above it stays and is applied first.
    mutating func add(_ write: TreeWrite) {
        switch write.part {
        case .node: writes.removeAll { write.path.contains($0.path) }
        case .priority: writes.removeAll { $0.part == .priority && $0.path == write.path }
        }
        writes.append(write)
    }

    /// Forgets everything at and below a place, also that part of a value which is pending above it.
    mutating func cancel(_ path: Path) {
        writes.removeAll { path.contains($0.path) }
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
