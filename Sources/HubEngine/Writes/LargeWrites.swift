import Journal
import JSONTree
import SecurityRules

/// A large write under way.
struct LargeWrite: Sendable {
    let asked: WriteRequest
    let item: SubmittedRequest
    /// Times that it may still be prepared, or brought up to date with other commits.
    var tries: Int
    /// Its stage in the log, once stored.
    var stage: JournalStage?
    /// The rules that decided it, and the last commit in the tree on which it was prepared.
    var rulesNumber = 0
    var sequence: UInt64 = 0
    /// Bytes of the client's onDisconnect writes, this one included. They cannot change meanwhile: the client's next request waits.
    var bytesLeft = 0

    /// Bytes held while it is prepared.
    var bytes: Int { item.size + asked.writes.count * Self.bytesOfPlace }

    /// Bytes per written path: its operation, its entry in the set of written paths, its path in the tree.
    private static let bytesOfPlace = 128
}

/// Prepares large writes off the queue, and commits each if none of its dependencies has changed since (`PreparedWrite`).
///
/// ```
/// suspended: prepared on the current tree ──► WriteStaging: ordered, staged ──► merge later commits ──► commit ──► answer
///   ▲                                     many of them: merged in the background ┘ │ ▲  └ affects many observers:
///   └── a later commit changed a dependency ◄─────────────────────────────────────┘ └─ suspended, rules evaluated ┘
/// ```
/// Staging: the log stores the operations while other clients can still commit, so that later commits need not wait for them. A write that
/// is refused or prepared again releases its stage.
/// Confined to the database queue.
final class LargeWrites: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let log: LogGuard
    private let commits: CommitPipeline
    private let precheck: PermissionPrecheck
    private let suspendedRequests: SuspendedRequests
    private let answers: Answers
    private let committer: WriteCommitter
    private let staging: WriteStaging
    private let refusals: RefusalReports

    init(
        _ context: EngineContext, _ pipeline: BatchPipeline, _ commits: CommitPipeline, _ precheck: PermissionPrecheck,
        _ suspendedRequests: SuspendedRequests, _ answers: Answers, _ committer: WriteCommitter, _ staging: WriteStaging,
        _ refusals: RefusalReports
    ) {
        self.context = context
        (content, log) = (pipeline.content, pipeline.log)
        self.commits = commits
        self.precheck = precheck
        self.suspendedRequests = suspendedRequests
        self.answers = answers
        self.committer = committer
        self.staging = staging
        self.refusals = refusals
    }

    /// Prepares a write, and then commits it.
    func prepare(_ large: LargeWrite) {
        let (asked, item) = (large.asked, large.item)
        // Checked before any work: while the log refuses commits, the write cannot be stored.
        do throws(Failure) { try log.mustAcceptWrites() } catch { return answers.answer(.failed(error), item) }
        guard large.tries > 0 else { return giveUp(asked, item) }
        let isSuspended = suspendedRequests.suspend(item, holding: large.bytes, follows: .sinceItsTurn) { [self] in
            // The tree, the rules and the time are those of its turn: it may have waited for long.
            let permission = WritePermission(rules: content.rules, origin: asked.origin(item.client))
            let (base, now, limit) = (content.root, context.clock(), context.limits.dependencies)
            var large = large
            (large.rulesNumber, large.sequence) = (content.rulesNumber, content.sequence)
            return { [large] in (PreparedWrite.prepare(asked, permission, on: base, now: now, dependencies: limit), large) }
        } then: { [self] (prepared: (PreparedWrite.Outcome, LargeWrite)) in
            guard committer.answersUnlessReadable(asked, item) else { return }
            switch prepared.0 {
            case .refused(let failure, let question):
                if let question { refusals.report(asked.ruled, of: asked.writes.first?.path ?? .root) { _ in question } }
                answers.answer(committer.refusal(of: asked, failure), item)
            case .ready(let write):
                if case .onDisconnect = asked.purpose {
                    return answers.answer(committer.keep(large), item)
                }
                staging.run(write, prepared.1) { [self] in install($0, $1) }
            }
        }
        if !isSuspended { answers.answer(.failed(.noRoom), item) }
    }

    private func install(_ write: PreparedWrite, _ large: LargeWrite) {
        let item = large.item
        guard large.rulesNumber == content.rulesNumber, let others = commits.recent.places(since: large.sequence) else {
            return prepareAgain(large)
        }
        var write = write
        guard others.count > context.limits.followedPlaces, large.tries > 1 else {
            context.meter.counters.followedPlaces += others.count
            guard write.mergeCommits(content.root, others) else { return prepareAgain(large) }
            guard let reply = committer.commit(write, large) else { return precheckObservers(write, large) }
            return answers.answer(reply, item)
        }
        // Many paths were written meanwhile. Each round takes a fraction of the time of the round before.
        let isSuspended = suspendedRequests.suspend(item, holding: large.bytes, follows: .sinceNow) { [self, write] in
            // Nil if those commits are no longer known: then the write cannot be merged.
            let (root, others, last) = (content.root, commits.recent.places(since: large.sequence), content.sequence)
            return {
                var write = write
                return others.map { write.mergeCommits(root, $0) } == true ? (write, last) : nil
            }
        } then: { [self] (followed: (PreparedWrite, UInt64)?) in
            guard committer.answersUnlessReadable(large.asked, item) else { return }
            guard let (followed, last) = followed else { return prepareAgain(large) }
            var large = large
            large.sequence = last
            large.tries -= 1
            install(followed, large)
        }
        if !isSuspended { answers.answer(.failed(.noRoom), item) }
    }

    /// Evaluates the rules for the observers that depend on a prepared write, in the background, before the commit.
    private func precheckObservers(_ write: PreparedWrite, _ large: LargeWrite) {
        let item = large.item
        let round = precheck.round + 1
        var next = large
        next.sequence = content.sequence
        next.tries -= 1
        let isSuspended = suspendedRequests.suspend(item, holding: large.bytes + precheck.bytes(before: write), follows: .sinceNow) { [self] in
            let question = precheck.question(before: write, round: round)
            return { PrecheckedDecisions(question) }
        } then: { [self, next] found in
            guard committer.answersUnlessReadable(next.asked, item) else { return }
            precheck.use(found) { install(write, next) }
        }
        if !isSuspended { answers.answer(.failed(.noRoom), item) }
    }

    private func prepareAgain(_ large: LargeWrite) {
        context.meter.counters.preparedAgain += 1
        var large = large
        large.tries -= 1
        // The operations stay the same, unless the server or the rules fill in some values.
        if content.rules.shapesWrites || !large.asked.writes.allSatisfy({ $0.value.deferred.isEmpty }) { large.stage = nil }
        prepare(large)
    }

    /// After the last try: a write of at most twice the limits is committed on the queue, a larger one is refused.
    private func giveUp(_ asked: WriteRequest, _ item: SubmittedRequest) {
        guard item.size <= context.limits.largeWriteBytes * 2, asked.writes.count <= context.limits.largeWritePlaces * 2 else {
            return answers.answer(.failed(.overtaken), item)
        }
        if let reply = committer.commit(asked, item.client, mayWait: false) { answers.answer(reply, item) }
    }
}
