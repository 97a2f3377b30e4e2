/// A request suspended for work off the database queue, and the later requests of its client.
package final class SuspendedRequest: @unchecked Sendable {
    // Sendable: confined to the database queue.
    package let item: SubmittedRequest
    /// In the order of arrival.
    package var held: [SubmittedRequest] = []
    /// Its number in the order of suspension.
    package let number: Int
    /// Bytes of the memory budget that it holds.
    package var bytes: Int
    /// Whether commits are recorded for it, because it is a write being prepared.
    package var follows = false
    /// Whether it is complete and only yields to other clients.
    package let isDone: Bool
    /// Whether another hub carries it out. Later writes of the client may then be forwarded meanwhile.
    package var isForwarded = false
    /// User ids that held requests sign in as.
    package var users: [String] = []

    package init(_ item: SubmittedRequest, number: Int, bytes: Int, isDone: Bool) {
        self.item = item
        self.number = number
        self.bytes = bytes
        self.isDone = isDone
    }
}
