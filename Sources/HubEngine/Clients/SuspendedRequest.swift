/// A request suspended for work off the database queue, and the later requests of its client.
final class SuspendedRequest: @unchecked Sendable {
    // Sendable: confined to the database queue.
    let item: SubmittedRequest
    /// In the order of arrival.
    var held: [SubmittedRequest] = []
    /// Its number in the order of suspension.
    let number: Int
    /// Bytes of the memory budget that it holds.
    var bytes: Int
    /// Whether commits are recorded for it, because it is a write being prepared.
    var follows = false
    /// Whether it is complete and only yields to other clients.
    let isDone: Bool
    /// Whether another hub carries it out. Later writes of the client may then be forwarded meanwhile.
    var isForwarded = false
    /// User ids that held requests sign in as.
    var users: [String] = []

    init(_ item: SubmittedRequest, number: Int, bytes: Int, isDone: Bool) {
        self.item = item
        self.number = number
        self.bytes = bytes
        self.isDone = isDone
    }
}
