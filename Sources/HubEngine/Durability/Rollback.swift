import Journal
import JSONTree

/// Takes batches back that the log refuses: content and sessions go back to what is durable, which is all that any client has been
/// told. What was asked in the batches that are given up is carried out again: writes are refused, reads see the durable content.
/// No client has seen anything of what is taken back: its output was still waiting. Confined to the database queue.
final class Rollback {
    private let context: EngineContext
    private let content: Content
    private let batch: Batch
    private let outbox: Outbox
    private let durability: DurabilityLine
    private let log: LogGuard
    private let indexes: IndexKeeper
    private let permissions: ReadPermissions
    private let commits: CommitLine
    private let sessions: Sessions
    private let parking: Parking
    private let handler: RequestHandler
    private let loop: RequestLoop

    init(
        _ context: EngineContext, _ content: Content, _ batch: Batch, _ outbox: Outbox, _ durability: DurabilityLine, _ log: LogGuard,
        _ indexes: IndexKeeper, _ permissions: ReadPermissions, _ commits: CommitLine, _ sessions: Sessions, _ parking: Parking,
        _ handler: RequestHandler, _ loop: RequestLoop
    ) {
        self.context = context
        self.content = content
        self.batch = batch
        self.outbox = outbox
        self.durability = durability
        self.log = log
        self.indexes = indexes
        self.permissions = permissions
        self.commits = commits
        self.sessions = sessions
        self.parking = parking
        self.handler = handler
        self.loop = loop
    }

    /// Gives up all batches that wait.
    func run(_ error: JournalError) {
        let givenUp = durability.giveUp()
        let parked = parking.giveUp()
        let before = content.rollBack(to: durability.durable)
        commits.rollBack(to: content.sequence)
        log.refused(error, givenUp.lazy.map(\.result.journalled).filter { !$0.isEmpty })
        indexes.follow(from: before)
        for change in givenUp.reversed().lazy.flatMap({ $0.result.history.changes.reversed() }) { sessions.undo(change) }
        // What was recorded while undoing is no step.
        batch.forgetHistory()
        for given in givenUp { given.output.giveUp() }
        // Before any client is told anything: the rules may have changed since.
        permissions.recheckAllObservers()
        for given in givenUp {
            context.meter.finish(given.result.bytes)
            for step in given.result.history.steps {
                handler.repeatStep(step)
                loop.finishLargeBatch()
            }
        }
        // Those were given to the log; what comes now is not.
        log.settle()
        parking.handleAgain(parked)
        permissions.recheckAllObservers()
        for given in givenUp { outbox.moveProbes(of: given.output) }
        durability.endWork()
        loop.scheduleTurn()
        log.tryLater()
    }
}
