import JSONTree

/// When the answer of the current request is sent.
enum Departure {
    /// When its batch is durable.
    case withBatch
    /// Undecided: before its batch if possible.
    case open
    /// It was sent before its batch, and a rollback need not repeat the request.
    case left
    /// It was sent before its batch, but the request has changed the session.
    case settled
    /// The request is carried out again, and its answer was sent before.
    case muted
}

/// Decides which answers are sent before the waiting batches are durable: those that do not depend on these batches, to clients for
/// which no earlier message waits.
///
/// ```
/// batches that wait:  [ put a ] [ put b ]      get a ─► waits: it has seen the put
///                                              get c ─► leaves: the same in the durable tree, and as permitted there
/// ```
/// Confined to the database queue.
final class EarlyAnswers {
    private let content: Content
    private let batch: Batch
    private let durability: DurabilityLine
    private let log: LogGuard
    private let places: PlaceTrie
    private let permissions: ReadPermissions
    private(set) var departure = Departure.withBatch

    init(
        _ content: Content, _ batch: Batch, _ durability: DurabilityLine, _ log: LogGuard, _ places: PlaceTrie,
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

    /// Carries out a request whose answer may leave early, and records what has to be done of it again if the batch is given up.
    func carryOut(_ item: Database.Item, _ body: () -> Void) {
        departure = .open
        body()
        // A parked request is recorded when it is done.
        if item.client.parked == nil {
            switch departure {
            case .left: break
            case .settled: batch.record(.settled(item))
            default: batch.record(.request(item))
            }
        }
        departure = .withBatch
    }

    /// Carries out a request of a batch that is given up again; its answer has left.
    func repeatMuted(_ body: () -> Void) {
        departure = .muted
        body()
        departure = .withBatch
    }

    /// Whether the answer of the request that is carried out has left before its batch.
    var hasAnswered: Bool {
        switch departure {
        case .left, .settled, .muted: true
        case .withBatch, .open: false
        }
    }

    // MARK: Answers

    /// Decides about an answer that was made without the database, and records the decision in `departure`.
    func admitsUnread(_ client: Client) -> Bool {
        guard canPass(client) else { return false }
        departure = .left
        return true
    }

    /// Decides about the answer of a request, and records the decision in `departure`.
    func admits(_ reply: Reply, _ item: Database.Item) -> Bool {
        // Writes are most requests and wait for the log: their clients' observers are not looked at.
        if case .write = item.request { return false }
        guard canPass(item.client) else { return false }
        switch item.request {
        case .get(let path, let query):
            guard isDurable(reply, path, query, item.client) else { return false }
            departure = .left
        case .exchange(let exchange):
            guard case .read(let query) = exchange.work, isDurable(reply, exchange.path, query, item.client) else { return false }
            departure = .left
        case .identify, .signOut:
            // With pending onDisconnect writes, and for another hub, it is a commit.
            guard item.client.pendingID == nil, item.client.remote == nil else { return false }
            departure = .settled
        default: return false
        }
        return true
    }

    /// Whether batches wait for the log, and none of them has output for the client.
    private func canPass(_ client: Client) -> Bool {
        guard departure == .open, batch.keepsHistory, !log.isRefusing, durability.isBehind else { return false }
        let first = durability.firstWaiting
        return client.lastSent < first && client.observations.areFew(Self.observersAsked) { observation in
            places.existingView(of: observation).map { $0.lastChange < first } ?? true
        }
    }

    /// Most observers that are checked for one answer; the answers of a client with more always wait.
    private static let observersAsked = 32

    /// Whether the durable tree would give the same answer to a read.
    private func isDurable(_ reply: Reply, _ path: Path, _ query: ChildQuery?, _ client: Client) -> Bool {
        let durable = durability.durable.root
        let mayRead = permissions.mayRead(path, query, client, in: durable)
        if case .failed(let failure) = reply, failure == .permissionDenied { return !mayRead }
        return mayRead && durable.node(at: path).isIdentical(to: content.root.node(at: path))
    }
}
