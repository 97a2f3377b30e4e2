/// Chooses the loop of a group for a new connection.
///
/// ```
/// loops, in order:   0 ─ full ─► 1 ─ busy ─► 2 ─ has room ──► this one
///                    none has room ──► the one with the fewest connections of those that are not busy, else of all
/// ```
/// Events gathered on few loops need fewer turns for reading, processing and sending, and cost less than on many loops: two cores do not fetch
/// the same memory from each other, and each wake-up brings more events. More loops only help when one is busy.
struct Placement {
    /// Connections that a loop takes before the next one gets any.
    let room: Int
    /// ms between two readings.
    static let readingMs = 1_000
    /// When `measured` was read, monotonic ns.
    private var sinceNs: UInt64
    /// ns for which each loop had been busy at that reading.
    private var measured: [UInt64]
    /// For each loop, whether it was busy for half of the time between the last two readings.
    private var isBusy: [Bool]

    /// - Parameter nowNs: monotonic; no loop has been busy yet.
    init(room: Int, loops: Int, nowNs: UInt64) {
        self.room = room
        sinceNs = nowNs
        measured = Array(repeating: 0, count: loops)
        isBusy = Array(repeating: false, count: loops)
    }

    /// Takes a reading.
    /// - Parameter busyNs: ns for which each loop has been busy since its start.
    mutating func read(_ busyNs: [UInt64], nowNs: UInt64) {
        for (index, ns) in busyNs.enumerated() { isBusy[index] = (ns - measured[index]) * 2 >= nowNs - sinceNs }
        (measured, sinceNs) = (busyNs, nowNs)
    }

    /// - Parameter connections: the number of connections of each loop.
    /// - Returns: the index of the loop. O(loops)
    func choose(_ connections: [Int]) -> Int {
        let calm = connections.indices.filter { !isBusy[$0] }
        if let open = calm.first(where: { connections[$0] < room }) { return open }
        let candidates = calm.isEmpty ? Array(connections.indices) : calm
        return candidates.min { connections[$0] < connections[$1] } ?? 0
    }
}
