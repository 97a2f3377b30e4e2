/// The clients of one view and style, by lane. Adding and removing are O(1).
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

    /// The last client of the lane takes the freed position.
    mutating func remove(_ client: Client) {
        guard let position = positions.removeValue(forKey: ObjectIdentifier(client)) else { return }
        let last = lanes[client.lane].removeLast()
        if last !== client {
            lanes[client.lane][position] = last
            positions[ObjectIdentifier(last)] = position
        }
    }
}
