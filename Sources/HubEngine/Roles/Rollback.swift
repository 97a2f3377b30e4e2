import Journal
import JSONTree

/// Rolls back batches that the log refuses. Content and sessions return to the last durable state. That is all that clients have seen,
/// because the output of the batches was still waiting.
/// Then the requests of these batches are carried out again: writes are refused, reads see the durable content. Confined to the database
/// queue.
final class Rollback {
    private let context: EngineContext
    private let content: Content
    private let durability: DurabilityQueue
    private let log: LogGuard
    private let updates: ObserverUpdates
    private let commits: CommitPipeline
    private let sessions: Sessions
    private let suspendedRequests: SuspendedRequests
    private let handler: RequestHandler

    init(
        _ context: EngineContext, _ pipeline: BatchPipeline, _ updates: ObserverUpdates, _ commits: CommitPipeline, _ sessions: Sessions,
        _ suspendedRequests: SuspendedRequests, _ handler: RequestHandler
    ) {
        self.context = context
        (content, durability, log) = (pipeline.content, pipeline.durability, pipeline.log)
        self.updates = updates
        self.commits = commits
        self.sessions = sessions
        self.suspendedRequests = suspendedRequests
        self.handler = handler
    }

    /// Rolls back all batches that wait for the log.
    func run(_ error: JournalError) {
        let givenUp = durability.giveUp()
        let suspended = suspendedRequests.giveUp()
        let before = content.rollBack(to: durability.durable)
        commits.rollBack(to: content.sequence)
        log.refused(error, givenUp.lazy.map(\.result.journalled).filter { !$0.isEmpty })
        updates.rollBackIndexes(from: before)
        sessions.undo(givenUp.reversed().lazy.flatMap { $0.result.history.changes.reversed() })
        for given in givenUp { given.output.giveUp() }
        updates.rollBackQueries(from: before)
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
        updates.endRollback()
        durability.keepProbes(of: givenUp)
        durability.finishBatch()
        log.tryLater()
        commits.consequences.beginIndexes()
    }
}
