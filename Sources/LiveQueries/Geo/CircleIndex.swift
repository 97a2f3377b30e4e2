import JSONTree

/// Live circles by position. Finds those that contain a moved point without visiting the others.
///
/// ```
///   levels of cells around the sphere, each half as wide; a circle is listed in the cells that it meets on the finest level whose
///   cells are as wide as the circle: at most eight, and about three on a sphere
///
///   level 3  │     ○──┐  │        │        a moved point checks one cell of each level in use,
///            ├────────┼──┼────────┤        and measures its distance to the circles listed there
///   level 9  │··◌·····│··│········│
/// ```
/// Insert, remove and move cost O(1), however many circles share a cell. A search costs O(levels in use + circles listed there).
struct CircleIndex {
    private struct Circle {
        let centre: GeoPoint
        /// The square of the chord of the radius; infinite for a circle that covers the sphere.
        let reach: Double
        let slot: Int32
        /// The index of this cell among the circle's cells.
        var corner: Int32 = 0
    }

    /// A circle, with its position in the list of each of its cells.
    private struct Listed {
        let circle: Circle
        var at = SIMD8<Int32>(repeating: 0)
    }

    private var cells: [UInt64: ContiguousArray<Circle>] = [:]
    private var everywhere: ContiguousArray<Circle> = []
    /// Number of circles on each level. `levelsInUse` has a bit for each level with circles.
    private var circles = ContiguousArray<Int>(repeating: 0, count: CircleIndex.levels)
    private var levelsInUse: UInt32 = 0
    private var bySlot: ContiguousArray<Listed?> = []

    /// Cells of the finest level are 97 m wide.
    private static let levels = 19

    /// - Parameters:
    ///   - slot: identifies the circle in `concerned`: a small number, unique among the circles.
    ///   - reach: the square of the chord of the radius; infinite for a circle that covers the sphere.
    mutating func insert(_ slot: Int, at centre: GeoPoint, reach: Double) {
        let circle = Circle(centre: centre, reach: reach, slot: Int32(slot))
        while bySlot.count <= slot { bySlot.append(nil) }
        var listed = Listed(circle: circle)
        defer { bySlot[slot] = listed }
        guard let level = Self.level(reach) else {
            listed.at[0] = Int32(everywhere.count)
            return everywhere.append(circle)
        }
        circles[level] += 1
        levelsInUse |= 1 << UInt32(level)
        var corner = circle
        Self.forEachCell(of: circle, level) { cell in
            listed.at[Int(corner.corner)] = Int32(cells[cell]?.count ?? 0)
            cells[cell, default: []].append(corner)
            corner.corner += 1
        }
    }

    mutating func remove(_ slot: Int) {
        guard slot < bySlot.count, let listed = bySlot[slot] else { return }
        bySlot[slot] = nil
        guard let level = Self.level(listed.circle.reach) else {
            var list: ContiguousArray<Circle> = []
            swap(&list, &everywhere)
            remove(at: Int(listed.at[0]), from: &list)
            everywhere = list
            return
        }
        circles[level] -= 1
        if circles[level] == 0 { levelsInUse &= ~(1 << UInt32(level)) }
        var corner = 0
        Self.forEachCell(of: listed.circle, level) { cell in
            let at = Int(listed.at[corner])
            corner += 1
            // Take the list out of the dictionary while changing it, so that it is not copied.
            guard let index = cells.index(forKey: cell) else { return }
            var list: ContiguousArray<Circle> = []
            swap(&list, &cells.values[index])
            remove(at: at, from: &list)
            if list.isEmpty { cells.remove(at: index) } else { cells.values[index] = list }
        }
    }

    /// Fills a freed position with the list's last circle.
    private mutating func remove(at: Int, from list: inout ContiguousArray<Circle>) {
        let last = list.removeLast()
        guard at < list.count else { return }
        list[at] = last
        bySlot[Int(last.slot)]?.at[Int(last.corner)] = Int32(at)
    }

    /// Calls `body` once with each circle that contains the old or the new point, and with the squared chords to both.
    /// - Parameters: nil for a point that does not exist; its chord is then infinite.
    /// - Returns: the number of measured distances.
    @discardableResult
    func concerned(old: GeoPoint?, new: GeoPoint?, _ body: (_ slot: Int, _ old: Double, _ new: Double) -> Void) -> Int {
        var measured = everywhere.count
        report(everywhere, old, new, old: true, new: true, body)
        var left = levelsInUse
        while left != 0 {
            let level = left.trailingZeroBitCount
            left &= left - 1
            let before = old.map { Self.cell($0, level) }
            let after = new.map { Self.cell($0, level) }
            if let before, let list = cells[before] {
                measured += list.count
                report(list, old, new, old: true, new: before == after, body)
            }
            if let after, before != after, let list = cells[after] {
                measured += list.count
                report(list, old, new, old: false, new: true, body)
            }
        }
        return measured
    }

    /// - Parameters:
    ///   - hadPoint: report circles that contained the old point.
    ///   - hasPoint: report circles that contain the new point but not the old one.
    @inline(__always)
    private func report(
        _ list: ContiguousArray<Circle>, _ old: GeoPoint?, _ new: GeoPoint?, old hadPoint: Bool, new hasPoint: Bool,
        _ body: (Int, Double, Double) -> Void
    ) {
        list.withUnsafeBufferPointer { list in
            for circle in list {
                let before = old.map { $0.chordSquared(circle.centre) } ?? .infinity
                let after = new.map { $0.chordSquared(circle.centre) } ?? .infinity
                let contained = old != nil && before <= circle.reach
                if contained ? hadPoint : hasPoint && new != nil && after <= circle.reach { body(Int(circle.slot), before, after) }
            }
        }
    }

    /// The number of circles that a search at a point measures.
    func listed(at point: GeoPoint) -> Int {
        (0..<Self.levels).reduce(everywhere.count) { $0 + (cells[Self.cell(point, $1)]?.count ?? 0) }
    }

    // MARK: Cells

    /// The finest level whose cells are as wide as a circle; nil for a circle that covers the sphere.
    private static func level(_ reach: Double) -> Int? {
        guard reach < 4 else { return nil }
        // The cell edge on level n is 4 / 2^n. It is slightly wider than the circle, so the circle never meets three cells in a row.
        return min(levels - 1, max(0, Int((2 / (reach.squareRoot() + 1e-9)).exponent)))
    }

    /// A cell's id: its level, and its position along each axis.
    @inline(__always)
    private static func number(_ level: Int, _ x: Int, _ y: Int, _ z: Int) -> UInt64 {
        UInt64(level) << 57 | UInt64(x) << 38 | UInt64(y) << 19 | UInt64(z)
    }

    @inline(__always)
    private static func along(_ value: Double, _ level: Int) -> Int {
        Int((min(1, max(-1, value)) + 1) * Double(1 << level) / 4)
    }

    @inline(__always)
    private static func cell(_ point: GeoPoint, _ level: Int) -> UInt64 {
        number(level, along(point.x, level), along(point.y, level), along(point.z, level))
    }

    private static func forEachCell(of circle: Circle, _ level: Int, _ body: (UInt64) -> Void) {
        // Widened by what rounding may take away.
        let radius = circle.reach.squareRoot() + 1e-12
        let centre = circle.centre
        let (x, y, z) = (along(centre.x - radius, level), along(centre.y - radius, level), along(centre.z - radius, level))
        let (maxX, maxY, maxZ) = (along(centre.x + radius, level), along(centre.y + radius, level), along(centre.z + radius, level))
        // With ranges instead of counters, swiftc 6.3.1 -O drops level, x and y from the last cell of each row.
        var (i, j, k) = (x, y, z)
        while i <= maxX {
            body(number(level, i, j, k))
            k += 1
            if k <= maxZ { continue }
            (j, k) = (j + 1, z)
            if j <= maxY { continue }
            (i, j) = (i + 1, y)
        }
    }
}
