/// A batch's way from the queue to the log, for parts that change the content or wait for the log.
struct BatchPipeline {
    /// The tree and the rules.
    let content: Content
    /// The commits of the running batch.
    let batch: Batch
    /// The batches that wait for the log.
    let durability: DurabilityQueue
    /// Whether the log accepts commits.
    let log: LogGuard
}

/// The output to clients, for parts that answer requests.
struct ClientOutput {
    /// The output of the running batch.
    let outbox: Outbox
    let answers: Answers
    /// The answers sent ahead of batches that wait for the log.
    let early: EarlyAnswers
    let slowReaders: SlowReaders
    /// Encodes large values off the queue.
    let encodings: EncodeQueue
}

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
