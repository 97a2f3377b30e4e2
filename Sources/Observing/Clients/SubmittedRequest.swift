package import Commits
package import JSONTree

/// A submitted request with its client and the number of its answer.
package struct SubmittedRequest: Sendable {
    package let client: Client
    package let request: Request
    package let token: Int64
    /// Bytes that the request holds.
    package let size: Int
    /// Their reservation in the memory budget, if there are many. Released when the request is no longer needed.
    package let hold: (any MemoryReservation)?
    /// When the first request of its group was submitted, steady ns; 0 when unknown.
    package var since: Int64 = 0

    package init(client: Client, request: Request, token: Int64, size: Int, hold: (any MemoryReservation)?, since: Int64 = 0) {
        (self.client, self.request, self.token, self.size, self.hold, self.since) = (client, request, token, size, hold, since)
    }
}
