import DequeModule

/// The requests of one client that wait for their turn (`RequestTurns`).
final class ClientQueue: @unchecked Sendable {
    // Sendable: confined to the database queue.
    let client: Client
    var items = Deque<SubmittedRequest>()

    init(_ client: Client) { self.client = client }
}
