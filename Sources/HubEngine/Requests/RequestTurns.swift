import DequeModule

/// Requests that wait for their turn, in a queue per client, so that a client with thousands of them delays no other.
///
/// ```
/// more than one turn's work ──► the queue of each client ──► a turn: the first of each queue, up to an equal share
///                                   ▲ behind the other queues      │
///                                   └────── requests are left ─────┘
///                               the next one is its end ──► a queue of leaving clients: a few per turn
/// ```
/// The requests of one client keep their order. Confined to the database queue; O(1) per request.
struct RequestTurns {
    /// In the order of their turns. Leaving clients are separate: they wait for no answer, and may have many onDisconnect writes.
    private var active = Deque<ClientQueue>()
    private var leaving = Deque<ClientQueue>()
    /// Requests in all queues.
    private(set) var requests = 0

    var isEmpty: Bool { requests == 0 }
    /// Clients whose next request is not `.end`, and clients whose next request is.
    var activeClients: Int { active.count }
    var leavingClients: Int { leaving.count }

    /// Adds requests after all waiting ones of their clients.
    mutating func append(_ items: some Sequence<SubmittedRequest>) {
        for item in items {
            requests += 1
            if let queue = item.client.requestQueue {
                queue.items.append(item)
            } else {
                let queue = ClientQueue(item.client)
                queue.items.append(item)
                item.client.requestQueue = queue
                enqueue(queue)
            }
        }
    }

    /// Adds earlier requests of the client, before all its waiting ones.
    mutating func prepend(_ items: ArraySlice<SubmittedRequest>, of client: Client) {
        guard let queue = client.requestQueue else { return append(items) }
        queue.items.prepend(contentsOf: items)
        requests += items.count
    }

    private mutating func enqueue(_ queue: ClientQueue) {
        if case .end? = queue.items.first?.request { leaving.append(queue) } else { active.append(queue) }
    }

    /// The client with the next turn, until `finish`.
    mutating func nextActive() -> ClientQueue? { active.popFirst() }
    mutating func nextLeaving() -> ClientQueue? { leaving.popFirst() }

    /// The next request of a client, which stays in its queue.
    func first(of queue: ClientQueue) -> SubmittedRequest? { queue.items.first }

    /// Removes the next request of a client; nil when none is left.
    mutating func next(of queue: ClientQueue) -> SubmittedRequest? {
        guard let item = queue.items.popFirst() else { return nil }
        requests -= 1
        return item
    }

    /// Ends the turn of a client: it moves behind the others.
    mutating func finish(_ queue: ClientQueue) {
        if queue.items.isEmpty { queue.client.requestQueue = nil } else { enqueue(queue) }
    }
}
