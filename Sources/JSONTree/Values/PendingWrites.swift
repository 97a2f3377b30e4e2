/// The writes that are committed when a client disconnects: an ordered sparse set, in which no value lies below another (contract
/// §6.2).
public struct PendingWrites: Sendable, Equatable {
    public private(set) var writes: [TreeWrite] = []

    public init() {}

    public var isEmpty: Bool { writes.isEmpty }

    /// Adds a write. A value replaces all pending writes at and below its place; a priority replaces only the
    /// priority there. Below a pending value the write is merged into that value.
    public mutating func add(_ write: TreeWrite) {
        let above = writes.firstIndex {
            $0.part == .node && $0.path.contains(write.path) && (write.part == .priority || $0.path != write.path)
        }
        if let above {
            writes[above].value.overwrite(write.part, at: write.path.dropping(writes[above].path.depth), with: write.value)
            return
        }
        switch write.part {
        case .node: writes.removeAll { write.path.contains($0.path) }
        case .priority: writes.removeAll { $0.part == .priority && $0.path == write.path }
        }
        writes.append(write)
    }

    /// Removes everything at and below a place, also that part of a value which is pending above it.
    public mutating func cancel(_ path: Path) {
        writes.removeAll { path.contains($0.path) }
        for i in writes.indices where writes[i].path.contains(path) {
            let below = path.dropping(writes[i].path.depth)
            writes[i].value.node.set(.null, at: below)
            writes[i].value.deferred.removeAll { below.contains($0.path) }
        }
    }

    public mutating func takeAll() -> [TreeWrite] {
        defer { writes = [] }
        return writes
    }
}
