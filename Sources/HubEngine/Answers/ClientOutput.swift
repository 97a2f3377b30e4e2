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
