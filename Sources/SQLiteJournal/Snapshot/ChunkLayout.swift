import Journal
import JSONTree

/// The chunks of a snapshot in tree order, and which of them are out of date.
///
///     places     /      /posts/k7      /posts/p2      /users/b
///     chunks     ├─ 17 ─┼──── 18 ──────┼──── 93 ──────┼─ 20 ──►
///     changed                            ●
///
/// A chunk covers the places from its own to the next chunk's. Places are in pre-order.
struct ChunkLayout: Sendable {
    /// A stored chunk.
    struct Part: Sendable, Equatable {
        /// The first place that it covers; the first chunk's counts as the root.
        var start: Path
        var chunk: StoredChunk
    }

    private(set) var parts: [Part]
    /// For each chunk, whether its places have changed since it was written.
    private(set) var isChanged: [Bool]
    /// Changes recorded while no chunks exist yet, for the chunks of the snapshot in progress.
    private var unplaced: [Change] = []
    /// Too many changes to remember: all chunks count as changed.
    private var hasLostTrack = false
    private static let maxUnplaced = 100_000

    /// The places that an operation may have changed.
    private enum Change {
        /// The place and all below it.
        case below(Path, isRemoval: Bool)
        case priority(Path)
    }

    init(_ parts: [Part] = []) {
        self.parts = parts
        isChanged = Array(repeating: false, count: parts.count)
    }

    /// Records an operation. O(depth · log chunks), plus the chunks below its place.
    mutating func record(_ operation: JournalOperation) {
        switch operation {
        case .set(let path, let node): record(.below(path, isRemoval: node.isNull))
        case .add(let path, _): record(.below(path, isRemoval: false))
        case .priority(let path, _): record(.priority(path))
        case .pending, .written, .pendingRows, .open, .peer, .delivery, .watch: break
        }
    }

    private mutating func record(_ change: Change) {
        guard !parts.isEmpty else {
            if unplaced.count < Self.maxUnplaced { unplaced.append(change) } else { hasLostTrack = true }
            return
        }
        switch change {
        case .below(let path, let isRemoval):
            for i in index(of: path)...last(below: path) { isChanged[i] = true }
            // An object that loses its last child is removed together with its priority, which is stored in its last chunk.
            if isRemoval { for depth in 0..<path.depth { isChanged[last(below: Path(path.keys.prefix(depth)))] = true } }
        case .priority(let path):
            isChanged[index(of: path)] = true
            isChanged[last(below: path)] = true
        }
    }

    /// Adds the changes recorded by another layout of the same chunks.
    mutating func join(_ other: ChunkLayout) {
        if parts.isEmpty {
            for change in other.unplaced { record(change) }
            if other.hasLostTrack { hasLostTrack = true }
        }
        for i in isChanged.indices where other.isChanged[i] { isChanged[i] = true }
    }

    /// Adds the changes recorded by another layout of the same tree.
    mutating func recordChanges(of other: ChunkLayout) {
        for change in other.unplaced { record(change) }
        if parts.isEmpty { return }
        if other.hasLostTrack { for i in isChanged.indices { isChanged[i] = true } }
        for i in other.parts.indices where other.isChanged[i] {
            var last = parts.count - 1
            if i + 1 < other.parts.count {
                let end = other.parts[i + 1].start
                last = max(0, firstIndex { !($0 < end) } - 1)
            }
            let first = i == 0 ? 0 : index(of: other.parts[i].start)
            for k in first...max(first, last) { isChanged[k] = true }
        }
    }

    /// The chunk that covers a place.
    private func index(of place: Path) -> Int { max(0, firstIndex { place < $0 } - 1) }

    /// The last chunk that covers something at or below a place.
    private func last(below place: Path) -> Int { max(0, firstIndex { place < $0 && !place.contains($0) } - 1) }

    /// The first chunk whose start satisfies a condition that holds for all later chunks, too.
    private func firstIndex(where isBehind: (Path) -> Bool) -> Int {
        var (low, high) = (0, parts.count)
        while low < high {
            let middle = (low + high) / 2
            if isBehind(parts[middle].start) { high = middle } else { low = middle + 1 }
        }
        return low
    }

    /// Bytes of the stored chunks that have changed. O(chunks)
    var changedBytes: Int { parts.indices.reduce(0) { $0 + (isChanged[$1] ? parts[$1].chunk.bytes : 0) } }

    /// Clears the recorded changes.
    mutating func settle() { self = ChunkLayout(parts) }

    /// The sections of a new snapshot: chunks that are kept, and parts of the tree to be written.
    enum Section: Sendable {
        case kept(Part)
        case written(from: Path, to: Path?)
    }

    /// - Parameter smallBytes: unchanged chunks below this size are rewritten together with a changed neighbour, so that small ones do not
    ///   accumulate.
    func sections(joining smallBytes: Int) -> [Section] {
        if parts.isEmpty { return [.written(from: .root, to: nil)] }
        var sections: [Section] = []
        var i = 0
        while i < parts.count {
            guard isChanged[i] else {
                sections.append(.kept(parts[i]))
                i += 1
                continue
            }
            let start = i == 0 ? .root : parts[i].start
            while i < parts.count, isChanged[i] || parts[i].chunk.bytes < smallBytes { i += 1 }
            sections.append(.written(from: start, to: i < parts.count ? parts[i].start : nil))
        }
        return sections
    }
}

/// A row of the chunk table.
struct StoredChunk: Sendable, Equatable {
    var id: Int64
    var bytes: Int
    /// Checksum of the entries.
    var checksum: UInt32

    static func checksum(_ bytes: UnsafeRawBufferPointer) -> UInt32 {
        var crc = CRC32()
        crc.add(bytes)
        return crc.value
    }
}

extension ChunkLayout {
    /// Restores the changes that were recorded before a failed snapshot; the chunks are the same.
    mutating func restore(_ before: ChunkLayout) {
        for i in isChanged.indices where i < before.isChanged.count && before.isChanged[i] { isChanged[i] = true }
    }
}
