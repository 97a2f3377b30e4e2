/// The clients that share one view and wire style, by lane. Adding and removing are O(1).
package struct Audience {
    package private(set) var lanes: [[Client]]
    private var positions: [ObjectIdentifier: Int] = [:]

    package init(lanes: Int) { self.lanes = Array(repeating: [], count: lanes) }

    package var isEmpty: Bool { positions.isEmpty }
    package var count: Int { positions.count }

    package mutating func add(_ client: Client) {
        guard positions[ObjectIdentifier(client)] == nil else { return }
        positions[ObjectIdentifier(client)] = lanes[client.lane].count
        lanes[client.lane].append(client)
    }

    /// Fills the freed position with the lane's last client.
    package mutating func remove(_ client: Client) {
        guard let position = positions.removeValue(forKey: ObjectIdentifier(client)) else { return }
        let last = lanes[client.lane].removeLast()
        if last !== client {
            lanes[client.lane][position] = last
            positions[ObjectIdentifier(last)] = position
        }
    }
}
