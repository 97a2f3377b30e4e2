import JSONTree
import LiveQueries

/// When the answer to the current request is sent, relative to its batch.
enum ReplyTiming {
    /// When the batch is durable.
    case withBatch
    /// Undecided: before the batch if possible.
    case open
    /// Sent before the batch. A rollback need not repeat the request.
    case left
    /// Sent before the batch, but the request has changed the session, so a rollback repeats it.
    case settled
    /// The request runs again after a rollback; its answer was already sent.
    case muted
}

/// Decides which answers may be sent before earlier batches are durable. An answer must not depend on these batches, and no earlier message for its
/// client may be waiting.
///
/// ```
/// waiting batches:  [ put a ] [ put b ]      get a ─► waits: it has seen the put
///                                            get c ─► sent: same value and permission in the durable tree
/// ```
/// Confined to the database queue.
final class EarlyAnswers {
    private let content: Content
    private let batch: Batch
    private let durability: DurabilityQueue
    private let log: LogGuard
    private let places: PlaceTrie
    private let permissions: ReadPermissions
    private(set) var timing = ReplyTiming.withBatch

    init(
        _ content: Content, _ batch: Batch, _ durability: DurabilityQueue, _ log: LogGuard, _ places: PlaceTrie,
        _ permissions: ReadPermissions
    ) {
        self.content = content
        self.batch = batch
        self.durability = durability
        self.log = log
        self.places = places
        self.permissions = permissions
    }

    // MARK: Requests

    /// Runs a request whose answer may be sent early, and records what a rollback must repeat.
    func carryOut(_ item: SubmittedRequest, _ body: () -> Void) {
        timing = .open
        body()
        // A suspended request is recorded when it is done.
        if item.client.suspendedRequest == nil {
            switch timing {
            case .left: break
            case .settled: batch.record(.settled(item))
            default: batch.record(.request(item))
            }
        }
        timing = .withBatch
    }

    /// Runs a request of a rolled-back batch again without sending its answer again.
    func repeatMuted(_ body: () -> Void) {
        timing = .muted
        body()
        timing = .withBatch
    }

    /// True if the answer of the current request was sent before its batch.
    var hasAnswered: Bool {
        switch timing {
        case .left, .settled, .muted: true
        case .withBatch, .open: false
        }
    }

    // MARK: Answers

    /// Decides about an answer that was made without reading the database, and records the decision in `timing`.
    func admitsWithoutRead(_ client: Client) -> Bool {
        guard canPass(client) else { return false }
        timing = .left
        return true
    }

    /// Decides about the answer to a request, and records the decision in `timing`.
    func admits(_ reply: Reply, _ item: SubmittedRequest) -> Bool {
        // Most requests are writes. They always wait for the log, so skip the check of their clients' observers.
        if case .write = item.request { return false }
        guard canPass(item.client) else { return false }
        switch item.request {
        case .get(let path, let query):
            guard isDurable(reply, path, query, item.client) else { return false }
            timing = .left
        case .exchange(let exchange):
            guard case .read(let query) = exchange.work, isDurable(reply, exchange.path, query, item.client) else { return false }
            timing = .left
        case .identify, .signOut:
            // With pending onDisconnect writes, or for a client of another hub, identifying is a commit.
            guard item.client.pendingID == nil, item.client.remote == nil else { return false }
            timing = .settled
        default: return false
        }
        return true
    }

    /// True if batches wait for the log, and none of them has output for the client.
    private func canPass(_ client: Client) -> Bool {
        guard timing == .open, batch.keepsHistory, !log.isRefusing, durability.isBehind else { return false }
        let first = durability.firstWaiting
        return client.lastSent < first && client.observations.areFew(Self.observersAsked) { observation in
            places.existingView(of: observation).map { $0.lastChange < first } ?? true
        }
    }

    /// Maximum number of observers checked for one answer. A client with more always waits.
    private static let observersAsked = 32

    /// True if the durable tree gives the same answer to a read.
    private func isDurable(_ reply: Reply, _ path: Path, _ query: Query?, _ client: Client) -> Bool {
        let durable = durability.durable.root
        let mayRead = permissions.mayRead(path, query, client, in: durable)
        if case .failed(let failure) = reply, failure == .permissionDenied { return !mayRead }
        return mayRead && durable.node(at: path).isIdentical(to: content.root.node(at: path))
    }
}
