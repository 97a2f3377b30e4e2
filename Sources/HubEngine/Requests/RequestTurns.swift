import DequeModule

/// Requests that wait for their turn, in a line for each client, so that a client with thousands of them delays no other.
///
/// ```
/// more than one turn's work ──► the line of each client ──► a turn: of each line the first, up to an equal share
///                                   ▲ behind the other lines       │
///                                   └────── requests are left ─────┘
///                               the next one is its end ──► a line of those who leave: a few of each turn
/// ```
/// The requests of one client keep their order. Confined to the database queue; all in O(1) for each request.
struct RequestTurns {
    /// The waiting requests of one client.
    final class Line: @unchecked Sendable {
        // Sendable: confined to the database queue.
        let client: Client
        fileprivate var items = Deque<Database.Item>()

        fileprivate init(_ client: Client) { self.client = client }
    }

    /// In the order of their turns. A client that leaves waits for no answer, and can leave much to be written.
    private var asking = Deque<Line>()
    private var leaving = Deque<Line>()
    /// Requests in all lines.
    private(set) var requests = 0

    var isEmpty: Bool { requests == 0 }
    /// Clients that wait: with another next request than `.end`, and with that.
    var askingClients: Int { asking.count }
    var leavingClients: Int { leaving.count }

    /// Behind all that these clients have here already.
    mutating func append(_ items: some Sequence<Database.Item>) {
        for item in items {
            requests += 1
            if let line = item.client.line {
                line.items.append(item)
            } else {
                let line = Line(item.client)
                line.items.append(item)
                item.client.line = line
                enqueue(line)
            }
        }
    }

    /// Before all that the client has here: it asked these earlier.
    mutating func prepend(_ items: ArraySlice<Database.Item>, of client: Client) {
        guard let line = client.line else { return append(items) }
        line.items.prepend(contentsOf: items)
        requests += items.count
    }

    private mutating func enqueue(_ line: Line) {
        if case .end? = line.items.first?.request { leaving.append(line) } else { asking.append(line) }
    }

    /// The client whose turn it is, until `finish`.
    mutating func nextAsking() -> Line? { asking.popFirst() }
    mutating func nextLeaving() -> Line? { leaving.popFirst() }

    /// The request that is the next one of a client, which stays in its line.
    func first(of line: Line) -> Database.Item? { line.items.first }

    /// The next request of a client; nil when it has none left.
    mutating func next(of line: Line) -> Database.Item? {
        guard let item = line.items.popFirst() else { return nil }
        requests -= 1
        return item
    }

    /// Ends the turn of a client: it is behind the others now.
    mutating func finish(_ line: Line) {
        if line.items.isEmpty { line.client.line = nil } else { enqueue(line) }
    }
}
