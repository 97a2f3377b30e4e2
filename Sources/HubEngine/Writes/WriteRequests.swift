import Journal
import JSONTree
import Scheduling
import SecurityRules

/// Carries out write requests. A small write is decided and committed at once on the database queue.
/// A large write is prepared off the queue, and committed if none of its dependencies has changed since (`PreparedWrite`).
/// A write counts as large, whatever its size, if the permission of many observers depends on it.
///
/// ```
/// request ── small ──► commit ──► answer
///   └── large ──► suspended: prepared on the current tree ──► ordered, staged ──► merge later commits ──► commit ──► answer
///                   ▲                         many of them: merged in the background ┘ │ ▲  └ affects many observers:
///                   └── a later commit changed a dependency ◄──────────────────────────┘ └─ suspended, rules evaluated ┘
/// ```
/// Staging: the log stores the operations while other clients can still commit, so that later commits need not wait for them. A write that
/// is refused or prepared again releases its stage.
/// Confined to the database queue.
final class WriteRequests: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let batch: Batch
    private let journal: any Journal
    private let logGuard: LogGuard
    private let commits: CommitPipeline
    private let disconnects: DisconnectWrites
    private let indexes: IndexStore
    private let permissions: ReadPermissions
    private let precheck: PermissionPrecheck
    private let suspendedRequests: SuspendedRequests
    private let answers: Answers
    private let refusals: RefusalReports
    private var pushIDs = PushIDGenerator()
    private var budgets: WriteBudgets
    /// True while repeating requests of a batch that was rolled back. They were counted before.
    var isRepeating = false

    init(
        _ context: EngineContext, _ content: Content, _ batch: Batch, _ journal: any Journal, _ logGuard: LogGuard, _ commits: CommitPipeline,
        _ disconnects: DisconnectWrites, _ indexes: IndexStore, _ permissions: ReadPermissions, _ precheck: PermissionPrecheck,
        _ suspendedRequests: SuspendedRequests, _ answers: Answers, _ refusals: RefusalReports
    ) {
        self.context = context
        self.content = content
        self.batch = batch
        self.journal = journal
        self.logGuard = logGuard
        self.commits = commits
        self.disconnects = disconnects
        self.indexes = indexes
        self.permissions = permissions
        self.precheck = precheck
        self.suspendedRequests = suspendedRequests
        self.answers = answers
        self.refusals = refusals
        budgets = WriteBudgets(context.limits)
    }

    private var limits: EngineLimits { context.limits }

    // MARK: Requests

    /// Adds a child under a key that the hub generates.
    func push(_ path: Path, _ value: WriteValue, _ item: SubmittedRequest) {
        let key = pushIDs.next(now: context.clock())
        write(WriteRequest([TreeWrite(path.appending(key), value)], .push(key)), item)
    }

    /// Carries out a REST write (contract §7).
    func exchange(_ exchange: Exchange, _ writes: [TreeWrite], _ item: SubmittedRequest) {
        let update = exchange.isUpdate ? exchange.path : nil
        write(WriteRequest(writes, if: exchange.condition, .exchange(exchange, key: nil), update: update), item)
    }

    func exchange(_ exchange: Exchange, push value: WriteValue, _ item: SubmittedRequest) {
        let key = pushIDs.next(now: context.clock())
        write(WriteRequest([TreeWrite(exchange.path.appending(key), value)], if: exchange.condition, .exchange(exchange, key: key)), item)
    }

    /// Commits the writes of an account deletion that are still due. The account also leaves the recipients of pending inbox rows.
    func accountData(_ found: [AccountWrite], of uid: String, _ item: SubmittedRequest) {
        let left = content.pendingRows.items.filter { !$0.without.contains(Key(uid)) }
        if !left.isEmpty, !logGuard.isRefusing { commits.record(left.map { .pendingRows(.without($0.id, Key(uid))) }) }
        write(WriteRequest(found.due(in: content.root), cause: .accountDeletion), item)
    }

    /// Carries out a write and answers it, at once or later.
    func write(_ asked: WriteRequest, _ item: SubmittedRequest) {
        let client = item.client
        if let remote = client.remote { remote.begin(item.token) }
        if !client.identity.isAdmin, asked.writes.count > limits.writePlaces {
            batch.retire(item)
            return answers.answer(.failed(.tooManyPlaces(limits.writePlaces)), item)
        }
        if let failure = overBudget(asked, client) {
            batch.retire(item)
            return answers.answer(.failed(failure), item)
        }
        guard answersUnlessReadable(asked, item) else { return }
        if !isLarge(asked, item), let reply = commitInline(asked, client, mayWait: true) { return answers.answer(reply, item) }
        var large = LargeWrite(asked: asked, item: item, tries: limits.preparations)
        if case .onDisconnect = asked.purpose {
            do throws(Failure) {
                large.bytesLeft = try disconnects.bytes(with: asked.writes, client)
            } catch { return answers.answer(.failed(error), item) }
        }
        prepare(large)
    }

    /// Charges a write to its budgets. Nil when it is within them.
    private func overBudget(_ asked: WriteRequest, _ client: Client) -> Failure? {
        guard budgets.mayCount(content.rules), !isRepeating, asked.cause == nil else { return nil }
        let now = context.scheduler.steadyNs
        guard let excess = budgets.admit(asked.writes, of: client, content.rules, now: now) else { return nil }
        return refused(excess, asked, client)
    }

    /// Charges the consequences of a write, before the commit.
    private func count(_ found: Consequences, _ asked: WriteRequest, _ client: Client) throws(Failure) {
        guard !isRepeating, asked.cause == nil else { return }
        guard let excess = budgets.admit(found, of: client, content.rules, now: context.scheduler.steadyNs) else { return }
        throw refused(excess, asked, client)
    }

    private func refused(_ excess: WriteBudgets.BudgetRefusal, _ asked: WriteRequest, _ client: Client) -> Failure {
        context.meter.counters.overBudget += 1
        refusals.report(.overBudget, of: excess.path) { now in
            var question = RuleQuestion(
                operation: .write(asked.writes.map(\.path)), rules: content.rules, old: content.root, new: content.root,
                auth: client.identity.auth, now: now)
            question.budget = excess.budget
            return question
        }
        return excess.failure
    }

    /// Whether the write would hold the queue for longer than other clients should wait.
    private func isLarge(_ asked: WriteRequest, _ item: SubmittedRequest) -> Bool {
        if item.size > limits.largeWriteBytes || asked.writes.count > limits.largeWritePlaces { return true }
        var room = limits.largeWritePlaces
        // A node takes at least one byte, so fewer bytes cannot hold more nodes.
        if item.size > room, !asked.writes.allSatisfy({ $0.value.node.hasNodes(within: &room) }) { return true }
        // A priority takes few bytes, but the rules evaluate the whole subtree below it.
        room = limits.largeWritePlaces
        return asked.writes.contains { $0.part == .priority && !content.root.node(at: $0.path).hasNodes(within: &room) }
    }

    /// Commits a small write on the queue.
    /// - Returns: its answer. Nil if nothing was done: it may wait, and needs a large comparison or affects many observers.
    private func commitInline(_ asked: WriteRequest, _ client: Client, mayWait: Bool) -> Reply? {
        if case .onDisconnect = asked.purpose { return disconnects.keep(asked.writes, client) }
        do throws(Failure) {
            let sequence = try commits.commit(asked.writes, if: asked.condition, by: asked.origin(client), mayWait: mayWait) {
                found throws(Failure) in try count(found, asked, client)
            }
            return sequence.map { committedReply(asked, sequence: $0, client) }
        } catch { return refusedReply(asked, error) }
    }

    // MARK: Large writes

    private struct LargeWrite: Sendable {
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

    private func prepare(_ large: LargeWrite) {
        let (asked, item) = (large.asked, large.item)
        // Checked before any work: while the log refuses commits, the write cannot be stored.
        do throws(Failure) { try logGuard.mustAcceptWrites() } catch { return answers.answer(.failed(error), item) }
        guard large.tries > 0 else { return giveUp(asked, item) }
        let isSuspended = suspendedRequests.suspend(item, holding: large.bytes, follows: .sinceItsTurn) { [self] in
            // The tree, the rules and the time are those of its turn: it may have waited for long.
            let permission = WritePermission(rules: content.rules, origin: asked.origin(item.client))
            let (base, now, limit) = (content.root, context.clock(), limits.dependencies)
            var large = large
            (large.rulesNumber, large.sequence) = (content.rulesNumber, content.sequence)
            return { [large] in (PreparedWrite.prepare(asked, permission, on: base, now: now, dependencies: limit), large) }
        } then: { [self] (prepared: (PreparedWrite.Outcome, LargeWrite)) in
            guard answersUnlessReadable(asked, item) else { return }
            switch prepared.0 {
            case .refused(let failure, let question):
                if let question { refusals.report(asked.ruled, of: asked.writes.first?.path ?? .root) { _ in question } }
                answers.answer(refusedReply(asked, failure), item)
            case .ready(let write):
                if case .onDisconnect = asked.purpose {
                    return answers.answer(disconnects.keepPermitted(asked.writes, item.client, bytes: large.bytesLeft), item)
                }
                order(write, prepared.1)
            }
        }
        if !isSuspended { answers.answer(.failed(.noRoom), item) }
    }

    /// Updates the child orders of live queries for a permitted write, in the background. Without memory for that, the queries show the
    /// write after its answer.
    private func order(_ write: PreparedWrite, _ large: LargeWrite) {
        let orders = indexes.orders(within: write.commonAncestor)
        if orders.isEmpty { return stage(write, large) }
        let isSuspended = suspendedRequests.suspend(large.item, holding: large.bytes + orders.bytes, follows: .sinceNow) {
            {
                var write = write
                write.orders = orders.following(write.candidate)
                return write
            }
        } then: { [self] (ordered: PreparedWrite) in
            if answersUnlessReadable(large.asked, large.item) { stage(ordered, large) }
        }
        if !isSuspended { stage(write, large) }
    }

    /// Stages a permitted write in the log, then continues with it.
    private func stage(_ write: PreparedWrite, _ large: LargeWrite) {
        let (asked, item) = (large.asked, large.item)
        // While the log refuses commits, `install` refuses this one like any other.
        guard item.size >= journal.stagedBytes, large.stage == nil, !logGuard.isRefusing else { return install(write, large) }
        let isSuspended = suspendedRequests.suspend(item, holding: large.bytes) { done in
            journal.stage(write.operations, completion: done)
        } then: { [self] (staged: Result<JournalStage, JournalError>) in
            guard answersUnlessReadable(asked, item) else { return }
            switch staged {
            case .success(let stage):
                var large = large
                large.stage = stage
                install(write, large)
            case .failure(let error):
                context.meter.counters.refusedWrites += 1
                answers.answer(refusedReply(asked, Failure(.unavailable, CommitRefusal(error).text)), item)
            }
        }
        if !isSuspended { answers.answer(.failed(.noRoom), item) }
    }

    /// Whether the client may still read the content that the answer reveals (returned content, or a confirmed hash). If not, answers with
    /// a refusal.
    private func answersUnlessReadable(_ asked: WriteRequest, _ item: SubmittedRequest) -> Bool {
        guard let place = asked.revealed, !permissions.allowsRead(place, nil, item.client) else { return true }
        answers.answer(.failed(.permissionDenied), item)
        return false
    }

    private func install(_ write: PreparedWrite, _ large: LargeWrite) {
        let item = large.item
        guard large.rulesNumber == content.rulesNumber, let others = commits.recent.places(since: large.sequence) else {
            return prepareAgain(large)
        }
        var write = write
        guard others.count > limits.followedPlaces, large.tries > 1 else {
            context.meter.counters.followedPlaces += others.count
            guard write.mergeCommits(content.root, others) else { return prepareAgain(large) }
            guard let reply = commitPrepared(write, large) else { return precheckObservers(write, large) }
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
            guard answersUnlessReadable(large.asked, item) else { return }
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
            guard answersUnlessReadable(next.asked, item) else { return }
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
        guard item.size <= limits.largeWriteBytes * 2, asked.writes.count <= limits.largeWritePlaces * 2 else {
            return answers.answer(.failed(.overtaken), item)
        }
        if let reply = commitInline(asked, item.client, mayWait: false) { answers.answer(reply, item) }
    }

    /// Commits a prepared write: O(depth), plus the work for its observers.
    /// - Returns: its answer. Nil if nothing was done: it may wait, and many observers depend on it.
    private func commitPrepared(_ write: PreparedWrite, _ large: LargeWrite) -> Reply? {
        let (asked, client) = (large.asked, large.item.client)
        do throws(Failure) {
            let sequence = try commits.commit(write, by: asked.origin(client), stage: large.stage, mayWait: large.tries > 1) {
                found throws(Failure) in try count(found, asked, client)
            }
            return sequence.map { committedReply(asked, sequence: $0, client, write.isShaped ? nil : write.operations) }
        } catch { return refusedReply(asked, error) }
    }

    // MARK: Answers

    /// The answer to a write that the writer applied for a client of this follower, in the tree of that commit.
    func forwardedReply(_ asked: WriteRequest, sequence: UInt64, _ client: Client) -> Reply { committedReply(asked, sequence: sequence, client) }
    func forwardedRefusal(_ asked: WriteRequest, _ failure: Failure) -> Reply { refusedReply(asked, failure) }

    /// A push key for a child that the writer will add.
    func nextKey() -> Key { pushIDs.next(now: context.clock()) }

    /// - Parameter operations: of a prepared write; nil to read the values from the tree.
    private func committedReply(_ asked: WriteRequest, sequence: UInt64, _ client: Client, _ operations: [JournalOperation]? = nil) -> Reply {
        switch asked.purpose {
        case .write: return .written(sequence: sequence)
        case .push(let key): return .pushed(key, sequence: sequence)
        case .onDisconnect: return .done
        case .exchange(let exchange, let key):
            var outcome = Exchanged()
            (outcome.key, outcome.sequence) = (key, sequence)
            if exchange.wantsContent { outcome.content = content.root.node(at: exchange.path) }
            // Values that the hub computed, or that the rules replaced, are returned only to clients that may read them. Other clients get
            // back the values they sent.
            let isComputed = asked.writes.contains { !$0.value.deferred.isEmpty }
            let isRuled = content.rules.shapesWrites || content.rules.hasConsequences
            if (isComputed || isRuled) && !permissions.mayRead(exchange.path, nil, client, in: content.root) {
                if !isComputed { outcome.written = asked.writes.map(\.value.node) }
            } else {
                outcome.written = operations?.map(\.value) ?? asked.writes.map { write in
                    let node = content.root.node(at: write.path)
                    return write.part == .node ? node : node.priority
                }
            }
            return .exchanged(outcome)
        }
    }

    private func refusedReply(_ asked: WriteRequest, _ failure: Failure) -> Reply {
        guard failure.code == .dataStale, case .exchange(let exchange, let key) = asked.purpose else { return .failed(failure) }
        var outcome = Exchanged()
        outcome.key = key
        outcome.isStale = true
        outcome.content = content.root.node(at: exchange.path)
        return .exchanged(outcome)
    }
}

extension Exchange {
    fileprivate var condition: Condition? { ifHash.map { Condition(path, hash: $0) } }
}

extension WriteRequest {
    /// The author and the cause of its commit.
    func origin(_ client: Client) -> WriteOrigin {
        var origin = localOrigin(client)
        origin.update = update
        if let remote = client.remote { origin.forwarded = remote.current }
        return origin
    }

    private func localOrigin(_ client: Client) -> WriteOrigin {
        if let cause { return .system(cause) }
        if case .exchange(let exchange, _) = purpose, exchange.isImport, client.identity.isAdmin { return .imported }
        return .client(client.identity)
    }
}
