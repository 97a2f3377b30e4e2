internal import DequeModule

/// Connections of a loop whose handshakes have input that was not read yet. To read it may cost a signature with the server's key, nearly
/// a millisecond, so a turn reads few of them, behind everything of established connections (``NetSettings/handshakesPerTurn``).
///
/// ```
/// readable ─► network A   ● ● ● ●      those of one network in the order of arrival, but first what completes a handshake:
///             network B   ●       ─►   a flood of new ones keeps none from being completed;
///             network C   ● ●          networks in rotation: the flood of one holds up no other
/// ```
/// A value without sockets: connections are known by their tags.
struct HandshakeLine {
    private var lines: [SocketAddress: Deque<UInt64>] = [:]
    private var rotation: Deque<SocketAddress> = []
    private let capacity: Int
    /// How many wait, with those that have ended meanwhile and were not reached yet.
    private(set) var count = 0

    /// - Parameter capacity: at least 1.
    init(capacity: Int) { self.capacity = max(1, capacity) }

    var isEmpty: Bool { count == 0 }

    /// Adds a connection.
    /// - Parameter isAnswered: whether the server's part of its handshake has been made.
    /// - Returns: the connection that has no place any more: the last one of the network with the most. O(1), beyond the capacity
    ///   O(networks).
    mutating func append(_ tag: UInt64, of network: SocketAddress, isAnswered: Bool) -> UInt64? {
        if lines[network] == nil { rotation.append(network) }
        if isAnswered { lines[network, default: []].prepend(tag) } else { lines[network, default: []].append(tag) }
        count += 1
        guard count > capacity, let longest = lines.max(by: { $0.value.count < $1.value.count })?.key else { return nil }
        let last = lines[longest]?.popLast()
        count -= 1
        if lines[longest]?.isEmpty == true {
            lines[longest] = nil
            rotation.removeAll { $0 == longest }
        }
        return last
    }

    /// Removes the next one.
    mutating func popFirst() -> UInt64? {
        guard let network = rotation.popFirst(), let tag = lines[network]?.popFirst() else { return nil }
        count -= 1
        if lines[network]?.isEmpty == true { lines[network] = nil } else { rotation.append(network) }
        return tag
    }
}
