public import JSONTree

/// A child's place in the order of distances: first by distance, then by key.
struct NearPlace: Sendable {
    /// The square of the chord.
    let chordSquared: Double
    let key: Key

    /// Negative, zero or positive as this comes before, is, or comes after the other.
    @inline(__always)
    func order(_ other: NearPlace) -> Int {
        if chordSquared != other.chordSquared { return chordSquared < other.chordSquared ? -1 : 1 }
        return key == other.key ? 0 : (key < other.key ? -1 : 1)
    }
}

extension GeoIndex {
    /// What a search by distance has reached and not looked at: a cell, or a point of one.
    struct Reached {
        /// The least that the distance can be.
        let chordSquared: Double
        let cell: Int32
        /// The index of the point in the cell; -1 for the cell itself.
        let entry: Int32
    }

    /// Calls `body` with the children within a distance, in no order, until it returns false. O(cells met + children)
    /// - Parameter metres: the distance; nil for all.
    public func within(_ metres: Double?, of centre: GeoPoint, _ body: (_ key: Key, _ metres: Double) -> Bool) {
        visit(centre, metres.map { GeoPoint.chordSquared(metres: $0) } ?? .infinity) { entry, chordSquared in
            body(entry.key, GeoPoint.metres(chordSquared: chordSquared))
        }
    }

    /// Calls `body` with the children in the order of their distance, then of their keys, until it returns false. Children that are
    /// not asked for are not looked at, as far as their cells are farther.
    /// - Parameter metres: the distance at which it ends; nil for none.
    public func nearest(to centre: GeoPoint, within metres: Double? = nil, _ body: (_ key: Key, _ metres: Double) -> Bool) {
        nearest(to: centre, within: metres.map { GeoPoint.chordSquared(metres: $0) } ?? .infinity, after: nil) {
            body($0.key, GeoPoint.metres(chordSquared: $0.chordSquared))
        }
    }

    /// How many children a circle counts. Cells that are within it as a whole are not opened; with a grid the children close to its edge
    /// are looked at one by one.
    /// - Parameter most: cells and points that may be looked at.
    /// - Returns: nil where that is not enough.
    public func count(in near: NearQuery, looks most: Int = .max) -> Int? {
        let (sum, isExact) = estimate(in: near, looks: most)
        return isExact ? sum : nil
    }

    /// The same; where that is not enough, the cells that are left are counted as a whole: as many children as that, or fewer.
    public func estimate(in near: NearQuery, looks most: Int) -> (count: Int, isExact: Bool) {
        guard near.metres != nil else { return (count, true) }
        let (centre, inner, outer) = (near.centre, near.innerReach, near.outerReach)
        let last = most < .max - looks ? looks + most : Int.max
        var (sum, isExact) = (0, true)
        // The largest cells first, so that an estimate is wrong by the smallest.
        var (open, at) = (ContiguousArray<Int32>([0]), 0)
        while at < open.count {
            let cell = Int(open[at])
            at += 1
            looks += 1
            guard cells[cell].least(centre) <= outer else { continue }
            if cells[cell].most(centre) <= inner {
                sum += Int(cells[cell].count)
            } else if looks > last {
                sum += Int(cells[cell].count)
                isExact = false
            } else if cells[cell].isLeaf {
                looks += cells[cell].entries.count
                sum += cells[cell].entries.count { near.contains($0.point) }
            } else {
                let children = cells[cell].children
                for i in 0..<8 where children[i] != 0 { open.append(children[i]) }
            }
        }
        return (sum, isExact)
    }

    // MARK: In squares of chords

    /// Calls `body` with the points within reach, in no order, until it returns false.
    /// - Parameter most: cells and points that may be looked at.
    /// - Returns: false where that was not enough.
    @discardableResult
    func visit(_ centre: GeoPoint, _ reach: Double, looks most: Int = .max, _ body: (Entry, Double) -> Bool) -> Bool {
        let last = most < .max - looks ? looks + most : Int.max
        var open: ContiguousArray<Int32> = [0]
        while let next = open.popLast() {
            let cell = Int(next)
            looks += 1
            if looks > last { return false }
            guard cells[cell].least(centre) <= reach else { continue }
            if cells[cell].isLeaf {
                let entries = cells[cell].entries
                for entry in entries {
                    looks += 1
                    if looks > last { return false }
                    let chordSquared = entry.point.chordSquared(centre)
                    if chordSquared <= reach, !body(entry, chordSquared) { return true }
                }
            } else {
                let children = cells[cell].children
                for i in (0..<8).reversed() where children[i] != 0 { open.append(children[i]) }
            }
        }
        return true
    }

    /// The search by distance: of what was reached the nearest comes first, and a cell before a point that is as far.
    /// - Parameters:
    ///   - reach: the square of the chord at which it ends.
    ///   - place: where to continue behind; cells that are nearer as a whole are not opened.
    ///   - most: cells and points that may be looked at.
    /// - Returns: false where that was not enough: all that are nearer than the last one were found, and no others.
    @discardableResult
    func nearest(
        to centre: GeoPoint, within reach: Double, after place: NearPlace?, looks most: Int = .max, _ body: (NearPlace) -> Bool
    ) -> Bool {
        let last = most < .max - looks ? looks + most : Int.max
        var heap = frontier
        frontier = []
        defer {
            heap.removeAll(keepingCapacity: heap.capacity <= Self.keptFrontier)
            frontier = heap
        }
        if cells[0].count > 0 { push(Reached(chordSquared: 0, cell: 0, entry: -1), &heap) }
        while let next = pop(&heap) {
            let cell = Int(next.cell)
            looks += 1
            if looks > last { return false }
            if next.entry >= 0 {
                let key = cells[cell].entries[Int(next.entry)].key
                if !body(NearPlace(chordSquared: next.chordSquared, key: key)) { return true }
            } else if cells[cell].isLeaf {
                looks += cells[cell].entries.count
                for i in cells[cell].entries.indices {
                    let chordSquared = cells[cell].entries[i].point.chordSquared(centre)
                    guard chordSquared <= reach else { continue }
                    if let place, chordSquared <= place.chordSquared {
                        if NearPlace(chordSquared: chordSquared, key: cells[cell].entries[i].key).order(place) <= 0 { continue }
                    }
                    push(Reached(chordSquared: chordSquared, cell: next.cell, entry: Int32(i)), &heap)
                }
            } else {
                let children = cells[cell].children
                for i in 0..<8 where children[i] != 0 {
                    looks += 1
                    let child = Int(children[i])
                    let least = cells[child].least(centre)
                    guard least <= reach else { continue }
                    if let place, cells[child].most(centre) < place.chordSquared { continue }
                    push(Reached(chordSquared: least, cell: children[i], entry: -1), &heap)
                }
            }
        }
        return true
    }

    /// Cells and points for which a search leaves its memory to the next one.
    private static let keptFrontier = 4_096

    // MARK: The heap

    @inline(__always)
    private func isBefore(_ a: Reached, _ b: Reached) -> Bool {
        if a.chordSquared != b.chordSquared { return a.chordSquared < b.chordSquared }
        if a.entry < 0 || b.entry < 0 { return a.entry < b.entry }
        return cells[Int(a.cell)].entries[Int(a.entry)].key < cells[Int(b.cell)].entries[Int(b.entry)].key
    }

    private func push(_ item: Reached, _ heap: inout ContiguousArray<Reached>) {
        heap.append(item)
        var i = heap.count - 1
        while i > 0 {
            let parent = (i - 1) / 2
            guard isBefore(item, heap[parent]) else { break }
            heap[i] = heap[parent]
            i = parent
        }
        heap[i] = item
    }

    private func pop(_ heap: inout ContiguousArray<Reached>) -> Reached? {
        guard let first = heap.first else { return nil }
        let item = heap.removeLast()
        let count = heap.count
        if count == 0 { return first }
        var i = 0
        while true {
            var child = 2 * i + 1
            if child >= count { break }
            if child + 1 < count, isBefore(heap[child + 1], heap[child]) { child += 1 }
            guard isBefore(heap[child], item) else { break }
            heap[i] = heap[child]
            i = child
        }
        heap[i] = item
        return first
    }
}

extension GeoIndex.Cell {
    /// The square of the least distance of a point to what the cell may hold, less what rounding may add: some nanometres.
    @inline(__always)
    func least(_ point: GeoPoint) -> Double {
        let half = half + 1e-15
        let a = max(0, (point.x - x).magnitude - half)
        let b = max(0, (point.y - y).magnitude - half)
        let c = max(0, (point.z - z).magnitude - half)
        return max(a * a + b * b + c * c, cap.least(point))
    }

    /// The square of the greatest distance of a point to what the cell may hold, raised by what rounding may take away.
    @inline(__always)
    func most(_ point: GeoPoint) -> Double {
        let a = (point.x - x).magnitude + half
        let b = (point.y - y).magnitude + half
        let c = (point.z - z).magnitude + half
        return min((a * a + b * b + c * c) * (1 + 1e-12), cap.most(point))
    }
}
