/// The clients that share one view and wire style, by lane. Adding and removing are O(1).
struct Audience {
    private(set) var lanes: [[Client]]
    private var positions: [ObjectIdentifier: Int] = [:]

    init(lanes: Int) { self.lanes = Array(repeating: [], count: lanes) }

    var isEmpty: Bool { positions.isEmpty }
    var count: Int { positions.count }

    mutating func add(_ client: Client) {
        guard positions[ObjectIdentifier(client)] == nil else { return }
        positions[ObjectIdentifier(client)] = lanes[client.lane].count
        lanes[client.lane].append(client)
    }

    /// Fills the freed position with the lane's last client.
    mutating func remove(_ client: Client) {
        guard let position = positions.removeValue(forKey: ObjectIdentifier(client)) else { return }
        let last = lanes[client.lane].removeLast()
        if last !== client {
            lanes[client.lane][position] = last
            positions[ObjectIdentifier(last)] = position
        }
    }
}
