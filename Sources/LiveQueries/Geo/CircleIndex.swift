import JSONTree

/// Live circles by where they are, to find those that contain a point which has moved, without a look at the others.
///
/// ```
///   levels of cells around the sphere, each half as wide; a circle is listed in the cells that it meets, of the last level whose
///   cells are as wide as the circle: at most eight, and some three on a sphere
///
///   level 3  │     ○──┐  │        │        a point looks into one cell of each level that is in use,
///            ├────────┼──┼────────┤        and measures its distance to what is listed there
///   level 9  │··◌·····│··│········│
/// ```
/// Insert, remove and move cost O(1), however many circles share a cell; a look O(levels in use + circles listed there).
struct CircleIndex {
    private struct Circle {
        let centre: GeoPoint
        /// The square of the chord that belongs to the radius; infinite for everywhere.
        let reach: Double
        let slot: Int32
        /// Which of the circle's cells this is.
        var corner: Int32 = 0
    }

    /// A circle, and where it is in the list of each of its cells.
    private struct Listed {
        let circle: Circle
        var at = SIMD8<Int32>(repeating: 0)
    }

    private var cells: [UInt64: ContiguousArray<Circle>] = [:]
    private var everywhere: ContiguousArray<Circle> = []
    /// How many circles there are of each level, and a bit for each in use.
    private var circles = ContiguousArray<Int>(repeating: 0, count: CircleIndex.levels)
    private var levelsInUse: UInt32 = 0
    private var bySlot: ContiguousArray<Listed?> = []

    /// Cells of the last level are 97 m wide.
    private static let levels = 19

    /// - Parameters:
    ///   - slot: what `concerned` calls the circle: a small number that no other one has.
    ///   - reach: the square of the chord that belongs to the radius; infinite for everywhere.
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
            // Taken out of the table while it is changed, so that it is not copied.
            guard let index = cells.index(forKey: cell) else { return }
            var list: ContiguousArray<Circle> = []
            swap(&list, &cells.values[index])
            remove(at: at, from: &list)
            if list.isEmpty { cells.remove(at: index) } else { cells.values[index] = list }
        }
    }

    /// Puts the last one of a list in the place of another.
    private mutating func remove(at: Int, from list: inout ContiguousArray<Circle>) {
        let last = list.removeLast()
        guard at < list.count else { return }
        list[at] = last
        bySlot[Int(last.slot)]?.at[Int(last.corner)] = Int32(at)
    }

    /// Calls `body` once with each circle that contains the point where it was or where it is, and with the squares of the chords to both.
    /// - Parameters: nil where the point does not exist; its chord is infinite then.
    /// - Returns: circles to which the distance was measured.
    @discardableResult
    func concerned(old: GeoPoint?, new: GeoPoint?, _ body: (_ slot: Int, _ old: Double, _ new: Double) -> Void) -> Int {
        var measured = everywhere.count
        look(everywhere, old, new, old: true, new: true, body)
        var left = levelsInUse
        while left != 0 {
            let level = left.trailingZeroBitCount
            left &= left - 1
            let before = old.map { Self.cell($0, level) }
            let after = new.map { Self.cell($0, level) }
            if let before, let list = cells[before] {
                measured += list.count
                look(list, old, new, old: true, new: before == after, body)
            }
            if let after, before != after, let list = cells[after] {
                measured += list.count
                look(list, old, new, old: false, new: true, body)
            }
        }
        return measured
    }

    /// - Parameters:
    ///   - hadPoint: calls those that contained the point where it was.
    ///   - hasPoint: calls those that contain it now and did not.
    @inline(__always)
    private func look(
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

    /// How many circles a look at a point measures the distance to.
    func listed(at point: GeoPoint) -> Int {
        (0..<Self.levels).reduce(everywhere.count) { $0 + (cells[Self.cell(point, $1)]?.count ?? 0) }
    }

    // MARK: Cells

    /// The last level whose cells are as wide as a circle; nil for one that is everywhere.
    private static func level(_ reach: Double) -> Int? {
        guard reach < 4 else { return nil }
        // The edge of level n is 4 / 2^n. A little wider than the circle, so that it never meets three cells in a row.
        return min(levels - 1, max(0, Int((2 / (reach.squareRoot() + 1e-9)).exponent)))
    }

    /// A cell's number: level, and its place along each axis.
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
        // Wider by what rounding may take away.
        let radius = circle.reach.squareRoot() + 1e-12
        let centre = circle.centre
        let (x, y, z) = (along(centre.x - radius, level), along(centre.y - radius, level), along(centre.z - radius, level))
        let (maxX, maxY, maxZ) = (along(centre.x + radius, level), along(centre.y + radius, level), along(centre.z + radius, level))
        // With ranges in place of the counting, swiftc 6.3.1 -O drops level, x and y from the last cell of each row.
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
