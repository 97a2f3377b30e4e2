import Journal
import JSONTree
import SecurityRules

/// Carries out write requests. A small write is decided and committed at once on the database queue. A large one is prepared off the queue
/// (`LargeWrites`). A write counts as large, whatever its size, if the permission of many observers depends on it.
///
/// ```
/// request ── budgets ─┬─ small ──► WriteCommitter: commit ──► answer
///                     └─ large ──► LargeWrites
/// ```
/// Confined to the database queue.
final class WriteRequests: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let batch: Batch
    private let log: LogGuard
    private let commits: CommitPipeline
    private let disconnects: DisconnectWrites
    private let answers: Answers
    private let charges: WriteCharges
    private let committer: WriteCommitter
    private let largeWrites: LargeWrites
    private var pushIDs = PushIDGenerator()

    init(
        _ context: EngineContext, _ pipeline: BatchPipeline, _ commits: CommitPipeline, _ disconnects: DisconnectWrites, _ answers: Answers,
        _ charges: WriteCharges, _ committer: WriteCommitter, _ largeWrites: LargeWrites
    ) {
        self.context = context
        (content, batch, log) = (pipeline.content, pipeline.batch, pipeline.log)
        self.commits = commits
        self.disconnects = disconnects
        self.answers = answers
        self.charges = charges
        self.committer = committer
        self.largeWrites = largeWrites
    }

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
        if !left.isEmpty, !log.isRefusing { commits.record(left.map { .pendingRows(.without($0.id, Key(uid))) }) }
        write(WriteRequest(found.due(in: content.root), cause: .accountDeletion), item)
    }

    /// Carries out a write and answers it, at once or later.
    func write(_ asked: WriteRequest, _ item: SubmittedRequest) {
        let client = item.client
        if let remote = client.remote { remote.begin(item.token) }
        if !client.identity.isAdmin, asked.writes.count > context.limits.writePlaces {
            batch.retire(item)
            return answers.answer(.failed(.tooManyPlaces(context.limits.writePlaces)), item)
        }
        if let failure = charges.charge(asked, client) {
            batch.retire(item)
            return answers.answer(.failed(failure), item)
        }
        guard committer.answersUnlessReadable(asked, item) else { return }
        if !isLarge(asked, item), let reply = committer.commit(asked, client, mayWait: true) { return answers.answer(reply, item) }
        var large = LargeWrite(asked: asked, item: item, tries: context.limits.preparations)
        if case .onDisconnect = asked.purpose {
            do throws(Failure) {
                large.bytesLeft = try disconnects.bytes(with: asked.writes, client)
            } catch { return answers.answer(.failed(error), item) }
        }
        largeWrites.prepare(large)
    }

    /// Whether the write would hold the queue for longer than other clients should wait.
    private func isLarge(_ asked: WriteRequest, _ item: SubmittedRequest) -> Bool {
        if item.size > context.limits.largeWriteBytes || asked.writes.count > context.limits.largeWritePlaces { return true }
        var room = context.limits.largeWritePlaces
        // A node takes at least one byte, so fewer bytes cannot hold more nodes.
        if item.size > room, !asked.writes.allSatisfy({ $0.value.node.hasNodes(within: &room) }) { return true }
        // A priority takes few bytes, but the rules evaluate the whole subtree below it.
        room = context.limits.largeWritePlaces
        return asked.writes.contains { $0.part == .priority && !content.root.node(at: $0.path).hasNodes(within: &room) }
    }

    /// Repeats requests of a batch that was rolled back. They were charged before.
    func uncharged(_ repeatRequests: () -> Void) {
        charges.isRepeating = true
        defer { charges.isRepeating = false }
        repeatRequests()
    }

    // MARK: Forwarded requests

    /// The answer to a write that the writer applied for a client of this follower, in the tree of that commit.
    func forwardedReply(_ asked: WriteRequest, sequence: UInt64, _ client: Client) -> Reply {
        committer.reply(asked, sequence: sequence, client)
    }

    func forwardedRefusal(_ asked: WriteRequest, _ failure: Failure) -> Reply { committer.refusal(of: asked, failure) }

    /// A push key for a child that the writer will add.
    func nextKey() -> Key { pushIDs.next(now: context.clock()) }
}

extension Exchange {
    fileprivate var condition: Condition? { ifHash.map { Condition(path, hash: $0) } }
}
