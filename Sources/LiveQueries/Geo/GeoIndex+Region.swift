package import JSONTree

extension GeoIndex {
    /// Calls `body` with the points in a region, unordered, until it returns false. Cells outside of it are not opened, and points of cells
    /// that lie in it are not tested.
    /// - Parameter most: maximum number of cells and points visited.
    /// - Returns: false if the maximum is reached.
    @discardableResult
    func visit(_ region: Region, visits most: Int = .max, _ body: (Entry) -> Bool) -> Bool {
        let last = most < .max - visits ? visits + most : Int.max
        var open: ContiguousArray<(cell: Int32, isInside: Bool)> = [(0, false)]
        while let next = open.popLast() {
            let cell = Int(next.cell)
            var isInside = next.isInside
            visits += isInside ? 1 : region.visits
            if visits > last { return false }
            if !isInside {
                switch region.coverage(of: cells[cell].cap) {
                case .none: continue
                case .part: break
                case .all: isInside = true
                }
            }
            if cells[cell].isLeaf {
                let entries = cells[cell].entries
                for entry in entries {
                    visits += isInside ? 1 : region.visits
                    if visits > last { return false }
                    if isInside || region.contains(entry.point), !body(entry) { return true }
                }
            } else {
                let children = cells[cell].children
                for i in (0..<8).reversed() where children[i] != 0 { open.append((children[i], isInside)) }
            }
        }
        return true
    }

    /// The number of points in a region; of cells that lie in it without opening them.
    /// - Parameter most: maximum number of cells and points visited.
    /// - Returns: if the maximum is reached, the remaining cells count as a whole, so `count` is an upper bound.
    func estimate(in region: Region, visits most: Int) -> (count: Int, isExact: Bool) {
        let last = most < .max - visits ? visits + most : Int.max
        var (sum, isExact) = (0, true)
        // The largest cells first, so that only the smallest make an estimate inexact.
        var (open, at) = (ContiguousArray<Int32>([0]), 0)
        while at < open.count {
            let cell = Int(open[at])
            at += 1
            visits += region.visits
            let coverage = region.coverage(of: cells[cell].cap)
            if coverage == .none { continue }
            if coverage == .all || visits > last {
                sum += Int(cells[cell].count)
                if coverage == .part { isExact = false }
            } else if cells[cell].isLeaf {
                visits += cells[cell].entries.count * region.visits
                sum += cells[cell].entries.count { region.contains($0.point) }
            } else {
                let children = cells[cell].children
                for i in 0..<8 where children[i] != 0 { open.append(children[i]) }
            }
        }
        return (sum, isExact)
    }
}

extension GeoIndex {
    /// The children in a region, in no order. O(cells met + children found)
    /// - Returns: at most one more than `most`.
    package func keys(in region: Region, atMost most: Int) -> [Key] {
        var keys: [Key] = []
        visit(region) { entry in
            keys.append(entry.key)
            return keys.count <= most
        }
        return keys
    }
}
