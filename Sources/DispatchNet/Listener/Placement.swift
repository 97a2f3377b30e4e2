/// Which loop of a group a new connection is given.
///
/// ```
/// loops, in order:   0 ─ full ─► 1 ─ busy ─► 2 ─ has room ──► this one
///                    none has room ──► the one with the fewest connections of those that are not busy, else of all
/// ```
/// What comes together on few loops is read, carried out and sent in fewer turns, for less than the same on many: two cores do not fetch
/// the same memory from each other, and a wake-up brings more. More loops are of use when one has much to do.
struct Placement {
    /// Connections that a loop has before the next one is given any.
    let room: Int
    /// ms between two readings.
    static let readingMs = 1_000
    /// When `measured` was read, monotonic ns.
    private var sinceNs: UInt64
    /// ns for which each loop had been at work then.
    private var measured: [UInt64]
    /// Of each loop, whether it was at work for half of the time between the last two readings.
    private var isBusy: [Bool]

    /// - Parameter nowNs: monotonic; no loop has been at work yet.
    init(room: Int, loops: Int, nowNs: UInt64) {
        self.room = room
        sinceNs = nowNs
        measured = Array(repeating: 0, count: loops)
        isBusy = Array(repeating: false, count: loops)
    }

    /// Takes a reading.
    /// - Parameter busyNs: ns for which each loop has been at work since its start.
    mutating func read(_ busyNs: [UInt64], nowNs: UInt64) {
        for (index, ns) in busyNs.enumerated() { isBusy[index] = (ns - measured[index]) * 2 >= nowNs - sinceNs }
        (measured, sinceNs) = (busyNs, nowNs)
    }

    /// - Parameter connections: of each loop.
    /// - Returns: the index of the loop. O(loops)
    func choose(_ connections: [Int]) -> Int {
        let calm = connections.indices.filter { !isBusy[$0] }
        if let open = calm.first(where: { connections[$0] < room }) { return open }
        let candidates = calm.isEmpty ? Array(connections.indices) : calm
        return candidates.min { connections[$0] < connections[$1] } ?? 0
    }
}
