public import JSONTree

extension GeoIndex {
    /// A heap entry of a distance search: a cell or a point that the search has reached but not visited.
    struct Reached {
        /// The square of the smallest possible chord to it.
        let chordSquared: Double
        let cell: Int32
        /// The index of the point in the cell; -1 for the cell itself.
        let entry: Int32
    }

    /// Calls `body` with the children within a distance, unordered, until it returns false. O(cells met + children)
    /// - Parameter metres: the distance; nil for no limit.
    public func within(_ metres: Double?, of centre: GeoPoint, _ body: (_ key: Key, _ metres: Double) -> Bool) {
        visit(centre, metres.map { GeoPoint.chordSquared(metres: $0) } ?? .infinity) { entry, chordSquared in
            body(entry.key, GeoPoint.metres(chordSquared: chordSquared))
        }
    }

    /// Calls `body` with the children by distance, then by key, until it returns false. Does not visit farther cells than needed.
    /// - Parameter metres: the maximum distance; nil for no limit.
    public func nearest(to centre: GeoPoint, within metres: Double? = nil, _ body: (_ key: Key, _ metres: Double) -> Bool) {
        nearest(to: centre, within: metres.map { GeoPoint.chordSquared(metres: $0) } ?? .infinity, after: nil) {
            body($0.key, GeoPoint.metres(chordSquared: $0.chordSquared))
        }
    }

    /// The number of children in a circle. Cells entirely within it are not opened. With a grid, the children close to its edge are checked one by
    /// one.
    /// - Parameter most: maximum number of cells and points visited.
    /// - Returns: nil if the maximum is reached.
    public func count(in near: NearQuery, visits most: Int = .max) -> Int? {
        let (sum, isExact) = estimate(in: near, visits: most)
        return isExact ? sum : nil
    }

    /// The same. If the maximum is reached, the remaining cells count as a whole, so `count` is an upper bound.
    public func estimate(in near: NearQuery, visits most: Int) -> (count: Int, isExact: Bool) {
        guard near.metres != nil else { return (count, true) }
        let (centre, inner, outer) = (near.centre, near.innerReach, near.outerReach)
        let last = most < .max - visits ? visits + most : Int.max
        var (sum, isExact) = (0, true)
        // The largest cells first, so that only the smallest make an estimate inexact.
        var (open, at) = (ContiguousArray<Int32>([0]), 0)
        while at < open.count {
            let cell = Int(open[at])
            at += 1
            visits += 1
            guard cells[cell].least(centre) <= outer else { continue }
            if cells[cell].most(centre) <= inner {
                sum += Int(cells[cell].count)
            } else if visits > last {
                sum += Int(cells[cell].count)
                isExact = false
            } else if cells[cell].isLeaf {
                visits += cells[cell].entries.count
                sum += cells[cell].entries.count { near.contains($0.point) }
            } else {
                let children = cells[cell].children
                for i in 0..<8 where children[i] != 0 { open.append(children[i]) }
            }
        }
        return (sum, isExact)
    }

    // MARK: By squared chords

    /// Calls `body` with the points within reach, unordered, until it returns false.
    /// - Parameter most: maximum number of cells and points visited.
    /// - Returns: false if the maximum is reached.
    @discardableResult
    func visit(_ centre: GeoPoint, _ reach: Double, visits most: Int = .max, _ body: (Entry, Double) -> Bool) -> Bool {
        let last = most < .max - visits ? visits + most : Int.max
        var open: ContiguousArray<Int32> = [0]
        while let next = open.popLast() {
            let cell = Int(next)
            visits += 1
            if visits > last { return false }
            guard cells[cell].least(centre) <= reach else { continue }
            if cells[cell].isLeaf {
                let entries = cells[cell].entries
                for entry in entries {
                    visits += 1
                    if visits > last { return false }
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

    /// The distance search. Visits reached cells and points in order of distance, a cell before a point at the same distance.
    /// - Parameters:
    ///   - reach: the square of the maximum chord.
    ///   - place: where to continue; cells that are entirely nearer are not opened.
    ///   - most: maximum number of cells and points visited.
    /// - Returns: false if the maximum is reached. `body` has then seen all children nearer than its last one, and no others.
    @discardableResult
    func nearest(
        to centre: GeoPoint, within reach: Double, after place: ChildPlace?, visits most: Int = .max, _ body: (ChildPlace) -> Bool
    ) -> Bool {
        let last = most < .max - visits ? visits + most : Int.max
        var heap = frontier
        frontier = []
        defer {
            heap.removeAll(keepingCapacity: heap.capacity <= Self.keptFrontier)
            frontier = heap
        }
        if cells[0].count > 0 { push(Reached(chordSquared: 0, cell: 0, entry: -1), &heap) }
        while let next = pop(&heap) {
            let cell = Int(next.cell)
            visits += 1
            if visits > last { return false }
            if next.entry >= 0 {
                let key = cells[cell].entries[Int(next.entry)].key
                if !body(ChildPlace(chordSquared: next.chordSquared, key: key)) { return true }
            } else if cells[cell].isLeaf {
                visits += cells[cell].entries.count
                for i in cells[cell].entries.indices {
                    let chordSquared = cells[cell].entries[i].point.chordSquared(centre)
                    guard chordSquared <= reach else { continue }
                    if let place, chordSquared <= place.chordSquared {
                        if ChildPlace(chordSquared: chordSquared, key: cells[cell].entries[i].key).order(place) <= 0 { continue }
                    }
                    push(Reached(chordSquared: chordSquared, cell: next.cell, entry: Int32(i)), &heap)
                }
            } else {
                let children = cells[cell].children
                for i in 0..<8 where children[i] != 0 {
                    visits += 1
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

    /// A search keeps the heap's memory for the next one up to this capacity.
    private static let keptFrontier = 4_096

    // MARK: Heap

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
    /// The square of the smallest chord from a point to what the cell may contain, less a rounding error of some nanometres.
    @inline(__always)
    func least(_ point: GeoPoint) -> Double {
        let half = half + 1e-15
        let a = max(0, (point.x - x).magnitude - half)
        let b = max(0, (point.y - y).magnitude - half)
        let c = max(0, (point.z - z).magnitude - half)
        return max(a * a + b * b + c * c, cap.least(point))
    }

    /// The square of the largest chord from a point to what the cell may contain, plus the rounding error.
    @inline(__always)
    func most(_ point: GeoPoint) -> Double {
        let a = (point.x - x).magnitude + half
        let b = (point.y - y).magnitude + half
        let c = (point.z - z).magnitude + half
        return min((a * a + b * b + c * c) * (1 + 1e-12), cap.most(point))
    }
}
