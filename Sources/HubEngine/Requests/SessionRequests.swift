import JSONTree
import Synchronization

/// Carries out the requests of a client about itself: its session, its identity, and what is sent to it. The end of a session is suspended
/// while the rules are evaluated for many observers of its onDisconnect writes. Confined to the database queue.
final class SessionRequests: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let sessions: Sessions
    private let permissions: ReadPermissions
    private let precheck: PermissionPrecheck
    private let suspendedRequests: SuspendedRequests
    private let disconnects: DisconnectWrites
    private let early: EarlyAnswers
    private let answers: Answers
    private let outbox: Outbox

    init(
        _ context: EngineContext, _ sessions: Sessions, _ permissions: ReadPermissions, _ precheck: PermissionPrecheck,
        _ suspendedRequests: SuspendedRequests, _ disconnects: DisconnectWrites, _ output: ClientOutput
    ) {
        self.context = context
        self.sessions = sessions
        self.permissions = permissions
        self.precheck = precheck
        self.suspendedRequests = suspendedRequests
        self.disconnects = disconnects
        (early, answers, outbox) = (output.early, output.answers, output.outbox)
    }

    /// Carries out a request again, after a precheck.
    typealias Again = @Sendable (SubmittedRequest) -> Void

    func begin(_ sessionID: String, replacing previous: String?, _ item: SubmittedRequest, again: @escaping Again) {
        let client = item.client
        if let old = sessions.ended(by: client, replacing: previous), suspendsForPrecheck(beforeEndOf: old, item, again) { return }
        sessions.begin(client, sessionID, replacing: previous)
    }

    func end(_ item: SubmittedRequest, again: @escaping Again) {
        if !suspendsForPrecheck(beforeEndOf: item.client, item, again) { sessions.end(item.client) }
    }

    /// Ends a session whose credential is no longer valid.
    func revoke(_ notice: [UInt8], _ item: SubmittedRequest, again: @escaping Again) {
        let client = item.client
        if suspendsForPrecheck(beforeEndOf: client, item, again) { return sessions.endRights(of: client) }
        outbox.send(notice, to: client)
        sessions.end(client)
        outbox.close(client)
    }

    func cancelOnDisconnect(_ path: Path, _ item: SubmittedRequest) {
        if let remote = item.client.remote { remote.begin(item.token) }
        answers.answer(disconnects.cancel(path, of: item.client), item)
    }

    func waitBehind(_ user: String, _ item: SubmittedRequest) { suspendedRequests.waitBehind(user, item) }
    func answer(_ bytes: [UInt8], _ item: SubmittedRequest) { answers.answer(bytes, to: item.client) }
    func mark(_ bytes: Int, _ item: SubmittedRequest) { outbox.mark(item.client, bytes) }

    /// Suspends the end of a session while the rules are evaluated for the observers that depend on its onDisconnect writes, if there are
    /// many. Not if the memory budget is exhausted.
    /// - Parameter item: the request that ends the session; carried out again when the results are known.
    /// - Returns: whether it is suspended.
    private func suspendsForPrecheck(
        beforeEndOf client: Client, _ item: SubmittedRequest, _ again: @escaping Again
    ) -> Bool {
        guard let bytes = precheck.bytes(before: disconnects.due(of: client)) else { return false }
        let round = precheck.round + 1
        return suspendedRequests.suspend(item, holding: bytes, follows: .never) { [self] in
            let question = precheck.question(before: disconnects.due(of: client), round: round)
            return { PrecheckedDecisions(question) }
        } then: { [self] found in
            precheck.use(found) { again(item) }
        }
    }

    /// After the rules were evaluated for many observers, other clients get their turn before the client's next request.
    func identify(as identity: Identity, _ reply: Reply, _ item: SubmittedRequest) {
        if let remote = item.client.remote { remote.begin(item.token) }
        let isAnother = identity != item.client.identity
        let refusal = sessions.identify(item.client, as: identity)
        answers.answer(refusal.map { .failed($0) } ?? reply, item)
        guard isAnother else { return }
        let isLong = item.client.observations.count > context.limits.removalsAtOnce
        permissions.recheckObservers(of: item.client)
        if isLong { suspendedRequests.yieldTurn(item, isAnswered: early.hasAnswered) }
    }

    // MARK: Rollback

    func repeatApplied(_ left: PendingSession) { disconnects.applyEnded(left) }
    func repeatRelog(_ id: String) { disconnects.relogLater(id) }
}
