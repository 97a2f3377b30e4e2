import Journal
import JSONTree

/// Rolls back batches that the log refuses. Content and sessions return to the last durable state. That is all that clients have seen,
/// because the output of the batches was still waiting.
/// Then the requests of these batches are carried out again: writes are refused, reads see the durable content. Confined to the database
/// queue.
final class Rollback {
    private let context: EngineContext
    private let content: Content
    private let batch: Batch
    private let outbox: Outbox
    private let durability: DurabilityQueue
    private let log: LogGuard
    private let indexes: IndexStore
    private let queries: LiveQueryUpdater
    private let permissions: ReadPermissions
    private let commits: CommitPipeline
    private let sessions: Sessions
    private let suspendedRequests: SuspendedRequests
    private let handler: RequestHandler
    private let loop: RequestLoop

    init(
        _ context: EngineContext, _ pipeline: BatchPipeline, _ outbox: Outbox, _ indexes: IndexStore,
        _ permissions: ReadPermissions, _ commits: CommitPipeline, parts: RequestParts, _ handler: RequestHandler, _ loop: RequestLoop
    ) {
        self.context = context
        (content, batch) = (pipeline.content, pipeline.batch)
        (durability, log) = (pipeline.durability, pipeline.log)
        self.outbox = outbox
        self.indexes = indexes
        self.permissions = permissions
        self.commits = commits
        (sessions, suspendedRequests, queries) = (parts.sessions, parts.suspendedRequests, parts.queries)
        self.handler = handler
        self.loop = loop
    }

    /// Rolls back all batches that wait for the log.
    func run(_ error: JournalError) {
        let givenUp = durability.giveUp()
        let suspended = suspendedRequests.giveUp()
        let before = content.rollBack(to: durability.durable)
        commits.rollBack(to: content.sequence)
        log.refused(error, givenUp.lazy.map(\.result.journalled).filter { !$0.isEmpty })
        indexes.follow(from: before)
        for change in givenUp.reversed().lazy.flatMap({ $0.result.history.changes.reversed() }) { sessions.undo(change) }
        // The changes recorded during the undo belong to no batch.
        batch.forgetHistory()
        for given in givenUp { given.output.giveUp() }
        queries.follow(from: before)
        // Before anything is sent, because the rules may have changed since.
        permissions.recheckAllObservers()
        for given in givenUp {
            context.meter.finish(given.result.bytes)
            for step in given.result.history.steps {
                handler.repeatStep(step)
                durability.finishLargeBatch()
            }
        }
        // Unlike the refused batches, the repeated requests never reach the log.
        log.settle()
        suspendedRequests.handleAgain(suspended)
        permissions.recheckAllObservers()
        for given in givenUp { outbox.moveProbes(of: given.output) }
        durability.finishBatch()
        loop.scheduleTurn()
        log.tryLater()
    }
}
