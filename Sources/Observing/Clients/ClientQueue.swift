package import DequeModule

/// The requests of one client that wait for their turn (`RequestTurns`).
package final class ClientQueue: @unchecked Sendable {
    // Sendable: confined to the database queue.
    package let client: Client
    package var items = Deque<SubmittedRequest>()

    package init(_ client: Client) { self.client = client }
}
