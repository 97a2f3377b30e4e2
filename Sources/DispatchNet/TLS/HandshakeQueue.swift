internal import DequeModule

/// A loop's connections whose handshake input was not read yet. Reading it may cost a signature with the server's key, nearly a
/// millisecond. So a turn reads few of them, after all input of established connections (``NetSettings/handshakesPerTurn``).
///
/// ```
/// readable ─► network A   ● ● ● ●      within a network in order of arrival, but first those that complete a handshake:
///             network B   ●       ─►   a flood of new ones does not keep any from completing;
///             network C   ● ●          networks in rotation: one network's flood does not delay the others
/// ```
/// A value without sockets: connections are identified by their tags.
struct HandshakeQueue {
    private var lines: [SocketAddress: Deque<UInt64>] = [:]
    private var rotation: Deque<SocketAddress> = []
    private let capacity: Int
    /// Number of waiting connections, including ended ones that were not reached yet.
    private(set) var count = 0

    /// - Parameter capacity: at least 1.
    init(capacity: Int) { self.capacity = max(1, capacity) }

    var isEmpty: Bool { count == 0 }

    /// Adds a connection.
    /// - Parameter isAnswered: whether the server has already produced its part of the handshake.
    /// - Returns: a connection to drop because the line is full: the last one of the network with the most. O(1), beyond the capacity
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
