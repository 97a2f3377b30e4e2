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
