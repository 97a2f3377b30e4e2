public import JSONTree

/// An index of the children of a place that have a position. Insert, remove and move in O(log n); search by distance.
///
/// ```
/// cube around the sphere            cells with more than 32 points are split into eight; the sphere meets about four of them,
///   ┌───────┬───────┐                 so the tree is as deep as a quadtree. Cells with an edge of 12 mm are split by the hash of
///   │   ┌─┬─┤       │                 the key, so that a thousand children at one address are found as fast.
///   │   ├─┼─┤  ···  │
///   ├───┴─┴─┼───────┤                 cell  centre │ children, or entries: vector, key │ points at and below
///   │  ···  │  ···  │
///   └───────┴───────┘
/// ```
/// Why cells of vectors and not of degrees: a bound for the distance to a cube takes three subtractions, and is right at the poles and across the
/// antimeridian. docs/fast-paths.md compares this with a grid.
///
/// Used by one queue at a time: built in the background, then confined to the database queue. A long search on another thread gets a `snapshot`.
public final class GeoIndex: @unchecked Sendable {
    // Sendable: the builder hands it over as a whole, and two queues never use it at once.

    struct Entry {
        var point: GeoPoint
        let key: Key
    }

    struct Cell {
        let x: Double
        let y: Double
        let z: Double
        /// Half of its edge length.
        let half: Double
        let depth: Int32
        var isLeaf = true
        /// Number of points at and below it.
        var count: Int32 = 0
        /// Indexes of the child cells; 0 for none.
        var children = SIMD8<Int32>(repeating: 0)
        var entries: ContiguousArray<Entry> = []
        let cap: SphereCap

        init(x: Double, y: Double, z: Double, half: Double, depth: Int32) {
            (self.x, self.y, self.z, self.half, self.depth) = (x, y, z, half, depth)
            cap = SphereCap(x, y, z, half)
        }
    }

    public let fields: GeoFields
    var cells = CellPages()
    /// Number of cells and points that searches have visited so far. Their cost is about 50 ns each.
    public internal(set) var visits = 0
    /// Number of children that searches have evaluated conditions on so far.
    var asked = 0
    private var free: ContiguousArray<Int> = []
    /// The search heap, kept between searches for its memory.
    var frontier: ContiguousArray<Reached> = []

    /// A cell with more than `capacity` points is split; cells are joined at `joined` points. Measured for capacities of 16, 32 and 64: a search
    /// differs by a tenth, and a point takes 165, 149 and 145 bytes.
    static let capacity = 32
    static let joined = 12
    /// From this depth on, where a cell's edge is 12 mm, cells are split by the hash of the key.
    static let finest: Int32 = 30
    /// A hash has no more levels of three bits.
    static let deepest: Int32 = 50

    /// An empty index.
    public init(_ fields: GeoFields) {
        self.fields = fields
        cells.append(Cell(x: 0, y: 0, z: 0, half: 1, depth: 0))
    }

    /// The index of a place's children. O(n log n)
    public convenience init(_ fields: GeoFields, of place: Node) {
        self.init(fields)
        for (key, child) in place.children { if let point = fields.point(of: child) { insert(key, at: point) } }
    }

    private init(of other: GeoIndex) {
        fields = other.fields
        cells = other.cells
    }

    /// A copy of the current points for searches on another thread. O(1); the next change copies the pages that it writes.
    public func snapshot() -> GeoIndex { GeoIndex(of: self) }

    /// Number of children that have a position.
    public var count: Int { Int(cells[0].count) }

    // MARK: Updating

    /// Applies the change of one child; null where it does not exist. O(log n)
    public func move(_ key: Key, old: Node, new: Node) { move(key, from: fields.point(of: old), to: fields.point(of: new)) }

    /// The same by positions; nil where it has none.
    func move(_ key: Key, from old: GeoPoint?, to new: GeoPoint?) {
        if old == new { return }
        if let old, let new {
            let leaf = self.leaf(at: old, key)
            // Most moves stay within a cell.
            if leaf == self.leaf(at: new, key), let at = cells[leaf].entries.firstIndex(where: { $0.key == key }) {
                return cells[leaf].entries[at].point = new
            }
        }
        if let old { remove(key, at: old) }
        if let new { insert(key, at: new) }
    }

    /// Updates an index of `old` to `new`, another state of the same place.
    /// - Parameter most: as for `ChildMap.changes(since:atMost:)`.
    /// - Returns: false, with the index unchanged, if more than `most` differs.
    public func follow(from old: Node, to new: Node, atMost most: Int) -> Bool {
        if old.isIdentical(to: new) { return true }
        guard let changes = new.children.changes(since: old.children, atMost: most) else { return false }
        for change in changes { move(change.key, old: change.old ?? .null, new: change.new ?? .null) }
        return true
    }

    // MARK: Cells

    /// The index (0…7) of the child cell that a point belongs to.
    @inline(__always)
    private func child(of cell: Int, _ point: GeoPoint, _ key: Key) -> Int {
        let depth = cells[cell].depth
        if depth >= Self.finest { return (key.hashValue >> (3 * Int(depth - Self.finest))) & 7 }
        return (point.x >= cells[cell].x ? 1 : 0) | (point.y >= cells[cell].y ? 2 : 0) | (point.z >= cells[cell].z ? 4 : 0)
    }

    /// The leaf that contains a point; -1 if no leaf exists yet.
    private func leaf(at point: GeoPoint, _ key: Key) -> Int {
        var cell = 0
        while !cells[cell].isLeaf {
            cell = Int(cells[cell].children[child(of: cell, point, key)])
            if cell == 0 { return -1 }
        }
        return cell
    }

    /// Precondition: the child is not indexed.
    func insert(_ key: Key, at point: GeoPoint) {
        var cell = 0
        while true {
            cells[cell].count += 1
            if cells[cell].isLeaf { break }
            cell = below(cell, child(of: cell, point, key))
        }
        cells[cell].entries.append(Entry(point: point, key: key))
        while cells[cell].entries.count > Self.capacity, cells[cell].depth < Self.deepest { cell = split(cell) }
    }

    /// The child cell at an index; created if missing.
    private func below(_ cell: Int, _ i: Int) -> Int {
        let known = Int(cells[cell].children[i])
        if known != 0 { return known }
        let parent = cells[cell]
        let half = parent.depth >= Self.finest ? parent.half : parent.half / 2
        let step = parent.depth >= Self.finest ? 0 : half
        let new = Cell(
            x: parent.x + (i & 1 == 0 ? -step : step), y: parent.y + (i & 2 == 0 ? -step : step),
            z: parent.z + (i & 4 == 0 ? -step : step), half: half, depth: parent.depth + 1)
        let at = free.popLast() ?? cells.count
        if at == cells.count { cells.append(new) } else { cells[at] = new }
        cells[cell].children[i] = Int32(at)
        return at
    }

    /// Moves the points of a leaf into child cells.
    /// - Returns: the fullest child cell.
    private func split(_ cell: Int) -> Int {
        let entries = cells[cell].entries
        cells[cell].entries = []
        cells[cell].isLeaf = false
        var fullest = 0
        for entry in entries {
            let child = below(cell, child(of: cell, entry.point, entry.key))
            cells[child].entries.append(entry)
            cells[child].count += 1
            if cells[child].count > cells[fullest].count || fullest == 0 { fullest = child }
        }
        return fullest
    }

    /// Removes a child; no effect if it is missing.
    /// - Parameter point: the point at which it was inserted.
    func remove(_ key: Key, at point: GeoPoint) {
        let leaf = leaf(at: point, key)
        guard leaf >= 0, let at = cells[leaf].entries.firstIndex(where: { $0.key == key }) else { return }
        cells[leaf].entries.swapAt(at, cells[leaf].entries.count - 1)
        cells[leaf].entries.removeLast()
        var cell = 0
        var joins: Int?
        while true {
            cells[cell].count -= 1
            if cells[cell].isLeaf { break }
            if joins == nil, cells[cell].count <= Self.joined { joins = cell }
            let i = child(of: cell, point, key)
            let next = Int(cells[cell].children[i])
            if cells[next].count == 1 {
                // No points are left below.
                release(next)
                cells[cell].children[i] = 0
                break
            }
            cell = next
        }
        if let joins { join(joins) }
    }

    /// Turns a cell with few points below it into a leaf.
    private func join(_ cell: Int) {
        var entries: ContiguousArray<Entry> = []
        collect(cell, &entries)
        for i in 0..<8 where cells[cell].children[i] != 0 { release(Int(cells[cell].children[i])) }
        cells[cell].children = SIMD8(repeating: 0)
        cells[cell].isLeaf = true
        cells[cell].entries = entries
    }

    private func collect(_ cell: Int, _ entries: inout ContiguousArray<Entry>) {
        entries.append(contentsOf: cells[cell].entries)
        for i in 0..<8 where cells[cell].children[i] != 0 { collect(Int(cells[cell].children[i]), &entries) }
    }

    private func release(_ cell: Int) {
        for i in 0..<8 where cells[cell].children[i] != 0 { release(Int(cells[cell].children[i])) }
        cells[cell].entries = []
        free.append(cell)
    }
}
