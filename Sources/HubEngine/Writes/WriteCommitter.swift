import Journal
import JSONTree
import SecurityRules

/// Commits the write of a request, small or prepared, and makes its answer. Confined to the database queue.
final class WriteCommitter {
    private let content: Content
    private let commits: CommitPipeline
    private let disconnects: DisconnectWrites
    private let permissions: ReadPermissions
    private let charges: WriteCharges
    private let answers: Answers

    init(
        _ content: Content, _ commits: CommitPipeline, _ disconnects: DisconnectWrites, _ permissions: ReadPermissions,
        _ charges: WriteCharges, _ answers: Answers
    ) {
        self.content = content
        self.commits = commits
        self.disconnects = disconnects
        self.permissions = permissions
        self.charges = charges
        self.answers = answers
    }

    // MARK: Commits

    /// Commits a small write on the queue.
    /// - Returns: its answer. Nil if nothing was done: it may wait, and needs a large comparison or affects many observers.
    func commit(_ asked: WriteRequest, _ client: Client, mayWait: Bool) -> Reply? {
        if case .onDisconnect = asked.purpose { return disconnects.keep(asked.writes, client) }
        do throws(Failure) {
            let sequence = try commits.commit(asked.writes, if: asked.condition, by: asked.origin(client), mayWait: mayWait) {
                found throws(Failure) in try charges.charge(found, of: asked, client)
            }
            return sequence.map { reply(asked, sequence: $0, client) }
        } catch { return refusal(of: asked, error) }
    }

    /// Commits a prepared write: O(depth), plus the work for its observers.
    /// - Returns: its answer. Nil if nothing was done: it may wait, and many observers depend on it.
    func commit(_ write: PreparedWrite, _ large: LargeWrite) -> Reply? {
        let (asked, client) = (large.asked, large.item.client)
        do throws(Failure) {
            let sequence = try commits.commit(write, by: asked.origin(client), stage: large.stage, mayWait: large.tries > 1) {
                found throws(Failure) in try charges.charge(found, of: asked, client)
            }
            return sequence.map { reply(asked, sequence: $0, client) }
        } catch { return refusal(of: asked, error) }
    }

    /// Keeps a large onDisconnect write that was prepared. Its rules are known to allow it.
    func keep(_ large: LargeWrite) -> Reply { disconnects.keepPermitted(large.asked.writes, large.item.client, bytes: large.bytesLeft) }

    // MARK: Answers

    /// Whether the client may still read the content that the answer reveals (returned content, or a confirmed hash). If not, answers with
    /// a refusal.
    func answersUnlessReadable(_ asked: WriteRequest, _ item: SubmittedRequest) -> Bool {
        guard let place = asked.revealed, !permissions.allowsRead(place, nil, item.client) else { return true }
        answers.answer(.failed(.permissionDenied), item)
        return false
    }

    /// The answer to a write that was committed, in the tree of that commit.
    func reply(_ asked: WriteRequest, sequence: UInt64, _ client: Client) -> Reply {
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
            if (isComputed || isRuled) && permissions.mayRead(exchange.path, nil, client, in: content.root) {
                outcome.written = asked.writes.map { write in
                    let node = content.root.node(at: write.path)
                    return write.part == .node ? node : node.priority
                }
            } else if !isComputed {
                outcome.written = asked.writes.map(\.value.node)
            }
            return .exchanged(outcome)
        }
    }

    func refusal(of asked: WriteRequest, _ failure: Failure) -> Reply {
        guard failure.code == .dataStale, case .exchange(let exchange, let key) = asked.purpose else { return .failed(failure) }
        var outcome = Exchanged()
        outcome.key = key
        outcome.isStale = true
        outcome.content = content.root.node(at: exchange.path)
        return .exchanged(outcome)
    }
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
