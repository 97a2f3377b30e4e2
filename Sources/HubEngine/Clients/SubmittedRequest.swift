import JSONTree

/// A submitted request with its client and the number of its answer.
struct SubmittedRequest: Sendable {
    let client: Client
    let request: Request
    let token: Int64
    /// Bytes that the request holds.
    let size: Int
    /// Their reservation in the memory budget, if there are many. Released when the request is no longer needed.
    let hold: (any MemoryReservation)?
    /// When the first request of its group was submitted, steady ns; 0 when unknown.
    var since: Int64 = 0
}
