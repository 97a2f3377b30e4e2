/// The parts that carry out requests, by kind.
struct RequestParts {
    let sessions: Sessions
    let reads: ReadRequests
    let observers: ObserveRequests
    let writes: WriteRequests
    let disconnects: DisconnectWrites
    /// Live queries with conditions, and circles.
    let queries: LiveQueryUpdater
    /// Requests whose work is done off the queue.
    let suspendedRequests: SuspendedRequests
}
