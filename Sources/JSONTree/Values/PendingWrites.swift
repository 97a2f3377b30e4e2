/// The writes committed when a client disconnects: an ordered sparse set, in which no value lies below another (contract §6.2).
public struct PendingWrites: Sendable, Equatable {
    public private(set) var writes: [TreeWrite] = []
    /// For each write, the hashes of the root, of each place on its path and of the place itself. So two places compare by one number: a client
    /// may have a thousand writes, all at one depth.
    private var places: [[Int32]] = []

    public init() {}

    public static func == (a: PendingWrites, b: PendingWrites) -> Bool { a.writes == b.writes }

    public var isEmpty: Bool { writes.isEmpty }

    /// Adds a write. A value replaces all pending writes at and below its place; a priority replaces only the priority there. A write below a
    /// pending value is merged into that value. O(depth + pending writes)
    public mutating func add(_ write: TreeWrite) {
        let place = Self.hashes(write.path)
        let above = writes.indices.first { i in
            Self.mayContain(places[i], place) && writes[i].part == .node && writes[i].path.contains(write.path)
                && (write.part == .priority || writes[i].path != write.path)
        }
        if let above {
            writes[above].value.overwrite(write.part, at: write.path.dropping(writes[above].path.depth), with: write.value)
            return
        }
        let replaced = writes.indices.filter { i in
            guard Self.mayContain(place, places[i]), write.path.contains(writes[i].path) else { return false }
            return write.part == .node || (writes[i].part == .priority && writes[i].path == write.path)
        }
        remove(replaced)
        writes.append(write)
        places.append(place)
    }

    /// Cancels everything at and below a place, including that part of a value pending above it.
    public mutating func cancel(_ path: Path) {
        remove(writes.indices.filter { path.contains(writes[$0].path) })
        for i in writes.indices where writes[i].path.contains(path) {
            let below = path.dropping(writes[i].path.depth)
            writes[i].value.node.set(.null, at: below)
            writes[i].value.deferred.removeAll { below.contains($0.path) }
        }
    }

    /// Removes the writes at these ascending indices.
    private mutating func remove(_ indices: [Int]) {
        for i in indices.reversed() {
            writes.remove(at: i)
            places.remove(at: i)
        }
    }

    private static func hashes(_ path: Path) -> [Int32] {
        var hasher = Hasher()
        return [0] + path.keys.map { key in
            hasher.combine(key)
            // Finalize a copy, as the next key is added to this hasher.
            let soFar = hasher
            return Int32(truncatingIfNeeded: soFar.finalize())
        }
    }

    /// Whether one place may be at or above the other.
    private static func mayContain(_ place: [Int32], _ other: [Int32]) -> Bool {
        place.count <= other.count && place[place.count - 1] == other[place.count - 1]
    }

    public mutating func takeAll() -> [TreeWrite] {
        defer { (writes, places) = ([], []) }
        return writes
    }
}
