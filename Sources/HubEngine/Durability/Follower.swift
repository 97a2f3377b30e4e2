import Journal
import JSONTree

/// Applies the commits of another writer, from a journal's tail. Each passes the stages that follow the permission of a commit.
/// A batch that does not follow the last one ends the follower: the database keeps its content and reports that it is cut off.
///
/// ```
/// journal ─► tail ─► database queue: batch that follows ─► CommitLine.apply ─► observers
///                                    └─► gap, end ─► cut off
/// ```
/// Confined to the database queue.
final class Follower: @unchecked Sendable {
    // Sendable: the tail only hops to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let commits: CommitLine
    private let durability: DurabilityLine
    private let log: LogGuard
    private var pending = PendingSessions()
    /// The newest writer.
    private(set) var epoch: UInt64 = 0
    private(set) var hasEnded = false
    /// Hears of the commits that carry out what was forwarded; nil where nothing is.
    var forwarding: Forwarding?
    /// A batch was applied, and what it says has left.
    var onApplied: (JournalBatch) -> Void = { _ in }
    /// Nothing more comes.
    var onEnd: (JournalError) -> Void = { _ in }
    /// Set once, before anything is received.
    private var tail: JournalTail?

    /// - Parameter pending: what sessions have left behind by the first commit that is followed.
    init(
        _ context: EngineContext, _ content: Content, _ commits: CommitLine, _ durability: DurabilityLine, _ log: LogGuard,
        pending: [PendingSession]
    ) {
        self.context = context
        self.content = content
        self.commits = commits
        self.durability = durability
        self.log = log
        for session in pending {
            self.pending.apply(.identify(session: session.id, auth: session.auth, isAdmin: session.isAdmin))
            for write in session.writes.writes { self.pending.apply(.keep(session: session.id, write)) }
        }
    }

    deinit { tail?.cancel() }

    /// The pending onDisconnect writes of all sessions, as of the last applied batch.
    var pendingSessions: [PendingSession] { pending.sessions }

    /// Begins to follow, behind what the content holds. Called once.
    func follow(_ journal: any Journal) {
        tail = journal.tail(from: content.sequence) { [weak self, queue = context.queue] event in
            queue.async { [weak self] in self?.receive(event) }
        }
    }

    private func receive(_ event: TailEvent) {
        context.queue.assertCurrent()
        if hasEnded { return }
        switch event {
        case .end(let error): end(error)
        case .batch(let batch):
            guard batch.expectedLast == content.sequence, batch.sequence > content.sequence else {
                return end(.conflict(expected: batch.expectedLast, last: content.sequence))
            }
            guard batch.epoch >= epoch else { return end(.superseded(epoch: batch.epoch, newest: epoch)) }
            epoch = batch.epoch
            for commit in batch.commits {
                commits.apply(commit)
                for case .pending(let change) in commit.operations { pending.apply(change) }
                if let forwarding { for case .peer(let change) in commit.operations { forwarding.applied(change, commit.sequence) } }
            }
            durability.confirm()
            forwarding?.catchUp()
            durability.finishBatch()
            onApplied(batch)
        }
    }

    /// Nothing more is applied.
    func end() {
        hasEnded = true
        tail?.cancel()
    }

    private func end(_ error: JournalError) {
        end()
        log.cutOff(error)
        onEnd(error)
    }
}
